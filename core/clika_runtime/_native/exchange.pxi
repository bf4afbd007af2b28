# Ways in and out of a tensor: Python numbers, bytes, NumPy, foreign memory, DLPack, pickles.
import struct as _struct

from cpython.buffer cimport PyObject_CheckBuffer
from libc.stdint cimport uint16_t

cdef extern from "exchange.hpp" namespace "clika" nogil:
    ctypedef struct DLDevice:
        int32_t type
        int32_t index
    ctypedef struct DLType:
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct DLArray:
        void* data
        DLDevice device
        int32_t rank
        DLType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct DLManaged:
        DLArray array
        void (*deleter)(DLManaged*)
    ctypedef struct DLVersioned:
        uint32_t major
        uint32_t minor
        void (*deleter)(DLVersioned*)
        uint64_t flags
        DLArray array
    uint64_t kDLReadOnly
    DLManaged* export_managed(const TensorRecord&, DLDevice, DLType, void*)
    DLVersioned* export_versioned(const TensorRecord&, DLDevice, DLType, cbool, void*)

cdef extern from "Python.h":
    int PyCapsule_IsValid(object capsule, const char* name)
    int PyCapsule_SetName(object capsule, const char* name) except -1


# ---------------------------------------------------------------- foreign memory
@cython.no_gc
cdef class _Lender:
    """Foreign memory that a storage borrows, given back when the last tensor over it is gone."""

    cdef Py_buffer view       # of an object with the buffer protocol
    cdef bint viewed
    cdef object kept          # kept alive
    cdef object deleter       # called once with `kept`
    cdef DLManaged* managed   # of another library
    cdef DLVersioned* versioned
    cdef int32_t device       # of the memory

    def __dealloc__(self):
        cdef ErrorPtr error
        if self.device > 255:
            # Calls on the memory may still be on the stream, and its owner knows nothing of them.
            with nogil:
                error = synchronize_device(self.device)
        if self.viewed:
            PyBuffer_Release(&self.view)
        if self.managed is not NULL and self.managed.deleter is not NULL:
            self.managed.deleter(self.managed)
        if self.versioned is not NULL and self.versioned.deleter is not NULL:
            self.versioned.deleter(self.versioned)
        if self.deleter is not None:
            try:
                self.deleter(self.kept)
            except BaseException:  # whoever drops the last tensor is not the one to tell
                pass


cdef void _release(void* owner) noexcept:
    Py_DECREF(<object>owner)


cdef void _release_later(void* owner) noexcept nogil:
    # Runs on whichever thread drops the last reference, without the GIL: hand it to the next holder.
    defer_release(_release, owner)


cdef inline void _collect() noexcept:
    if has_deferred_releases():
        run_deferred_releases()


cdef int _lend(Tensor result, _Lender lender, void* data, int64_t nbytes, bint mapped, bint writable) except -1:
    """Puts borrowed bytes under a tensor that has its shape and its device already."""
    cdef StorageKind kind = kBorrowed
    lender.device = result.record.device
    if mapped:
        kind = kMapped
    Py_INCREF(lender)
    result.record.storage = Storage.borrow(data, <size_t>nbytes, result.record.device, kind, _release_later,
                                           <void*>lender, writable)
    return 0


def _packed_bytes(shape, int32_t scheme):
    """Bytes of the payload of a packed weight. Raises for an unknown scheme and for rows of part blocks."""
    cdef clika_block block = clika_block_of(scheme)
    if block.columns == 0:
        raise _errors.UnsupportedError(f"from_buffer: there is no scheme number {scheme}",
                                       "NOT_IMPLEMENTED_FOR_SCHEME")
    if not shape or shape[-1] % block.columns:
        raise invalid(f"from_buffer: the last size of shape {list(shape)} must be a multiple of {block.columns}, the "
                      f"block of scheme {scheme}")
    total = block.bytes
    for size in shape:
        total *= size
    return total // block.columns


