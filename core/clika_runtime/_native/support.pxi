# Errors, dtypes and devices between Python and C++.
import sys
import threading

from .. import dtypes as _dtypes
from .. import errors as _errors
from .._size import Size
from ..device import Device

cdef list _DTYPES = [None] * 32
for _code in range(1, 27):
    _DTYPES[_code] = _dtypes.by_code(_code)

# struct / buffer formats of the dtypes that Python can read by itself.
cdef dict _FORMATS = {
    1: "?", 4: "b", 5: "h", 6: "i", 7: "q", 11: "B", 12: "H", 13: "I", 14: "Q", 15: "e", 17: "f", 18: "d",
}
cdef dict _CODE_OF_FORMAT = {
    "?": 1, "b": 4, "h": 5, "i": 6, "q": 7, "l": 7, "B": 11, "H": 12, "I": 13, "Q": 14, "L": 14, "e": 15,
    "f": 17, "d": 18, "c": 11,
}


cdef object raise_error(const ErrorPtr& error, str operation):
    cdef const Error* e = error.get()
    message = e.message.decode("utf-8", "replace")
    if operation and not message.startswith(operation):
        message = f"{operation}: {message}"
    raise _errors.from_native(e.status, e.code.decode("ascii", "replace"), message)


cdef object invalid(str message):
    return _errors.InvalidArgumentError(message)


cdef bytes utf8_name(str what, str name):
    """A name of the caller's for the native core, which keeps names in UTF-8."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise invalid(f"{what}: {name!r} is no text: it has a lone surrogate") from None
    if not encoded:
        raise invalid(f"{what}: the name is empty")
    return encoded


cdef bytes utf8_text(object text):
    """A message for the native core; what is no text is escaped."""
    return str(text).encode("utf-8", "backslashreplace")


cdef int32_t dtype_code(object dtype) except -1:
    if not isinstance(dtype, _dtypes.dtype):
        raise TypeError(f"expected a clika_runtime dtype such as clika_runtime.float32, got {dtype!r}")
    return dtype.code


# ---------------------------------------------------------------- devices
cdef dict _DEVICE_OF_ID = {0: Device("cpu"), -1: Device("meta")}
cdef dict _ID_OF_DEVICE = {Device("cpu"): 0, Device("meta"): -1}
cdef dict _PYTHON_BACKENDS = {}  # backend id -> object
cdef dict _PYTHON_KERNELS = {}   # (backend id, operator) -> callable
cdef object _backend_lock = threading.RLock()
cdef bint _cpu_loaded = False


cdef int32_t device_id(object device) except -2:
    """The number of a device; its backend is loaded on first need."""
    if device is None:
        return default_device()
    if not isinstance(device, Device):
        device = Device(device)
    known = _ID_OF_DEVICE.get(device)
    if known is not None:
        return known
    cdef int32_t backend
    try:
        backend = ensure_backend(device.type)
    except _errors.InternalError as error:
        if not error.code_name.startswith("BACKEND_"):
            raise
        raise _errors.InternalError(
            f"cannot allocate on device {device.api}:{device.index}: {error}", error.code_name) from error
    count = device_count(device.type)
    if device.index >= count:
        here = ", ".join([f"{device.type}:{i}" for i in range(count)]) or "none"
        raise _errors.InternalError(
            f"cannot allocate on device {device.api}:{device.index}: the devices of this machine are {here}",
            "BACKEND_UNAVAILABLE",
        )
    cdef int32_t result = backend * 256 + <int32_t>device.index
    _ID_OF_DEVICE[device] = result
    _DEVICE_OF_ID[result] = device
    return result


cdef int check_variables() except -1:
    """Refuses a value of an environment variable that the core cannot honour."""
    cdef ErrorPtr error = check_environment()
    if error.get() is not NULL:
        raise_error(error, "")
    return 0


cdef int32_t ensure_backend(str kind) except -1:
    """Loads the backend of a device kind once and returns its id."""
    global _cpu_loaded
    cdef bytes name = utf8_name("device", kind)
    cdef Backend* known = backend_by_name(name)
    if known is not NULL:
        return known.id
    with _backend_lock:
        known = backend_by_name(name)
        if known is not NULL:
            return known.id
        check_variables()
        from .. import plugins

        result = register_backend(kind, plugins.load_backend(kind))
        if kind == "cpu":
            _cpu_loaded = True
        return result


def register_backend(str name, backend):
    """Registers a backend under a device kind and returns its number.

    ``backend`` is a PyCapsule ``clika_runtime.backend`` over the table of ``plugin.h``, or a pure-Python backend:
    an object whose ``kernels`` maps operator names to callables. A callable gets a `KernelCall` and fills its
    outputs. It may have two attributes: ``dtypes``, names of the dtypes that its dense operands and results may
    have, and ``schemes``, numbers of the packed weights that it takes. A call outside them runs the operator's
    composed form or is declined; without an attribute the callable gets everything.

    Optional on the object: ``name``, ``device_count`` (1), ``device_properties(index)`` (a dict of fields of
    `DeviceProperties`).

    Raises `InternalError` when the table was built for another ABI or the name is taken.
    """
    cdef string why
    cdef const clika_backend* table = NULL
    if type(backend).__name__ == "PyCapsule":
        table = <const clika_backend*>PyCapsule_GetPointer(backend, CLIKA_BACKEND_CAPSULE)
    elif not hasattr(backend, "kernels"):
        raise _errors.InternalError(
            f"backend '{name}': expected a PyCapsule '{CLIKA_BACKEND_CAPSULE.decode()}' or an object with "
            f"'kernels', got {backend!r}", "BACKEND_NOT_LOADED")
    cdef int32_t result = _register(utf8_name("register_backend", name), table, &why)
    if result < 0:
        raise _errors.InternalError(why.decode(), "BACKEND_NOT_LOADED")
    _PYTHON_BACKENDS[result] = backend
    return result


cdef int32_t _register(string name, const clika_backend* table, string* why):
    return register_backend_native(name, table, why)


cdef object device_object(int32_t device):
    return _DEVICE_OF_ID[device]


def device_of(int32_t number):
    """The device with a number that `device_number` gave."""
    return device_object(number)


def device_number(device):
    """The number of a device in this process; None is the scope's."""
    return device_id(device)


