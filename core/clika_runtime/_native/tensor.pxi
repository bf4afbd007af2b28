# Tensor: the final type over a TensorRecord, and the ways in and out of it.
import struct as _struct

from libc.stdlib cimport free, malloc


cdef void _release_buffer(void* owner) noexcept:
    cdef Py_buffer* view = <Py_buffer*>owner
    PyBuffer_Release(view)
    _free_buffer(view)


cdef void _free_buffer(Py_buffer* view) noexcept:
    free(view)


cdef void _release_later(void* owner) noexcept nogil:
    # Runs on whichever thread drops the last reference, without the GIL: hand it to the next holder.
    defer_release(_release_buffer, owner)


cdef inline void _collect() noexcept:
    if has_deferred_releases():
        run_deferred_releases()


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Tensor:
    """A multi-dimensional array of one dtype on one device. A copy of the object is a handle on the same storage:
    a write through one is visible through the others, and shape operators make views.

    Made by the factories (`tensor`, `zeros`, `full`, ...), by operators, and by the readers of `clika_runtime.io`.
    """

    cdef TensorRecord record
    cdef object recorder     # of a traced tensor: its GraphRecorder
    cdef int8_t parameter    # 1: a Parameter

    def __cinit__(self):
        self.recorder = None

    def __init__(self, *args, **kwargs):
        raise TypeError("Tensor: make one with clika_runtime.tensor(data) or a factory such as ops.zeros(shape)")

    def __dealloc__(self):
        if self.record.storage is not NULL:
            self.record.storage.drop()

    # ------------------------------------------------------------ facts
    @property
    def shape(self):
        """The sizes, as a `Size`; a traced tensor's may be symbolic."""
        return Size(self._sizes())

    cdef tuple _sizes(self):
        cdef int32_t i
        if self.recorder is None:
            return tuple([self.record.shape[i] for i in range(self.record.rank)])
        return tuple([(<GraphRecorder>self.recorder)._wrap(self.record.shape[i])
                      for i in range(self.record.rank)])

    cdef tuple _steps(self):
        cdef int32_t i
        if self.recorder is None:
            return tuple([self.record.strides[i] for i in range(self.record.rank)])
        return tuple([(<GraphRecorder>self.recorder)._wrap(self.record.strides[i])
                      for i in range(self.record.rank)])

    @property
    def dtype(self):
        """The data type of the elements; of a packed weight, the dtype it decodes to."""
        return _DTYPES[self.record.dtype]

    @property
    def device(self):
        return device_object(self.record.device)

    @property
    def ndim(self):
        return self.record.rank

    @property
    def scheme(self):
        """The quantization scheme's number in ``plugin.h``; 0 is dense."""
        return self.record.scheme

    @property
    def layout(self):
        """0: as published; else the backend's number of its own layout of a weight."""
        return self.record.layout

    @property
    def is_quantized(self):
        return self.record.scheme != CLIKA_DENSE

    @property
    def is_traced(self):
        return self.recorder is not None

    @property
    def requires_grad(self):
        return False

    @property
    def nbytes(self):
        """Bytes of the elements; of a packed weight, of its payload."""
        if self.record.scheme != CLIKA_DENSE or self.record.layout != 0:
            return self.record.storage.nbytes() - self.record.offset
        return dense_bytes(self.record.rank, self.record.shape, self.record.dtype)

    def is_fake(self):
        """True for a tensor without bytes (device ``meta``)."""
        return self.record.storage is NULL and self.recorder is None

    def numel(self):
        count = 1
        for size in self._sizes():
            count = count * size
        return count

    def dim(self):
        return self.record.rank

    def size(self, dim=None):
        """The shape, or the size of one dim."""
        return self.shape if dim is None else self._sizes()[self._dim(dim)]

    cdef int32_t _dim(self, object dim) except -1:
        cdef int64_t d = dim
        if d < -self.record.rank or d >= self.record.rank:
            raise invalid(f"dim {dim} is out of range for a tensor of rank {self.record.rank}")
        return <int32_t>(d + self.record.rank if d < 0 else d)

    def stride(self, dim=None):
        """Strides in elements: all of them, or one dim's."""
        steps = self._steps()
        return steps if dim is None else steps[self._dim(dim)]

    def storage_offset(self):
        """How many elements of its storage lie before the tensor's first."""
        return self.record.offset * 8 // dtype_bits(self.record.dtype)

    def as_strided(self, size, stride, storage_offset=None):
        """A view of the tensor's storage with that shape, these strides and that offset, all in elements; the
        offset is the tensor's own by default. Strides are not negative, and every element lies in the storage."""
        return _as_strided(self, tuple(size), tuple(stride), storage_offset)

    def is_contiguous(self):
        if self.recorder is not None:
            expected = 1
            for size, step in zip(reversed(self._sizes()), reversed(self._steps())):
                if size != 1 and step != expected:
                    return False
                expected = expected * size
            return True
        return self.record.contiguous()

    def data_ptr(self):
        """The address of the first element. Waits for pending writes."""
        self._wait("data_ptr")
        return <uintptr_t>self.record.data()

    # ------------------------------------------------------------ reading
    cdef int _wait(self, str operation) except -1:
        """Waits for the bytes; raises what the producing call failed with."""
        cdef ErrorPtr error
        if self.recorder is not None:
            raise _errors.ClikaRTError(
                f"{operation}: the tensor is traced: it has a shape and a dtype, no value", "FAILED_PRECONDITION")
        if self.record.storage is NULL:
            raise _errors.ClikaRTError(
                f"{operation}: the tensor is on device meta: it has a shape and a dtype, no value",
                "FAILED_PRECONDITION")
        if settled(self.record):
            error = self.record.storage.poison()
        else:
            with nogil:
                error = settle(self.record)
        if error.get() is not NULL:
            raise_error(error, "")
        return 0

    cdef Tensor _readable(self, str operation):
        """A host tensor with contiguous bytes that can be read now."""
        cdef Tensor t = self
        if t.record.scheme != CLIKA_DENSE or t.record.layout != 0:
            raise invalid(f"{operation}: a packed weight has no elements to read; call dequantize() first")
        if t.record.device > 255:
            t = t.to("cpu")
        if not t.record.contiguous():
            t = get_op("copy")(t)
        t._wait(operation)
        return t

    def numpy(self):
        """The elements as a NumPy array that shares the memory of a CPU tensor.

        Raises TypeError for a tensor on another device (move it with ``.to("cpu")``) and for dtypes that NumPy has
        not (cast, or use ``bytes()``).
        """
        if self.record.device > 255:
            raise TypeError(f"numpy: the tensor is on {self.device}; move it first with .to('cpu')")
        if self.record.scheme != CLIKA_DENSE or self.record.layout != 0:
            raise TypeError("numpy: a packed weight has no NumPy form; call dequantize() first")
        if self.record.dtype not in _FORMATS:
            raise TypeError(
                f"numpy: NumPy has no dtype {self.dtype.name}; cast with .to(clika_runtime.float32) or take the "
                "payload with .bytes()")
        import numpy

        self._wait("numpy")
        return numpy.asarray(_HostView(self))

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            array = array.astype(dtype)
        elif copy:
            array = array.copy()
        return array

    def bytes(self):
        """The elements' bytes, row-major; of a packed weight as published, its payload."""
        cdef Tensor t
        if self.record.scheme != CLIKA_DENSE:
            self._wait("bytes")
            return (<char*>self.record.data())[:self.record.storage.nbytes() - self.record.offset]
        t = self._readable("bytes")
        return (<char*>t.record.data())[:t.nbytes]

    def tolist(self):
        """The elements as nested lists of Python numbers (a number for a 0-d tensor)."""
        cdef Tensor t = self
        if self.record.dtype not in _FORMATS:
            t = self.to(_dtypes.float32)
        t = t._readable("tolist")
        cdef int64_t n = t.record.numel()
        flat = list(_struct.unpack(f"={n}{_FORMATS[t.record.dtype]}", t.bytes()))
        if t.record.rank == 0:
            return flat[0]
        for size in reversed(t._sizes()[1:]):
            count = len(flat) // size if size else 0
            flat = [flat[i * size:(i + 1) * size] for i in range(count)]
        if n == 0:
            return _empty_lists(t._sizes())
        return flat

    def item(self):
        """The one element as a Python number. Raises for any other number of elements."""
        if self.recorder is None and self.record.numel() != 1:
            raise invalid(f"item: the tensor has {self.record.numel()} elements (shape {list(self._sizes())}); "
                          "item() takes exactly one")
        value = self.tolist()
        while isinstance(value, list):
            value = value[0]
        return value

    def __bool__(self):
        if self.recorder is None and self.record.numel() != 1:
            raise RuntimeError(
                f"bool: the truth value of a tensor with {self.record.numel()} elements is ambiguous")
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __index__(self):
        value = self.item()
        if not isinstance(value, int):
            raise TypeError(f"a tensor of dtype {self.dtype.name} is no index")
        return value

    def __len__(self):
        if self.record.rank == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._sizes()[0]

    def __iter__(self):
        if self.record.rank == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter([self[i] for i in range(self._sizes()[0])])

    def __repr__(self):
        from ._format import format_tensor

        return format_tensor(self)

    # ------------------------------------------------------------ moving
    def to(self, target, *, copy=False):
        """The tensor on another device or in another dtype; itself when nothing changes."""
        cdef Tensor result, source
        cdef ErrorPtr error
        if isinstance(target, _dtypes.dtype):
            if target.code == self.record.dtype and not copy:
                return self
            return get_op("cast")(self, target)
        if isinstance(target, Tensor):
            target = target.device
        cdef int32_t device = device_id(target)
        if device == self.record.device and not copy:
            return self
        if device == -1:
            return _fake(self.record)
        source = self
        if self.record.scheme == CLIKA_DENSE and not self.record.contiguous():
            source = get_op("copy")(self)
        source._wait("to")
        result = Tensor.__new__(Tensor)
        result.record = source.record
        result.record.storage = NULL
        result.record.offset = 0
        result.record.device = device
        cdef size_t nbytes = source.nbytes
        result.record.storage = Storage.create(device_allocator(device), nbytes, device, False)
        if result.record.storage is NULL or (nbytes and result.record.storage.data() is NULL):
            raise _errors.OutOfMemoryError(f"to: cannot allocate {nbytes} bytes on {target}")
        with nogil:
            error = copy_device(source.record, &result.record)
        if error.get() is not NULL:
            raise_error(error, "to")
        return result

    def cpu(self):
        return self.to("cpu")

    def clone(self):
        """A copy with bytes of its own."""
        return get_op("copy")(self)

    def contiguous(self):
        """The tensor itself when its elements lie in row-major order, else a copy that does."""
        return self if self.is_contiguous() else get_op("copy")(self)

    def detach(self):
        return self

    def clear_failure(self):
        """Declares the bytes good after a failed write: for an owner who knows which part the write was to touch
        and does not read that part again (a cache that forgets the positions of a failed step)."""
        cdef ErrorPtr none
        if self.record.storage is not NULL:
            self.record.storage.set_poison(none)

    # ------------------------------------------------------------ Python operators
    def __add__(self, other):
        return get_op("add")(self, other)

    def __radd__(self, other):
        return get_op("add")(other, self)

    def __sub__(self, other):
        return get_op("sub")(self, other)

    def __rsub__(self, other):
        return get_op("sub")(other, self)

    def __mul__(self, other):
        return get_op("mul")(self, other)

    def __rmul__(self, other):
        return get_op("mul")(other, self)

    def __truediv__(self, other):
        return get_op("div")(self, other)

    def __rtruediv__(self, other):
        return get_op("div")(other, self)

    def __floordiv__(self, other):
        return get_op("floor_divide")(self, other)

    def __rfloordiv__(self, other):
        return get_op("floor_divide")(other, self)

    def __mod__(self, other):
        return get_op("remainder")(self, other)

    def __rmod__(self, other):
        return get_op("remainder")(other, self)

    def __pow__(self, other, modulo):
        return get_op("pow")(self, other)

    def __rpow__(self, other, modulo):
        return get_op("pow")(other, self)

    def __matmul__(self, other):
        return get_op("matmul")(self, other)

    def __rmatmul__(self, other):
        return get_op("matmul")(other, self)

    def __neg__(self):
        return get_op("neg")(self)

    def __abs__(self):
        return get_op("abs")(self)

    def __invert__(self):
        return get_op("bitwise_not")(self)

    def __and__(self, other):
        return get_op("bitwise_and")(self, other)

    def __rand__(self, other):
        return get_op("bitwise_and")(other, self)

    def __or__(self, other):
        return get_op("bitwise_or")(self, other)

    def __ror__(self, other):
        return get_op("bitwise_or")(other, self)

    def __xor__(self, other):
        return get_op("bitwise_xor")(self, other)

    def __rxor__(self, other):
        return get_op("bitwise_xor")(other, self)

    def __eq__(self, other):
        return get_op("eq")(self, other)

    def __ne__(self, other):
        return get_op("ne")(self, other)

    def __lt__(self, other):
        return get_op("lt")(self, other)

    def __le__(self, other):
        return get_op("le")(self, other)

    def __gt__(self, other):
        return get_op("gt")(self, other)

    def __ge__(self, other):
        return get_op("ge")(self, other)

    def __hash__(self):
        return hash(<uintptr_t><void*>self)

    def __iadd__(self, other):
        return self._write(get_op("add")(self, other))

    def __isub__(self, other):
        return self._write(get_op("sub")(self, other))

    def __imul__(self, other):
        return self._write(get_op("mul")(self, other))

    def __itruediv__(self, other):
        return self._write(get_op("div")(self, other))

    def _write(self, value):
        """Writes a result into this tensor's bytes; what the in-place forms are made of."""
        get_op("copy_")(self, value)
        return self

    def __getattr__(self, str name):
        op = method_op(name)
        if op is not None:
            return _Method(op, self)
        if name.endswith("_") and not name.startswith("_"):
            op = method_op(name[:-1])
            if op is not None:
                return _InPlace(op, self)
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    # ------------------------------------------------------------ indexing
    def __getitem__(self, index):
        """Ints, slices, ``...`` and None give views; an integer tensor gathers along its dim."""
        return _index(self, index)

    def __setitem__(self, index, value):
        cdef Tensor target = _index(self, index)
        if not isinstance(value, Tensor):
            value = tensor(value, dtype=self.dtype)
        get_op("copy_")(target, value)

    # ------------------------------------------------------------ ways in
    @staticmethod
    def from_bytes(data, shape, dtype):
        """A tensor over a copy of raw bytes, row-major."""
        return from_bytes(data, shape, dtype)

    @staticmethod
    def from_buffer(buffer, shape, dtype, *, int scheme=0, Py_ssize_t offset=0, owner=None, bint mapped=True):
        """A tensor that borrows ``buffer`` (any object with the buffer protocol) from byte ``offset`` on.

        Nothing is copied; a read-only buffer gives a read-only tensor. ``scheme`` not 0: a packed weight of logical
        shape [rows, columns]. ``mapped``: the memory is a file mapping whose pages may be dropped after a repack.
        ``owner`` is kept alive together with the buffer.
        """
        return _borrow(buffer, shape, dtype, scheme, offset, mapped, owner)