cdef Tensor _borrow(object buffer, object shape, object dtype, int32_t scheme, Py_ssize_t offset, bint mapped,
                    object owner):
    cdef int32_t code = dtype_code(dtype)
    cdef Tensor result = Tensor.__new__(Tensor)
    _set_shape(&result.record, shape, "from_buffer")
    result.record.dtype = code
    result.record.scheme = scheme
    needed = (_packed_bytes(result._sizes(), scheme) if scheme
              else dense_bytes(result.record.rank, result.record.shape, code))
    cdef _Lender lender = _Lender.__new__(_Lender)
    PyObject_GetBuffer(buffer, &lender.view, PyBUF_SIMPLE)
    lender.viewed = True
    lender.kept = owner
    if offset < 0 or offset > lender.view.len or needed > lender.view.len - offset:
        raise invalid(f"from_buffer: shape {list(result._sizes())} of {dtype.name} takes {needed} bytes from byte "
                      f"{offset} on, the buffer has {lender.view.len}")
    _lend(result, lender, <char*>lender.view.buf + offset, lender.view.len - offset, mapped, not lender.view.readonly)
    return result


def from_blob(data, shape, dtype, strides=None, *, deleter=None):
    """A tensor over memory that someone else owns; nothing is copied, and both see each other's writes.

    ``data`` is an object with the buffer protocol, which is kept alive, or the address of the first element, whose
    memory must stay there. ``strides``, in elements, show memory that is not row-major; they are not negative.
    With a ``deleter`` the memory is adopted: ``deleter(data)`` is called once, when the last tensor over it is gone;
    what it raises is dropped.

    Raises `InvalidArgumentError` where the elements reach beyond the buffer.

    >>> from_blob(bytearray(24), (2, 2), float32, strides=(3, 1)).shape
    clika_runtime.Size([2, 2])
    """
    cdef int32_t code = dtype_code(dtype)
    cdef Tensor result = Tensor.__new__(Tensor)
    cdef _Lender lender = _Lender.__new__(_Lender)
    cdef uintptr_t address
    cdef int32_t i = 0
    if deleter is not None and not callable(deleter):
        raise TypeError(f"from_blob: deleter must be callable, got {deleter!r}")
    _set_shape(&result.record, shape, "from_blob")
    result.record.dtype = code
    needed = dense_bytes(result.record.rank, result.record.shape, code)
    if strides is not None:
        needed = _strided_bytes("from_blob", result._sizes(), strides, dtype)
        for step in strides:
            result.record.strides[i] = _whole("from_blob", "a stride", step)
            i += 1
    if isinstance(data, int):
        if not 0 < data < 1 << 64 and needed:
            raise invalid(f"from_blob: {data} is no address of memory")
        address = data
        lender.kept = data
        _lend(result, lender, <void*>address, needed, False, True)
    else:
        PyObject_GetBuffer(data, &lender.view, PyBUF_SIMPLE)
        lender.viewed = True
        lender.kept = data
        if needed > lender.view.len:
            raise invalid(f"from_blob: shape {list(result._sizes())} of {dtype.name} takes {needed} bytes, the buffer "
                          f"has {lender.view.len}")
        _lend(result, lender, lender.view.buf, lender.view.len, False, not lender.view.readonly)
    lender.deleter = deleter
    return result


cdef object _strided_bytes(str operation, tuple sizes, object strides, object dtype):
    """Bytes from the first element of a strided tensor to its last."""
    steps = tuple([_whole(operation, "a stride", step) for step in strides])
    if len(steps) != len(sizes):
        raise invalid(f"{operation}: strides {list(steps)} must be as many as the sizes of shape {list(sizes)}")
    if min(steps, default=0) < 0:
        raise invalid(f"{operation}: strides {list(steps)} must not be negative; flip() turns a dim round")
    if dtype.is_subbyte:
        raise _errors.UnsupportedError(f"{operation}: elements of {dtype.name} share bytes and cannot be strided",
                                       "NOT_IMPLEMENTED_FOR_DTYPE")
    if 0 in sizes:
        return 0
    last = sum([(size - 1) * step for size, step in zip(sizes, steps)])
    if last >= _MAX_ELEMENTS or max(steps, default=0) >= _MAX_ELEMENTS:
        raise invalid(f"{operation}: strides {list(steps)} reach further than can be addressed")
    return (last + 1) * dtype.itemsize


