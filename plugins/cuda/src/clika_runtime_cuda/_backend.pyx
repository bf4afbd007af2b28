# cython: language_level=3
"""The backend's table as a capsule, and what the tests ask of the compiler of its kernels."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from os import fsencode


cdef extern from "clika_runtime/plugin.h" nogil:
    ctypedef struct clika_backend:
        pass


cdef extern from "driver.hpp" namespace "clika_cuda" nogil:
    cdef struct Settings:
        vector[string] driver
        vector[string] nvrtc
        vector[string] cublaslt
        string sources
        string cache
    Settings& settings()
    string c_probe "clika_cuda::probe"()


cdef extern from "device.hpp" namespace "clika_cuda" nogil:
    int last_failure(char*, size_t, char*, size_t)


cdef extern from "compiler.hpp" namespace "clika_cuda" nogil:
    cdef cppclass Counter "std::atomic<uint64_t>":
        uint64_t load()
    cdef cppclass CompilerCounters:
        Counter compiled
        Counter cached
        Counter damaged
    CompilerCounters& compiler_counters()
    cbool c_compile "clika_cuda::compile"(string, string, string, string*)
    cbool c_architecture "clika_cuda::architecture"(int, string*)


cdef extern from "table.hpp" namespace "clika_cuda" nogil:
    cdef struct ProgramText:
        string source
        string defines
    vector[ProgramText] c_programs "clika_cuda::programs"()
    vector[string] c_operators "clika_cuda::operators"()
    const clika_backend* backend_table()


cdef bint _configured = False


def configure(driver, nvrtc, cublaslt, str sources, str cache):
    """Says where libraries, sources and compiled kernels are; the first call of the process counts."""
    global _configured
    if _configured:
        return
    settings().driver = [fsencode(path) for path in driver]
    settings().nvrtc = [fsencode(path) for path in nvrtc]
    settings().cublaslt = [fsencode(path) for path in cublaslt]
    settings().sources = fsencode(sources)
    settings().cache = fsencode(cache)
    _configured = True


def probe():
    """None when the backend is usable here, else the reason why it is not."""
    cdef string reason
    with nogil:
        reason = c_probe()
    return reason.decode("utf-8", "replace") if reason.size() else None


def backend():
    """The capsule ``clika_runtime.backend``."""
    return PyCapsule_New(<void*>backend_table(), "clika_runtime.backend", NULL)


def programs():
    """(source, definitions) of everything that is compiled for a device."""
    return [(one.source.decode(), one.defines.decode()) for one in c_programs()]


def operators():
    """The operators that have kernels here."""
    cdef vector[string] names = c_operators()
    return [name.decode() for name in names]


def compile(str source, str defines, str arch):
    """The machine code of a kernel source for an architecture such as ``sm_90``; RuntimeError with the compiler's
    log where it does not compile."""
    cdef string out
    cdef string name = source.encode()
    cdef string words = defines.encode()
    cdef string target = arch.encode()
    cdef cbool done
    with nogil:
        done = c_compile(name, words, target, &out)
    if not done:
        raise _failure()
    return <bytes>out


def architecture(int capability):
    """What code for devices of a compute capability (90 is 9.0) is compiled for; RuntimeError where the compiler has
    nothing that runs there."""
    cdef string out
    if not c_architecture(capability, &out):
        raise _failure()
    return out.decode()


cdef object _failure():
    cdef char code[64]
    cdef char message[4096]
    last_failure(code, sizeof(code), message, sizeof(message))
    return RuntimeError((<bytes>message).decode("utf-8", "replace"))


def counters():
    """How often this process ``compiled`` a kernel, found it ``cached``, and found a ``damaged`` file there."""
    cdef CompilerCounters* c = &compiler_counters()
    return {"compiled": c.compiled.load(), "cached": c.cached.load(), "damaged": c.damaged.load()}
