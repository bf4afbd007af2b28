# Tensor: the final type over a TensorRecord.


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Tensor:
    """A multi-dimensional array of one dtype on one device. A copy of the object is a handle on the same storage:
    a write through one is visible through the others, and shape operators make views.

    Made by the factories (`tensor`, `zeros`, `full`, ...), by operators, and by the readers of `clika_runtime.io`.
    """

    cdef TensorRecord record
    cdef object recorder     # of a traced tensor: its Recording
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
        return tuple([(<Recording>self.recorder)._wrap(self.record.shape[i])
                      for i in range(self.record.rank)])

    cdef tuple _steps(self):
        cdef int32_t i
        if self.recorder is None:
            return tuple([self.record.strides[i] for i in range(self.record.rank)])
        return tuple([(<Recording>self.recorder)._wrap(self.record.strides[i])
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
    def recording(self):
        """What a traced tensor belongs to, or None."""
        return self.recorder

    @property
    def is_traced(self):
        return self.recorder is not None

    @property
    def requires_grad(self):
        return False

    @property
    def itemsize(self):
        """Bytes of an element on its own."""
        return self.dtype.itemsize

    def element_size(self):
        return self.dtype.itemsize

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def is_complex(self):
        """Always False: complex types are refused at every door."""
        return False

    def is_signed(self):
        return self.dtype.is_signed

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

    nelement = numel

    def dim(self):
        return self.record.rank

    ndimension = dim

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
    cdef int _ordered(self, str operation) except -1:
        """Waits until what is done next with the bytes comes after what makes them: on the host, until they are there."""
        cdef ErrorPtr error
        if self.recorder is not None:
            raise _errors.ClikaRTError(
                f"{operation}: the tensor is traced: it has a shape and a dtype, no value", "FAILED_PRECONDITION")
        if self.record.storage is NULL:
            raise _errors.ClikaRTError(
                f"{operation}: the tensor is on device meta: it has a shape and a dtype, no value",
                "FAILED_PRECONDITION")
        if _trace_scopes and _written_in_scope(self):
            raise _errors.ClikaRTError(
                f"{operation}: the recording under way has written to the tensor; what it holds is older",
                "FAILED_PRECONDITION")
        if settled(self.record):
            error = self.record.storage.poison()
        else:
            with nogil:
                error = settle(self.record)
        if error.get() is not NULL:
            raise_error(error, "")
        return 0

    cdef int _wait(self, str operation) except -1:
        """Waits for the bytes; raises what the producing call failed with."""
        cdef ErrorPtr error
        self._ordered(operation)
        if device_backend_of(self.record.device) is not NULL:
            with nogil:
                error = synchronize_device(self.record.device)
            if error.get() is not NULL:
                raise_error(error, "")
        return 0

    cdef Tensor _readable(self, str operation):
        """A host tensor with contiguous bytes that can be read now."""
        cdef Tensor t = _as_published(self)
        if t.record.scheme != CLIKA_DENSE or t.record.layout != 0:
            raise invalid(f"{operation}: a packed weight has no elements to read; call dequantize() first")
        if t.record.device > 255:
            t = t.to("cpu")
        if not t.record.contiguous():
            t = get_op("copy")(t)
        t._wait(operation)
        return t

    def numpy(self):
        """The elements as a NumPy array that shares the memory of a CPU tensor; of a weight in its backend's own layout
        a copy that is not written to.

        Raises TypeError for a tensor on another device (move it with ``.to("cpu")``) and for dtypes that NumPy has
        not (cast, or use ``bytes()``).
        """
        if self.record.device > 255:
            raise TypeError(f"numpy: the tensor is on {self.device}; move it first with .to('cpu')")
        if self.record.layout != 0 and self.record.scheme == CLIKA_DENSE:
            array = self._readable("numpy").numpy()
            array.setflags(write=False)
            return array
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
            if copy is False:
                raise ValueError(f"a tensor of dtype {self.dtype.name} is no NumPy array of {dtype} without a copy")
            array = array.astype(dtype)
        elif copy:
            array = array.copy()
        return array

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """The tensor for another array library, by the DLPack protocol: the same memory, settled; on a device, ordered
        before what the receiver puts on ``stream`` (-1: no order)."""
        return _to_dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self):
        return _dl_device(self)

    def __reduce__(self):
        return _pickled(self)

    def __copy__(self):
        return _alias(self)

    def __deepcopy__(self, memo):
        cdef Tensor result = self.to(self.device, copy=True) if not self.is_fake() else _alias(self)
        result.parameter = self.parameter
        memo[id(self)] = result
        return result

    def bytes(self):
        """The elements' bytes, row-major; of a packed weight as published, its payload."""
        cdef Tensor t
        if self.record.scheme != CLIKA_DENSE:
            if self.record.device > 255:
                return self._moved("cpu", False).bytes()
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
        return iter(get_op("unbind")(self, 0))

    def __reversed__(self):
        return self if self.record.rank == 0 else get_op("flip")(self, (0,))

    def __contains__(self, value):
        """Whether an element is equal to a number or to a 0-d tensor."""
        if not isinstance(value, (int, float, Tensor)):
            raise TypeError(f"a tensor contains numbers, got {value!r}")
        return bool(get_op("any")(get_op("eq")(self, value)))

    def __format__(self, str spec):
        """A 0-d tensor formats as its number, others as they print."""
        if self.record.rank == 0 and self.recorder is None and not self.is_fake():
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __repr__(self):
        from ._format import format_tensor

        return format_tensor(self)

    # ------------------------------------------------------------ moving
    def to(self, target=None, dtype=None, *, device=None, copy=False, non_blocking=False):
        """The tensor on another device, in another dtype, or both; itself when nothing changes.

        ``x.to(crt.float16)``, ``x.to("cpu")``, ``x.to("cpu", crt.float16)``, ``x.to(other)`` (device and dtype of
        another tensor), and the keywords. ``copy``: never the tensor itself. ``non_blocking`` changes nothing: a move
        is ordered by itself.
        """
        if isinstance(target, _dtypes.dtype):
            if dtype is not None:
                raise TypeError("to: the dtype is given twice")
            target, dtype = None, target
        elif isinstance(target, Tensor):
            target, dtype = target.device, target.dtype
        if target is not None and device is not None:
            raise TypeError("to: the device is given twice")
        target = device if target is None else target
        if dtype is None and target is None:
            return self.clone() if copy else self
        if dtype is not None and dtype_code(dtype) != self.record.dtype:
            cast = get_op("cast")(self, dtype)
            return cast if target is None else cast.to(target)
        if target is None:
            return self.clone() if copy else self
        return self._moved(target, copy)

    cdef Tensor _moved(self, object target, bint copy):
        cdef Tensor result, source
        cdef ErrorPtr error
        cdef int32_t device = device_id(target)
        if device == self.record.device and not copy:
            return self
        if self.recorder is not None:
            return self.recorder.move(self, target)
        if device == -1:
            return _fake(self.record)
        if self.record.layout != 0 and device != self.record.device:  # packed for the other backend
            return pack_weight((<Tensor>unpack_weight(self))._moved(target, False), pack_mode(self))
        source = self
        if self.record.scheme == CLIKA_DENSE and not self.record.contiguous():
            source = get_op("copy")(self)
        source._ordered("to")
        result = Tensor.__new__(Tensor)
        result.record = source.record
        result.record.storage = NULL
        result.record.offset = 0
        result.record.device = device
        cdef size_t nbytes = source.nbytes
        result.record.storage = Storage.create(device_allocator(device), nbytes, device, False)
        if result.record.storage is NULL or (nbytes and result.record.storage.data() is NULL):
            raise_error(out_of_memory(b"to", <int64_t>nbytes, device), "to")
        with nogil:
            error = copy_device(source.record, &result.record)
        if error.get() is not NULL:
            raise_error(error, "")
        return result

    def cpu(self):
        return self.to("cpu")

    def type_as(self, Tensor other):
        """The tensor in the dtype of another."""
        return self.to(other.dtype)

    def float(self):
        return self.to(_dtypes.float32)

    def double(self):
        return self.to(_dtypes.float64)

    def half(self):
        return self.to(_dtypes.float16)

    def bfloat16(self):
        return self.to(_dtypes.bfloat16)

    def bool(self):
        return self.to(_dtypes.bool)

    def byte(self):
        return self.to(_dtypes.uint8)

    def char(self):
        return self.to(_dtypes.int8)

    def short(self):
        return self.to(_dtypes.int16)

    def int(self):
        return self.to(_dtypes.int32)

    def long(self):
        return self.to(_dtypes.int64)

    @property
    def T(self):
        """A view with the dims in reverse order."""
        return get_op("permute")(self, tuple(range(self.record.rank - 1, -1, -1)))

    @property
    def mT(self):
        """A view with the last two dims swapped."""
        return get_op("adjoint")(self)

    @property
    def H(self):
        """`T` of a matrix."""
        return get_op("t")(self)

    @property
    def mH(self):
        """`mT`: the elements are real."""
        return get_op("adjoint")(self)

    def clone(self):
        """A copy with bytes of its own."""
        return get_op("copy")(self)

    def where(self, condition, other):
        """This tensor where ``condition`` is true, else ``other``."""
        return get_op("where")(condition, self, other)

    def new_tensor(self, data, *, dtype=None, device=None):
        """`tensor` in the dtype and on the device of this one, unless others are named."""
        return tensor(data, dtype=self.dtype if dtype is None else dtype,
                      device=self.device if device is None else device)

    def fill_(self, value):
        """Writes one number to all elements, in place."""
        get_op("copy_")(self, value)
        return self

    def zero_(self):
        return self.fill_(0)

    def contiguous(self):
        """The tensor itself when its elements lie in row-major order, else a copy that does."""
        return self if self.is_contiguous() else get_op("copy")(self)

    def detach(self):
        return self

    def synchronize(self):
        """Waits for the bytes; raises what the producing call failed with."""
        self._wait("synchronize")

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

    def __lshift__(self, other):
        return get_op("bitwise_left_shift")(self, other)

    def __rlshift__(self, other):
        return get_op("bitwise_left_shift")(other, self)

    def __rshift__(self, other):
        return get_op("bitwise_right_shift")(self, other)

    def __rrshift__(self, other):
        return get_op("bitwise_right_shift")(other, self)

    def __pos__(self):
        return self

    def __eq__(self, other):
        return get_op("eq")(self, other) if isinstance(other, (Tensor, int, float)) else NotImplemented

    def __ne__(self, other):
        return get_op("ne")(self, other) if isinstance(other, (Tensor, int, float)) else NotImplemented

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

    def __ifloordiv__(self, other):
        return self._write(get_op("floor_divide")(self, other))

    def __imod__(self, other):
        return self._write(get_op("remainder")(self, other))

    def __ipow__(self, other):
        return self._write(get_op("pow")(self, other))

    def __iand__(self, other):
        return self._write(get_op("bitwise_and")(self, other))

    def __ior__(self, other):
        return self._write(get_op("bitwise_or")(self, other))

    def __ixor__(self, other):
        return self._write(get_op("bitwise_xor")(self, other))

    def __ilshift__(self, other):
        return self._write(get_op("bitwise_left_shift")(self, other))

    def __irshift__(self, other):
        return self._write(get_op("bitwise_right_shift")(self, other))

    def _write(self, Tensor value):
        """Writes a result into this tensor's bytes; what the in-place forms are made of. The result has this
        tensor's shape and a dtype of its kind or below."""
        if _KIND_ORDER[value.dtype.kind] > _KIND_ORDER[self.dtype.kind]:
            raise invalid(f"in place: a result of dtype {value.dtype.name} cannot be written into {self.dtype.name}")
        if value._sizes() != self._sizes():
            raise invalid(f"in place: a result of shape {list(value._sizes())} cannot be written into a tensor of "
                          f"shape {list(self._sizes())}")
        get_op("copy_")(self, value)
        return self

    def __getattr__(self, str name):
        op = method_op(name)
        if op is not None:
            return _publish(name, op, False).__get__(self, Tensor)
        if name.endswith("_") and not name.startswith("_"):
            op = method_op(name[:-1])
            if op is not None:
                return _publish(name, op, True).__get__(self, Tensor)
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    # ------------------------------------------------------------ indexing
    def __getitem__(self, index):
        """Ints, slices, ``...`` and None give views; integer tensors and lists, and masks, gather."""
        return _index(self, index)

    def __setitem__(self, index, value):
        """Writes to the places of an index; the value broadcasts to them and is converted to the dtype."""
        _assign(self, index, value)

    def __delitem__(self, index):
        raise TypeError("a tensor's elements cannot be deleted; take those that stay with an index, as in x[1:]")

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


cdef dict _KIND_ORDER = {"b": 0, "i": 1, "u": 1, "f": 2}


@cython.final
cdef class _Attribute:
    """An operator in the type's dictionary, as an attribute of its tensors."""

    cdef object op
    cdef bint in_place

    def __get__(self, target, owner):
        if target is None:
            return self.op
        return _InPlace(self.op, target) if self.in_place else _Method(self.op, target)


cdef _Attribute _publish(str name, object op, bint in_place):
    """Puts an operator that was asked for into the type: the next look finds it without failing first."""
    cdef _Attribute made = _Attribute.__new__(_Attribute)
    cdef PyTypeObject* type_object = <PyTypeObject*>Tensor
    made.op = op
    made.in_place = in_place
    (<dict>type_object.tp_dict)[name] = made
    PyType_Modified(type_object)
    return made


@cython.final
@cython.freelist(16)
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


cdef Tensor _fake(const TensorRecord& like):
    cdef Tensor result = Tensor.__new__(Tensor)
    result.record = like
    result.record.storage = NULL
    result.record.offset = 0
    result.record.device = -1
    result.record.layout = 0
    return result


# The most elements a shape may have: their bits still fit 64 bits, whatever the dtype.
_MAX_ELEMENTS = 1 << 56

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


cdef object _whole(str operation, str what, object value):
    """A whole number of the caller's."""
    try:
        return value.__index__()
    except AttributeError:
        raise TypeError(f"{operation}: {what} must be int, got {value!r}") from None


cdef int _set_shape(TensorRecord* record, object shape, str operation) except -1:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(sizes) > 8:
        raise _errors.UnsupportedError(f"{operation}: rank {len(sizes)} is over the limit of 8")
    cdef int32_t i = 0
    total = 1
    for size in sizes:
        size = _whole(operation, "a size", size)
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
        raise_error(out_of_memory(operation.encode(), nbytes, device), operation)
    return result


def empty(shape, dtype=None, device=None):
    """A tensor of that shape whose elements are not set; float32 unless ``dtype`` says otherwise. In a recording, of
    symbolic sizes, it is zeros."""
    sizes = tuple(shape)
    if any([isinstance(size, SymInt) for size in sizes]):
        return get_op("zeros")(sizes, dtype=dtype, device=device)
    return _new(sizes, dtype_code(_dtypes.float32 if dtype is None else dtype), device_id(device), "empty")


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


cdef Tensor _as_published(Tensor t):
    """A dense weight in its backend's own layout as it was published, which is a copy; else the tensor itself."""
    if t.record.layout != 0 and t.record.scheme == CLIKA_DENSE and t.record.storage is not NULL:
        return unpack_weight(t)
    return t


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
        raise _errors.UnsupportedError("as_strided: a traced tensor has no storage to view",
                                       "NOT_IMPLEMENTED_FOR_PARAM")
    source = _as_published(source)
    if source.record.scheme != CLIKA_DENSE or source.record.layout != 0:
        raise invalid("as_strided: a packed weight has no elements to view; call dequantize() first")
    cdef int32_t bits = dtype_bits(source.record.dtype)
    size = tuple([_whole("as_strided", "a size", item) for item in size])
    stride = tuple([_whole("as_strided", "a stride", item) for item in stride])
    start = source.storage_offset() if offset is None else _whole("as_strided", "storage_offset", offset)
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