# ---------------------------------------------------------------- bytes and NumPy
def from_bytes(data, shape, dtype):
    """A tensor over a copy of raw bytes, row-major; the count must fit the shape."""
    cdef int32_t code = dtype_code(dtype)
    view = memoryview(data).cast("B")
    cdef Tensor result = _new(shape, code, 0, "from_bytes")
    cdef int64_t expected = dense_bytes(result.record.rank, result.record.shape, code)
    if len(view) != expected:
        raise invalid(f"from_bytes: shape {list(result._sizes())} of {dtype.name} takes {expected} bytes, got "
                      f"{len(view)}")
    cdef const unsigned char[::1] source
    if expected:
        source = view
        memcpy(result.record.data(), &source[0], expected)
    return result


cdef class _HostView:
    """The buffer protocol over a settled host tensor."""

    cdef Tensor target
    cdef Py_ssize_t sizes[8]
    cdef Py_ssize_t steps[8]
    cdef bytes format

    def __init__(self, Tensor target):
        cdef int32_t i
        cdef Py_ssize_t itemsize = dtype_bits(target.record.dtype) // 8
        target._wait("numpy")
        if target.record.dtype not in _FORMATS or target.record.scheme or target.record.layout:
            raise TypeError(f"a tensor of dtype {target.dtype.name} in this form has no buffer")
        self.target = target
        self.format = _FORMATS[target.record.dtype].encode()
        for i in range(target.record.rank):
            self.sizes[i] = target.record.shape[i]
            self.steps[i] = target.record.strides[i] * itemsize

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        cdef TensorRecord* record = &self.target.record
        if (flags & PyBUF_WRITABLE) and not record.storage.writable():
            raise BufferError("the tensor's memory is read-only")
        buffer.buf = record.data()
        buffer.obj = self
        buffer.len = dense_bytes(record.rank, record.shape, record.dtype)
        buffer.itemsize = dtype_bits(record.dtype) // 8
        buffer.readonly = not record.storage.writable()
        buffer.ndim = record.rank
        buffer.format = NULL
        if flags & PyBUF_FORMAT:
            buffer.format = self.format
        buffer.shape = self.sizes
        buffer.strides = self.steps
        buffer.suboffsets = NULL
        buffer.internal = NULL


cdef int32_t _array_code(str operation, object array) except -1:
    """The dtype of a NumPy array's elements; TypeError names the routes for those that no tensor has."""
    dtype = getattr(array, "dtype", None)
    code = _CODE_OF_FORMAT.get(getattr(dtype, "char", None))
    if code is None:
        raise TypeError(
            f"{operation}: no tensor dtype for {type(array) if dtype is None else dtype}; convert it with astype() or "
            "bring raw bytes in with Tensor.from_bytes()")
    if not dtype.isnative:
        raise TypeError(f"{operation}: {dtype} has another byte order; convert it with "
                        f"astype('{dtype.newbyteorder('=').str}')")
    return code


def from_numpy(array):
    """A tensor that borrows a NumPy array's memory: writes go both ways, the array is kept alive.

    Raises TypeError for a read-only or non-contiguous array (fix: ``np.ascontiguousarray``) and for dtypes that no
    tensor has.
    """
    cdef int32_t code = _array_code("from_numpy", array)
    if not array.flags.c_contiguous:
        raise TypeError("from_numpy: the array is not C-contiguous; pass np.ascontiguousarray(array)")
    if not array.flags.writeable:
        raise TypeError("from_numpy: the array is read-only; pass a copy, or use clika_runtime.tensor()")
    return _borrow(array, array.shape, _DTYPES[code], 0, 0, False, None)


def _empty_lists(shape):
    if len(shape) == 1:
        return []
    return [_empty_lists(shape[1:]) for _ in range(shape[0])]


# ---------------------------------------------------------------- Python data
cdef object _flatten(object data, list flat, int depth):
    """Appends the leaves of nested sequences and returns their shape."""
    if isinstance(data, Tensor) and (<Tensor>data).record.rank > 0:
        data = data.tolist()
    if not isinstance(data, (list, tuple)):
        if isinstance(data, Tensor):
            data = data.item()
        flat.append(data)
        return ()
    if depth > 8:
        raise _errors.UnsupportedError("tensor: rank over the limit of 8")
    first = None
    for item in data:
        shape = _flatten(item, flat, depth + 1)
        if first is None:
            first = shape
        elif shape != first:
            raise invalid(f"tensor: ragged nested sequence: parts of shape {list(first)} and {list(shape)}")
    return (len(data),) + (first or ())


