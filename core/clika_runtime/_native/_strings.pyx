# distutils: language = c++
# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False, emit_code_comments=False
# cython: allow_none_for_extension_args=False
"""Arrays of strings as GGUF has them, of which a vocabulary is a hundred thousand: a length of eight bytes
(little-endian) and that many bytes of UTF-8, one after the other. Every length is checked against the buffer."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t

cdef extern from "Python.h":
    unicode PyUnicode_DecodeUTF8(const char* data, Py_ssize_t size, const char* errors)
    Py_ssize_t PyUnicode_FindChar(object text, Py_UCS4 letter, Py_ssize_t start, Py_ssize_t end, int direction) except -2
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    unicode PyUnicode_Substring(object text, Py_ssize_t start, Py_ssize_t end)
    int PyGC_Disable()
    int PyGC_Enable()
    void PyObject_GC_UnTrack(object made)

cdef enum:
    LENGTH = 8  # bytes of a length


cdef inline uint64_t _length(const unsigned char* at) noexcept nogil:
    cdef uint64_t result = 0
    cdef int i
    for i in range(LENGTH):
        result |= <uint64_t>at[i] << (8 * i)
    return result


cdef Py_ssize_t _after(const unsigned char* data, Py_ssize_t size, Py_ssize_t at) noexcept nogil:
    """The end of the string that begins at ``at``; -1 where it reaches past the end of the buffer."""
    cdef uint64_t length
    if size - at < LENGTH:
        return -1
    length = _length(data + at)
    return -1 if length > <uint64_t>(size - at - LENGTH) else at + LENGTH + <Py_ssize_t>length


def end_of_strings(data, Py_ssize_t start, Py_ssize_t count):
    """Where ``count`` strings from ``start`` on end; -1 where they reach past the end of ``data``."""
    cdef Py_buffer view
    cdef Py_ssize_t at = start
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= view.len:
            return -1
        with nogil:
            while count > 0 and at >= 0:
                at = _after(<const unsigned char*>view.buf, view.len, at)
                count -= 1
        return at
    finally:
        PyBuffer_Release(&view)


def read_strings(data, Py_ssize_t count, list into):
    """Appends the first ``count`` strings of ``data`` to ``into``.

    Raises UnicodeDecodeError for what is not UTF-8 and ValueError for a string that reaches past the end; those
    before it are in ``into`` then."""
    cdef Py_buffer view
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t end
    cdef Py_ssize_t i
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for i in range(count):
            end = _after(<const unsigned char*>view.buf, view.len, at)
            if end < 0:
                raise ValueError(f"string {i} reaches past the end of the {view.len} bytes")
            at += LENGTH
            into.append(PyUnicode_DecodeUTF8(<const char*>view.buf + at, end - at, NULL))
            at = end
    finally:
        PyBuffer_Release(&view)


def split_pairs(list texts):
    """Each text as the pair (left, right) of what stands before and behind the first space after its first character;
    None in the place of a text without these."""
    cdef list pairs = []
    cdef Py_ssize_t size
    cdef Py_ssize_t space
    cdef tuple pair
    cdef bint collecting = PyGC_Disable()  # for this loop, which calls nobody: pairs of strings form no cycles
    try:
        for text in texts:
            if type(text) is not str:
                raise TypeError(f"split_pairs: a text must be a string, got {type(text).__name__}")
            size = PyUnicode_GET_LENGTH(text)
            space = PyUnicode_FindChar(text, c" ", 1, size, 1) if size > 1 else -1
            if space < 0 or space + 1 == size:
                pairs.append(None)
                continue
            pair = (PyUnicode_Substring(text, 0, space), PyUnicode_Substring(text, space + 1, size))
            PyObject_GC_UnTrack(pair)
            pairs.append(pair)
    finally:
        if collecting:
            PyGC_Enable()
    return pairs