cdef class _Method:
    """An operator bound to its first argument."""

    cdef object op
    cdef Tensor target

    def __init__(self, op, Tensor target):
        self.op = op
        self.target = target

    def __call__(self, *args, **kwargs):
        return self.op(self.target, *args, **kwargs)


cdef class _InPlace:
    """The trailing-underscore form: the operator's result written into its first argument."""

    cdef object op
    cdef Tensor target

    def __init__(self, op, Tensor target):
        self.op = op
        self.target = target

    def __call__(self, *args, **kwargs):
        return self.target._write(self.op(self.target, *args, **kwargs))


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


def _empty_lists(shape):
    if len(shape) == 1:
        return []
    return [_empty_lists(shape[1:]) for _ in range(shape[0])]


cdef Tensor _fake(const TensorRecord& like):
    cdef Tensor result = Tensor.__new__(Tensor)
    result.record = like
    result.record.storage = NULL
    result.record.offset = 0
    result.record.device = -1
    return result


# The most elements a shape may have: their bits still fit 64 bits, whatever the dtype.
_MAX_ELEMENTS = 1 << 56

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


cdef int _check_view(object shape, str operation) except -1:
    """Refuses a view whose shape no tensor can have."""
    if len(shape) > 8:
        raise _errors.UnsupportedError(f"{operation}: rank {len(shape)} is over the limit of 8")
    total = 1
    for size in shape:
        if isinstance(size, int):
            total *= max(size, 1)
    if total > _MAX_ELEMENTS:
        raise invalid(f"{operation}: shape {list(shape)} has more elements than can be addressed")
    return 0