def tensor(data, dtype=None, device=None):
    """A tensor over a copy of ``data``: a number, nested sequences, a NumPy array, an object with the buffer or the
    DLPack protocol, or a tensor.

    Python floats give float32, ints int64, bools bool; an array keeps its dtype. ``dtype`` converts.

    >>> tensor([[1, 2], [3, 4]]).dtype
    clika_runtime.int64
    """
    cdef Tensor result
    if isinstance(data, Tensor):
        result = data.clone()
    elif not isinstance(data, (list, tuple, int, float)) and hasattr(getattr(data, "dtype", None), "char"):
        array = data.__array__()
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        result = from_bytes(array.tobytes(), array.shape, _DTYPES[_array_code("tensor", array)])
    elif hasattr(data, "__dlpack__"):
        result = from_dlpack(data).clone()
    elif PyObject_CheckBuffer(data):
        view = memoryview(data)
        code = _CODE_OF_FORMAT.get(view.format.lstrip("@="))
        if code is None:
            raise TypeError(f"tensor: no tensor dtype for the buffer format {view.format!r}; bring raw bytes in with "
                            "Tensor.from_bytes()")
        result = from_bytes(view.tobytes(), view.shape, _DTYPES[code])
    else:
        result = _from_numbers(data, dtype)
    return _placed(result, dtype, device)


cdef Tensor _from_numbers(object data, object dtype):
    flat = []
    shape = _flatten(data, flat, 0)
    kinds = {type(value) for value in flat}
    if not kinds <= {bool, int, float}:
        flat = [value if isinstance(value, (bool, int, float)) or not hasattr(value, "item") else value.item()
                for value in flat]
        kinds = {bool if isinstance(value, bool) else int if isinstance(value, int) else
                 float if isinstance(value, float) else object for value in flat}
        if object in kinds:
            odd = next(value for value in flat if not isinstance(value, (bool, int, float)))
            raise TypeError(f"tensor: expected numbers, got {odd!r}")
    natural = 17 if float in kinds or not kinds else 7 if int in kinds else 1
    cdef int32_t code = natural if dtype is None else dtype_code(dtype)
    if code not in _FORMATS:
        code = 17
    try:
        if code in (17, 18, 15):
            flat = [float(value) for value in flat]
        elif code == 1:
            flat = [bool(value) for value in flat]
        elif natural == 17:
            flat = [int(value) for value in flat]
        payload = _struct.pack(f"={len(flat)}{_FORMATS[code]}", *flat)
    except (_struct.error, OverflowError, ValueError) as problem:
        if code == 17 or code == 15:
            try:  # struct refuses floats beyond the narrow range where arithmetic gives infinity
                payload = _struct.pack(f"={len(flat)}d", *flat)
            except (_struct.error, OverflowError):
                pass
            else:
                return get_op("cast")(from_bytes(payload, shape, _dtypes.float64), _DTYPES[code])
        raise invalid(f"tensor: a value does not fit {_DTYPES[code].name}: {problem}") from None
    return from_bytes(payload, shape, _DTYPES[code])


cdef Tensor _placed(Tensor result, object dtype, object device):
    if dtype is not None and result.record.dtype != dtype_code(dtype):
        result = get_op("cast")(result, dtype)
    if device is not None or _any_scope:
        result = result.to(_DEVICE_OF_ID[default_device()] if device is None else device)
    return result


# ---------------------------------------------------------------- DLPack
# The device kinds of the protocol by ours, and its dtype codes (signed, unsigned, float, bfloat, bool) by kind.
cdef dict _DL_DEVICES = {"cpu": 1, "cuda": 2, "vulkan": 7, "metal": 8}
cdef dict _DL_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


cdef tuple _dl_device(Tensor t):
    device = t.device
    kind = _DL_DEVICES.get(device.type)
    if kind is None:
        raise BufferError(f"__dlpack__: the protocol has no device kind '{device.type}'; move the tensor with "
                          ".to('cpu')")
    return kind, device.index or 0


