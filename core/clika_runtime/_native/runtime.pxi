# Streams, memory, waiting; what runs once at import.
import atexit as _atexit

from . import _pytree


@cython.final
cdef class Stream:
    """A queue of work of one device. On the CPU a stream is a lane: a host thread that runs calls in order."""

    cdef Lane* lane
    cdef readonly object device
    cdef bint default
    cdef clika_stream stream  # of a device
    cdef int32_t number

    @staticmethod
    def create(device="cpu"):
        """A worker stream of its own."""
        cdef Stream result = Stream.__new__(Stream)
        result.device = Device(device)
        if device_id(result.device) > 255:
            raise _errors.UnsupportedError(
                f"Stream.create: the calls on {result.device} ride on its default stream; take "
                "Stream.default_stream(device)", "NOT_IMPLEMENTED_FOR_DEVICE")
        result.lane = Lane.create()
        return result

    @staticmethod
    def default_stream(device="cpu"):
        """The calling thread's stream; on a device, the one that all calls ride on."""
        cdef Stream result = Stream.__new__(Stream)
        result.device = Device(device)
        result.default = True
        cdef int32_t number = device_id(result.device)
        cdef ErrorPtr error
        if device_backend_of(number) is not NULL:
            result.number = number
            with nogil:
                result.stream = device_stream(number, &error)
            if result.stream is NULL:
                raise_error(error, "Stream.default_stream")
        return result

    def __dealloc__(self):
        if self.lane is not NULL:
            self.lane.retire()

    def is_default(self):
        return self.default

    cdef Lane* _lane(self):
        return self.lane if self.lane is not NULL else &Lane.current()

    def query_idle(self):
        """True when everything queued has run. Never waits."""
        if self.stream is not NULL:
            return device_backend_of(self.number).table.stream_query(self.stream) == 1
        return self._lane().idle()

    def synchronize(self):
        """Waits until everything queued has run."""
        if self.stream is not NULL:
            _synchronize_device(self.number)
            return
        cdef Lane* lane = self._lane()
        with nogil:
            lane.synchronize()

    def native_handle(self):
        """The address of the backend's own stream (on CUDA a ``CUstream``); None on the CPU."""
        if self.stream is NULL:
            return None
        return <uintptr_t>device_backend_of(self.number).table.stream_native_handle(self.stream)

    def __repr__(self):
        return f"Stream(device={self.device}, {'default' if self.default else 'worker'})"


cdef int _synchronize_device(int32_t device) except -1:
    cdef ErrorPtr error
    with nogil:
        error = synchronize_device(device)
    if error.get() is not NULL:
        raise_error(error, "")
    return 0


def synchronize(target=None):
    """Waits until the calling thread's queued work and that of the devices (or a stream's, a tensor's, a device's) has
    run. Raises what a device failed with meanwhile."""
    if isinstance(target, Stream):
        target.synchronize()
    elif isinstance(target, Tensor):
        (<Tensor>target)._wait("synchronize")
    else:
        numbers = [device_id(target)] if target is not None else list(_DEVICE_OF_ID)
        if target is None or numbers[0] < 256:
            with nogil:
                Lane.current().synchronize()
        for number in numbers:
            if number > 255:
                _synchronize_device(number)
    _collect()


def _tensor_leaves(tree):
    stack = [tree]
    seen = {}
    while stack:
        item = stack.pop()
        if isinstance(item, (dict, list, tuple)):
            if id(item) in seen:  # a container may hold itself
                continue
            seen[id(item)] = item
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        else:  # other nodes of pytrees
            leaves = _pytree.flatten(item, None, True, "")[0]
            if len(leaves) != 1 or leaves[0] is not item:
                stack.extend(leaves)


cdef list _computed(tuple trees):
    """The tensors in pytrees, those of `tracing` scopes computed."""
    leaves = list(_tensor_leaves(trees))
    if any([(<Tensor>leaf).recorder is not None for leaf in leaves]):
        _materialize(leaves)
    return leaves


def eval(*trees):
    """Waits for every tensor in pytrees, and in subclasses of dict, list and tuple; raises what a producer failed
    with. A tensor of a `tracing` scope is computed."""
    for leaf in _computed(trees):
        (<Tensor>leaf)._wait("eval")


def async_eval(*trees):
    """Makes sure that the work behind every tensor is submitted; does not wait. A tensor of a `tracing` scope is
    computed."""
    _computed(trees)


class MemoryStats(dict):
    """``active_bytes`` (handed out), ``cached_bytes`` (idle in the pool), ``peak_bytes``, ``allocations``,
    ``system_allocations``; as attributes and as a dict."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def memory_stats(device="cpu"):
    """What the device's memory pool holds, in bytes."""
    cdef MemoryStats_ s = device_allocator(device_id(device)).stats()
    return MemoryStats(active_bytes=s.active_bytes, cached_bytes=s.cached_bytes, peak_bytes=s.peak_bytes,
                       allocations=s.allocations, system_allocations=s.system_allocations)