cdef int _set_shape(TensorRecord* record, object shape, str operation) except -1:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(sizes) > 8:
        raise _errors.UnsupportedError(f"{operation}: rank {len(sizes)} is over the limit of 8")
    cdef int32_t i = 0
    total = 1
    for size in sizes:
        size = size.__index__()
        if size < 0:
            raise invalid(f"{operation}: sizes must be >= 0, got {list(sizes)}")
        total *= max(size, 1)
        if total > _MAX_ELEMENTS:
            raise invalid(f"{operation}: shape {list(sizes)} has more elements than can be addressed")
        record.shape[i] = size
        i += 1
    record.rank = i
    record.set_contiguous_strides()
    return 0


cdef Tensor _new(object shape, int32_t dtype, int32_t device, str operation):
    """A tensor with bytes of its own, not yet written."""
    cdef Tensor result = Tensor.__new__(Tensor)
    _set_shape(&result.record, shape, operation)
    result.record.dtype = dtype
    result.record.device = device
    if device == -1:
        return result
    cdef int64_t nbytes = dense_bytes(result.record.rank, result.record.shape, dtype)
    result.record.storage = Storage.create(device_allocator(device), <size_t>nbytes, device, False)
    if result.record.storage is NULL or (nbytes and result.record.storage.data() is NULL):
        raise _errors.OutOfMemoryError(
            f"{operation}: cannot allocate {nbytes} bytes on {device_object(device)} for shape "
            f"{list(result._sizes())}")
    return result