cdef int _join_stream(int32_t device, object stream, int32_t direction, str operation) except -1:
    """Orders a stream of another library, by its number in the protocol, against the device's; waits where the backend
    cannot. ``direction`` 0: that stream waits."""
    cdef Backend* backend = device_backend_of(device)
    cdef ErrorPtr error
    cdef clika_stream ours = device_stream(device, &error)
    if ours is NULL:
        raise_error(error, operation)
    if stream == -1:  # the receiver asks for no order
        return 0
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < 1:
        raise invalid(f"{operation}: {stream!r} is no stream of the protocol: None, -1, or the address of one")
    cdef uintptr_t native = stream
    if backend.table.stream_join is NULL or backend.table.stream_join(ours, <void*>native, direction) != 0:
        _synchronize_device(device)
    return 0


cdef object _to_dlpack(Tensor t, object stream, object max_version, object dl_device, object copy):
    cdef DLDevice device
    cdef DLType dtype
    cdef bint copied = False
    t = _as_published(t)
    t._ordered("__dlpack__")
    if t.record.scheme != CLIKA_DENSE or t.record.layout != 0:
        raise BufferError("__dlpack__: a packed weight has no form in the protocol; call dequantize() first")
    own = t.dtype
    if own.bits < 8 or own.name.startswith("float8"):
        raise TypeError(f"__dlpack__: {own.name} does not cross; cast with .to(clika_runtime.float32) first")
    device.type, device.index = _dl_device(t)
    if dl_device is not None and tuple(dl_device) != (device.type, device.index):
        raise BufferError(f"__dlpack__: the tensor is on device {(device.type, device.index)} of the protocol and is "
                          f"asked for on {tuple(dl_device)}; move it with .to(device) first")
    if copy:
        t = t.clone()
        copied = True
        t._ordered("__dlpack__")
    cdef uintptr_t reader = 0
    if device_backend_of(t.record.device) is not NULL:
        # Without a word the receiver reads on the legacy default stream.
        stream = 1 if stream is None else stream
        _join_stream(t.record.device, stream, 0, "__dlpack__")
        reader = 0 if stream == -1 else stream
    dtype.code = 4 if own is _dtypes.bfloat16 else _DL_CODES[own.kind]
    dtype.bits = own.bits
    dtype.lanes = 1
    if max_version is not None and max_version[0] >= 1:
        return PyCapsule_New(export_versioned(t.record, device, dtype, copied, <void*>reader), b"dltensor_versioned", _drop_capsule)
    if not t.record.storage.writable():
        raise BufferError("__dlpack__: the tensor's memory is read-only, which the receiver's version of the protocol "
                          "cannot say; pass a clone()")
    return PyCapsule_New(export_managed(t.record, device, dtype, <void*>reader), b"dltensor", _drop_capsule)


cdef void _drop_capsule(object capsule) noexcept:
    # A capsule that was taken has another name.
    cdef DLManaged* managed
    cdef DLVersioned* versioned
    if PyCapsule_IsValid(capsule, b"dltensor"):
        managed = <DLManaged*>PyCapsule_GetPointer(capsule, b"dltensor")
        managed.deleter(managed)
    elif PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        versioned = <DLVersioned*>PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        versioned.deleter(versioned)