def free_memory(device):
    """Bytes that tensors may still take on a device: what it says is free, and the idle blocks of this process's pool.
    None where the backend does not say."""
    cdef int32_t number = device_id(device)
    cdef int64_t free = 0
    cdef int64_t total = 0
    cdef cbool known = False
    cdef ErrorPtr error
    with nogil:
        error = memory_info(number, &free, &total, &known)
    if error.get() is not NULL:
        raise_error(error, "")
    return free + device_allocator(number).stats().cached_bytes if known else None


def empty_cache(device="cpu"):
    """Gives the idle blocks of the device's pool back to the system; returns how many bytes that were. Memory in use
    or pending is untouched."""
    return device_allocator(device_id(device)).trim()


def num_threads():
    """How many threads one parallel region may use: ``CLIKA_RT_NUM_THREADS``, else the cores that affinity and the
    control group allow."""
    check_variables()
    return Pool.get().size()


cdef tuple _PACK_MODES = ("exact", "fast", "both", "table")


def pack_weight(Tensor weight, mode="both", *, bint drop_source=True):
    """The weight in its backend's own layout, made once at load.

    ``mode``: ``"exact"``, ``"fast"``, ``"both"`` or ``"table"`` (only gathered from). Gives the tensor itself back
    where the backend keeps weights as published. The pages of a mapped source are dropped afterwards.
    """
    return pack_weights([weight], [mode], drop_source=drop_source)[0]


def pack_weights(list weights, list modes, *, bint drop_source=True):
    """`pack_weight` of each weight with its mode, one after the other, without the GIL between them."""
    cdef vector[TensorRecord] records
    cdef vector[int32_t] numbers
    cdef Tensor weight, result
    cdef ErrorPtr error
    cdef size_t i
    for given, mode in zip(weights, modes, strict=True):
        if type(given) is not Tensor:
            raise TypeError(f"pack_weight: a weight must be a tensor, got {type(given).__name__}")
        weight = given
        if mode not in _PACK_MODES:
            raise invalid(
                f"mode: {mode!r:.80} is not a PackMode; choose one of {', '.join(map(repr, _PACK_MODES))}")
        if weight.record.device == 0:
            ensure_backend("cpu")
        weight._wait("pack_weight")
        records.push_back(weight.record)
        numbers.push_back(_PACK_MODES.index(mode))
    with nogil:
        error = pack_weights_native(&records, numbers, drop_source)
    if error.get() is not NULL:
        raise_error(error, "pack_weight")
    packed = []
    for i, weight in enumerate(weights):
        result = Tensor.__new__(Tensor)
        result.record = records[i]
        result.parameter = weight.parameter
        packed.append(weight if result.record.storage is weight.record.storage else result)
    return packed


def pack_mode(Tensor weight):
    """The mode that a weight in its backend's own layout was packed for; None for one as published."""
    return _PACK_MODES[weight.record.pack_mode] if weight.record.layout else None


def unpack_weight(Tensor weight):
    """The weight as it was published, bit for bit: the opposite of `pack_weight`. A weight that is as published is
    given back itself.

    Raises `UnsupportedError` (``NOT_IMPLEMENTED_FOR_LAYOUT``) where the backend that packed it has no way back.
    """
    cdef Tensor result
    cdef TensorRecord published
    cdef ErrorPtr error
    weight._wait("unpack_weight")
    if weight.record.layout == 0:
        return weight
    with nogil:
        error = unpack_weight_native(weight.record, &published)
    if error.get() is not NULL:
        raise_error(error, "unpack_weight")
    result = Tensor.__new__(Tensor)
    result.record = published
    result.parameter = weight.parameter
    return result


cdef void _without_gil(void (*body)(void*) noexcept, void* arg) noexcept:
    cdef PyThreadState* state = PyEval_SaveThread()
    body(arg)
    PyEval_RestoreThread(state)


def _core_capsule():
    """The core's table for plugins that want it outside a call."""
    return PyCapsule_New(<void*>core_table(), CLIKA_CORE_CAPSULE, NULL)


def _at_exit():
    with nogil:
        drain_all_lanes()


cdef extern from *:
    """
    namespace clika {
    static void set_without_gil(void (*release)(void (*)(void*), void*)) { without_gil = release; }
    }
    """
    void set_without_gil "clika::set_without_gil"(void (*)(void (*)(void*) noexcept, void*) noexcept)

set_without_gil(_without_gil)
install_fork_handlers()
_atexit.register(_at_exit)