def empty(shape, dtype=None, device=None):
    """A tensor of that shape whose elements are not set; float32 unless ``dtype`` says otherwise. In a recording, of
    symbolic sizes, it is zeros."""
    sizes = tuple(shape)
    if any([isinstance(size, SymInt) for size in sizes]):
        return get_op("zeros")(sizes, dtype=dtype, device=device)
    return _new(sizes, dtype_code(_dtypes.float32 if dtype is None else dtype), device_id(device), "empty")


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


cdef Tensor _borrow(object buffer, object shape, object dtype, int32_t scheme, Py_ssize_t offset, bint mapped,
                    object owner):
    cdef int32_t code = dtype_code(dtype)
    cdef Tensor result = Tensor.__new__(Tensor)
    _set_shape(&result.record, shape, "from_buffer")
    result.record.dtype = code
    result.record.scheme = scheme
    needed = (_packed_bytes(result._sizes(), scheme) if scheme
              else dense_bytes(result.record.rank, result.record.shape, code))
    cdef Py_buffer* view = <Py_buffer*>malloc(sizeof(Py_buffer))
    if view is NULL:
        raise MemoryError()
    try:
        PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
    except BaseException:
        _free_buffer(view)
        raise
    if offset < 0 or offset > view.len or needed > view.len - offset:
        length = view.len
        PyBuffer_Release(view)
        _free_buffer(view)
        raise invalid(f"from_buffer: shape {list(result._sizes())} of {dtype.name} takes {needed} bytes from byte "
                      f"{offset} on, the buffer has {length}")
    cdef StorageKind kind = kBorrowed
    if mapped:
        kind = kMapped
    result.record.storage = Storage.borrow(
        <char*>view.buf + offset, <size_t>(view.len - offset), 0, kind, _release_later, <void*>view,
        not view.readonly)
    return result


