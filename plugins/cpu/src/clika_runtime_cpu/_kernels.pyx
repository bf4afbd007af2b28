# cython: language_level=3
"""The kernel table of the CPU backend, as a capsule."""

from cpython.pycapsule cimport PyCapsule_New


cdef extern from "clika_runtime/plugin.h" nogil:
    ctypedef struct clika_backend:
        pass


cdef extern from "loader/loader.hpp" namespace "clika_cpu" nogil:
    const clika_backend* backend_table(const char* cap, char* reason, size_t reason_bytes)
    const char* best_level()


def backend(str isa=None):
    """Return the capsule ``clika_runtime.backend`` with the table of the best usable level.

    ``isa`` caps the level (``portable``, ``avx2``, ``avx512``); by default the environment variable
    ``CLIKA_RT_CPU_ISA`` does. A cap above what the machine has leaves the machine's best.

    Raises:
        ValueError: the cap is none of the three names.
    """
    cdef char reason[256]
    cdef bytes cap = b"" if isa is None else isa.encode()
    cdef const clika_backend* table = backend_table(cap, reason, sizeof(reason))
    if table == NULL:
        raise ValueError(reason.decode())
    return PyCapsule_New(<void*>table, "clika_runtime.backend", NULL)


def probe():
    """Return None when the backend is usable here, else the reason why it is not."""
    cdef char reason[256]
    if backend_table(NULL, reason, sizeof(reason)) == NULL:
        return reason.decode()
    return None


def level():
    """Return the name of the best level of this machine, without any cap."""
    return best_level().decode()