def from_dlpack(source):
    """A tensor over the memory of another library's array, by the DLPack protocol; nothing is copied.

    ``source`` has ``__dlpack__`` (torch, NumPy, JAX, ...) or is a capsule of that protocol. Both sides see each
    other's writes, and the memory stays as long as one of them needs it. Raises TypeError for a dtype that no tensor
    has, and `UnsupportedError` for memory that the runtime cannot address.
    """
    cdef Tensor result = Tensor.__new__(Tensor)
    cdef _Lender lender = _Lender.__new__(_Lender)
    cdef DLArray* array
    cdef bint writable = True
    cdef int32_t i
    cdef int32_t number = 0
    capsule = source
    if hasattr(source, "__dlpack__"):
        options = {}
        if hasattr(source, "__dlpack_device__"):
            kind, index = source.__dlpack_device__()
            number = _device_of_dl(int(kind), int(index))
            if number > 255:  # what the sender has under way comes before our calls
                options["stream"] = Stream.default_stream(device_object(number)).native_handle()
        try:
            capsule = source.__dlpack__(max_version=(1, 0), **options)
        except TypeError:  # from before versions
            capsule = source.__dlpack__(**options)
    if PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        lender.versioned = <DLVersioned*>PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        PyCapsule_SetName(capsule, b"used_dltensor_versioned")
        if lender.versioned.major != 1:
            raise _errors.UnsupportedError(f"from_dlpack: version {lender.versioned.major} of the protocol is unknown")
        writable = not lender.versioned.flags & kDLReadOnly
        array = &lender.versioned.array
    elif PyCapsule_IsValid(capsule, b"dltensor"):
        lender.managed = <DLManaged*>PyCapsule_GetPointer(capsule, b"dltensor")
        PyCapsule_SetName(capsule, b"used_dltensor")
        array = &lender.managed.array
    else:
        raise TypeError(f"from_dlpack: expected an array with __dlpack__, or an unused capsule, got {source!r}")
    name = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}.get(array.dtype.code)
    name = "bool" if name == "bool" and array.dtype.bits == 8 else f"{name}{array.dtype.bits}"
    if array.dtype.lanes != 1 or name not in _DL_NAMES:
        raise TypeError(f"from_dlpack: no tensor dtype for {getattr(source, 'dtype', name)}; cast it on the other side "
                        "first")
    number = _device_of_dl(array.device.type, array.device.index)
    dtype = _dtypes.by_name(name)
    if array.rank < 0 or array.rank > 8:
        raise _errors.UnsupportedError(f"from_dlpack: rank {array.rank} is over the limit of 8")
    _set_shape(&result.record, tuple([array.shape[i] for i in range(array.rank)]), "from_dlpack")
    result.record.dtype = dtype.code
    result.record.device = number
    needed = dense_bytes(result.record.rank, result.record.shape, dtype.code)
    if array.strides is not NULL and needed:
        needed = _strided_bytes("from_dlpack", result._sizes(), [array.strides[i] for i in range(array.rank)], dtype)
        for i in range(array.rank):
            result.record.strides[i] = array.strides[i]
    _lend(result, lender, <char*>array.data + array.byte_offset, needed, False, writable)
    return result


cdef int32_t _device_of_dl(int kind, int index) except -2:
    """Our device for one of the protocol, pinned memory of the host among the CPU's."""
    if kind in (1, 3):
        return 0
    for name, number in _DL_DEVICES.items():
        if number == kind:
            device = Device(name, index)
            try:
                return device_id(device)
            except _errors.InternalError as error:
                raise _errors.UnsupportedError(
                    f"from_dlpack: the array is on {device}, which is not served here ({error}); move it to the CPU first",
                    "NOT_IMPLEMENTED_FOR_PARAM") from error
    raise _errors.UnsupportedError(
        f"from_dlpack: the array is on device ({kind}, {index}) of the protocol; move it to the CPU first",
        "NOT_IMPLEMENTED_FOR_PARAM")


cdef frozenset _DL_NAMES = frozenset((
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64"))


# ---------------------------------------------------------------- pickles
cdef tuple _pickled(Tensor t):
    """What `__reduce__` gives: a function and its arguments."""
    if t.recorder is not None:
        raise TypeError("a traced tensor cannot be pickled: it has no value")
    t = _as_published(t)
    if t.record.layout != 0:
        raise TypeError("a weight in a backend's own layout cannot be pickled; pickle it as published")
    payload = None if t.is_fake() else t.bytes()
    return _unpickled, (payload, t._sizes(), t.dtype, str(t.device), t.record.scheme, bool(t.parameter))


def _unpickled(payload, shape, dtype, device, int scheme, bint parameter):
    cdef Tensor result
    if payload is None:
        result = _new(shape, dtype_code(dtype), -1, "unpickle")
        result.record.scheme = scheme
    elif scheme:
        result = _borrow(payload, shape, dtype, scheme, 0, False, None)
    else:
        result = from_bytes(payload, shape, dtype)
    if payload is not None and device != "cpu":
        result = result.to(device)
    return _as_parameter(result) if parameter else result