def from_numpy(array):
    """A tensor that borrows a NumPy array's memory: writes go both ways, the array is kept alive.

    Raises TypeError for a read-only or non-contiguous array (fix: ``np.ascontiguousarray``) and for dtypes that no
    tensor has.
    """
    code = _CODE_OF_FORMAT.get(getattr(getattr(array, "dtype", None), "char", None))
    if code is None:
        raise TypeError(
            f"from_numpy: no tensor dtype for {getattr(array, 'dtype', type(array))}; convert it with astype() or "
            "bring raw bytes in with Tensor.from_bytes()")
    if not array.flags.c_contiguous:
        raise TypeError("from_numpy: the array is not C-contiguous; pass np.ascontiguousarray(array)")
    if not array.flags.writeable:
        raise TypeError("from_numpy: the array is read-only; pass a copy, or use clika_runtime.tensor()")
    return _borrow(array, array.shape, _DTYPES[code], 0, 0, False, None)


def from_blob(data, shape, dtype):
    """A tensor that borrows any writable or read-only buffer object."""
    return _borrow(data, shape, dtype, 0, 0, False, None)


cdef object _flatten(object data, list flat, int depth):
    """Appends the leaves of nested sequences and returns their shape."""
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
    """A tensor over a copy of ``data``: a number, nested sequences, a NumPy array or another buffer, or a tensor.

    Python floats give float32, ints int64, bools bool; an array keeps its dtype. ``dtype`` converts.

    >>> tensor([[1, 2], [3, 4]]).dtype
    clika_runtime.int64
    """
    cdef Tensor result
    if isinstance(data, Tensor):
        result = data.clone()
    elif not isinstance(data, (list, tuple, int, float)) and hasattr(data, "__array__"):
        array = data.__array__()
        code = _CODE_OF_FORMAT.get(array.dtype.char)
        if code is None:
            raise TypeError(
                f"tensor: no tensor dtype for {array.dtype}; convert it with astype() or bring raw bytes in with "
                "Tensor.from_bytes()")
        result = from_bytes(array.tobytes(), array.shape, _DTYPES[code])
    elif not isinstance(data, (list, tuple, int, float)) and hasattr(data, "__buffer__"):
        view = memoryview(data)
        result = from_bytes(view.tobytes(), view.shape, _DTYPES[_CODE_OF_FORMAT[view.format.lstrip("@=<")]])
    else:
        if isinstance(data, (memoryview, bytes, bytearray)):
            view = memoryview(data)
            return tensor(list(view), dtype=dtype or _DTYPES[_CODE_OF_FORMAT[view.format.lstrip("@=<")]],
                          device=device)
        flat = []
        shape = _flatten(data, flat, 0)
        kinds = {type(value) for value in flat}
        if not kinds <= {bool, int, float}:
            odd = next(value for value in flat if not isinstance(value, (bool, int, float)))
            if hasattr(odd, "item"):
                flat = [value.item() if hasattr(value, "item") else value for value in flat]
                kinds = {type(value) for value in flat}
            if not kinds <= {bool, int, float}:
                raise TypeError(f"tensor: expected numbers, got {odd!r}")
        natural = 17 if float in kinds or not kinds else 7 if int in kinds else 1
        code = natural if dtype is None else dtype_code(dtype)
        if code not in _FORMATS:
            code = 17
        if code in (17, 18, 15):
            flat = [float(value) for value in flat]
        elif code == 1:
            flat = [bool(value) for value in flat]
        elif natural == 17:
            flat = [int(value) for value in flat]
        try:
            payload = _struct.pack(f"={len(flat)}{_FORMATS[code]}", *flat)
        except (_struct.error, OverflowError) as problem:
            if code == 17 or code == 15:
                result = _overflowing(flat, shape)
                return _placed(result, _DTYPES[code] if dtype is None else dtype, device)
            raise invalid(f"tensor: a value does not fit {_DTYPES[code].name}: {problem}") from None
        result = from_bytes(payload, shape, _DTYPES[code])
    return _placed(result, dtype, device)