def device_count(str kind):
    """How many devices of a kind there are; the backend is loaded on first need."""
    cdef Backend* backend = backend_by_id(ensure_backend(kind))
    if backend.table is NULL:
        return int(getattr(_PYTHON_BACKENDS[backend.id], "device_count", 1))
    if backend.table.device_count is NULL:
        return 1
    return backend.table.device_count()


def device_properties(str kind, int index=0):
    """The facts of `DeviceProperties` as a dict."""
    cdef Backend* backend = backend_by_id(ensure_backend(kind))
    cdef clika_device_properties p
    import ctypes

    ctypes.memset(<uintptr_t>&p, 0, sizeof(p))
    p.size = sizeof(p)
    if backend.table is NULL:
        own = _PYTHON_BACKENDS[backend.id]
        facts = {"name": getattr(own, "name", kind)}
        if hasattr(own, "device_properties"):
            facts.update(own.device_properties(index))
        return facts
    if backend.table.device_properties is NULL:
        return {"name": kind}
    cdef int32_t status = backend.table.device_properties(index, &p)
    if status != 0:
        raise _errors.InternalError(f"device_properties: {kind}:{index} gave status {status}")
    return {
        "name": (<bytes>p.name).decode("utf-8", "replace"),
        "driver": (<bytes>p.driver).decode("utf-8", "replace"),
        "runtime": (<bytes>p.runtime).decode("utf-8", "replace"),
        "memory_bytes": p.memory_bytes,
        "units": p.units,
        "compute_capability": p.compute_capability,
        "warp": p.warp,
        "max_threads_per_block": p.max_threads_per_block,
        "shared_memory_bytes": p.shared_memory_bytes,
        "tensor_cores": bool(p.tensor_cores),
        "fp16": bool(p.fp16),
        "bf16": bool(p.bf16),
        "fp8_e4m3": bool(p.fp8_e4m3),
        "isa": (<bytes>p.isa).decode("ascii", "replace"),
    }


# ---------------------------------------------------------------- scopes of a thread
class _Scopes(threading.local):
    synchronous = 0
    device = None


cdef object _scopes = _Scopes()
cdef int _any_scope = 0  # threads inside a scope: 0 spares the look-up on every call


cdef int32_t default_device() except -2:
    if _any_scope and _scopes.device is not None:
        return device_id(_scopes.device)
    return 0


cdef class _Scope:
    """A context manager and decorator over one thread-local setting."""

    cdef str name
    cdef object value
    cdef list before

    def __init__(self, str name, value):
        self.name = name
        self.value = value
        self.before = []

    def __enter__(self):
        global _any_scope
        self.before.append(getattr(_scopes, self.name))
        setattr(_scopes, self.name, self.value)
        _any_scope += 1
        return self

    def __exit__(self, *failure):
        global _any_scope
        setattr(_scopes, self.name, self.before.pop())
        _any_scope -= 1

    def __call__(self, function):
        import functools

        name, value = self.name, self.value

        @functools.wraps(function)
        def scoped(*args, **kwargs):
            with _Scope(name, value):
                return function(*args, **kwargs)

        return scoped


def synchronous():
    """A scope in which every operator that the thread calls has completed when the call returns."""
    return _Scope("synchronous", 1)


def device_scope(device):
    """A scope whose device is the default of factories (the thread's own)."""
    return _Scope("device", Device(device))