cdef Tensor _overflowing(list flat, tuple shape):
    # struct refuses floats beyond the narrow range where arithmetic gives infinity.
    return from_bytes(_struct.pack(f"={len(flat)}d", *flat), shape, _dtypes.float64)


cdef Tensor _placed(Tensor result, object dtype, object device):
    if dtype is not None and result.record.dtype != dtype_code(dtype):
        result = get_op("cast")(result, dtype)
    if device is not None or _any_scope:
        result = result.to(_DEVICE_OF_ID[default_device()] if device is None else device)
    return result


cdef class _ParameterMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and (<Tensor>instance).parameter != 0

    def __call__(cls, data, requires_grad=False):
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter: expected a Tensor, got {type(data).__name__}")
        return _as_parameter(data)


cdef Tensor _as_parameter(Tensor data):
    cdef Tensor result = _alias(data)
    result.parameter = 1
    return result


class Parameter(metaclass=_ParameterMeta):
    """A tensor that belongs to a module. A flag on the tensor, not a type of its own: ``Parameter(x)`` is a handle
    on ``x`` and ``isinstance(p, Parameter)`` asks for the flag."""


cdef Tensor _alias(Tensor source):
    """Another handle on the same bytes."""
    cdef Tensor result = Tensor.__new__(Tensor)
    result.record = source.record
    result.recorder = source.recorder
    if result.record.storage is not NULL:
        result.record.storage.retain()
    return result


cdef Tensor _strided(Tensor source, tuple shape, tuple strides, int64_t offset):
    """A view of a concrete tensor; ``offset`` counts elements."""
    cdef Tensor result = _alias(source)
    cdef int32_t i
    result.record.rank = <int32_t>len(shape)
    for i in range(result.record.rank):
        result.record.shape[i] = shape[i]
        result.record.strides[i] = strides[i]
    result.record.offset += offset * dtype_bits(source.record.dtype) // 8
    return result


cdef Tensor _as_strided(Tensor source, tuple size, tuple stride, object offset):
    if source.recorder is not None:
        raise _errors.UnsupportedError("as_strided: a traced tensor has no storage to view", "NOT_IMPLEMENTED_FOR_PARAM")
    if source.record.scheme != CLIKA_DENSE or source.record.layout != 0:
        raise invalid("as_strided: a packed weight has no elements to view; call dequantize() first")
    cdef int32_t bits = dtype_bits(source.record.dtype)
    size = tuple([item.__index__() for item in size])
    stride = tuple([item.__index__() for item in stride])
    start = source.storage_offset() if offset is None else offset.__index__()
    asked = f"size {list(size)}, stride {list(stride)} and storage_offset {start}"
    if len(size) != len(stride):
        raise invalid(f"as_strided: {asked}: there must be as many strides as sizes")
    if start < 0 or min(size, default=0) < 0 or min(stride, default=0) < 0:
        raise invalid(f"as_strided: {asked}: none may be negative")
    _check_view(size, "as_strided")
    last = -1 if 0 in size else start + sum([(n - 1) * step for n, step in zip(size, stride)])
    if source.record.storage is not NULL and (last + 1) * bits > source.record.storage.nbytes() * 8:
        raise invalid(f"as_strided: {asked} reach element {last}, and the storage has "
                      f"{source.record.storage.nbytes() * 8 // bits}")
    if max(stride, default=0) >= _MAX_ELEMENTS or start >= _MAX_ELEMENTS:
        raise invalid(f"as_strided: {asked}: there are not that many elements")
    return _strided(source, size, stride, start - source.storage_offset())


cdef Tensor _index(Tensor source, object index):
    items = list(index) if isinstance(index, tuple) else [index]
    gather = None
    if source.record.scheme != CLIKA_DENSE:
        raise invalid("indexing: a packed weight cannot be indexed; use embedding() to gather rows")
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    if used > source.record.rank:
        raise invalid(f"indexing: {used} indices for a tensor of rank {source.record.rank}")
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    result = source
    dim = 0
    seen = False
    for item in items:
        if item is Ellipsis:
            if seen:
                raise invalid("indexing: more than one ellipsis")
            seen = True
            dim += source.record.rank - used
        elif item is None:
            result = get_op("unsqueeze")(result, dim)
            dim += 1
        elif isinstance(item, slice):
            size = result.shape[dim]
            if item.step not in (None, 1):
                result = _stepped(result, dim, item)
            elif item.start is not None or item.stop is not None:
                if isinstance(size, SymInt):
                    start = 0 if item.start is None else item.start
                    stop = size if item.stop is None else item.stop
                    start = size + start if isinstance(start, int) and start < 0 else start
                    stop = size + stop if isinstance(stop, int) and stop < 0 else stop
                else:
                    start, stop, _ = item.indices(size)
                    stop = max(start, stop)
                result = get_op("narrow")(result, dim, start, stop - start)
            dim += 1
        elif isinstance(item, Tensor):
            if (<Tensor>item).record.dtype == CLIKA_BOOL or (<Tensor>item).record.rank > 1:
                raise _errors.UnsupportedError(
                    "indexing: only a 1-d integer tensor can index a dim; use where() or gather()",
                    "NOT_IMPLEMENTED_FOR_PARAM")
            if (<Tensor>item).record.rank == 0:
                result = get_op("select")(result, dim, item.item())
            else:
                result = get_op("index_select")(result, dim, item)
                dim += 1
        else:
            try:
                position = item.__index__()
            except AttributeError:
                raise TypeError(f"indexing: {item!r} is no index") from None
            result = get_op("select")(result, dim, position)
    return result


cdef Tensor _stepped(Tensor source, int32_t dim, object item):
    cdef int64_t start, stop, step
    if source.recorder is not None:
        raise _errors.UnsupportedError("indexing: a slice with a step cannot be traced yet",
                                       "NOT_IMPLEMENTED_FOR_PARAM")
    start, stop, step = item.indices(source.record.shape[dim])
    if step < 0:
        raise _errors.UnsupportedError("indexing: a negative step is not served; use flip()",
                                       "NOT_IMPLEMENTED_FOR_PARAM")
    sizes = list(source._sizes())
    steps = list(source._steps())
    sizes[dim] = max(0, (stop - start + step - 1) // step)
    offset = start * steps[dim]
    steps[dim] *= step
    return _strided(source, tuple(sizes), tuple(steps), offset)
