# Recording operators as they are written, into the store of a ModelGraph: no kernel is chosen.


class Port(int):
    """In the arguments of a node: the tensor on this input port."""

    __slots__ = ()

    def __repr__(self):
        return f"Port({int(self)})"


cdef extern from *:
    """
    static std::vector<int64_t> size_values(const clika::Sizes& sizes, const std::vector<int64_t>& symbols) {
      std::vector<int64_t> values;
      sizes.evaluate(symbols, &values);
      return values;
    }
    static std::vector<std::string> symbol_names(const clika::Sizes& sizes) {
      std::vector<std::string> names;
      for (size_t i = 0; i < sizes.symbol_count(); ++i) names.push_back(sizes.symbol_name(i));
      return names;
    }
    """
    vector[int64_t] size_values(const Sizes& sizes, const vector[int64_t]& symbols) except +
    vector[string] symbol_names(const Sizes& sizes) except +


cdef int _trace_scopes = 0              # entered `tracing_scope`s of all threads: a cheap "nobody traces"
cdef object _trace_scope = threading.local()


@cython.final
cdef class tracing_scope:
    """Inside the scope every operator that this thread calls is recorded by ``tracer``, also one that no traced tensor
    enters; with None, every one runs at once."""

    cdef object tracer
    cdef object before

    def __init__(self, tracer):
        self.tracer = tracer

    def __enter__(self):
        global _trace_scopes
        self.before = getattr(_trace_scope, "tracer", None)
        _trace_scope.tracer = self.tracer
        _trace_scopes += 1
        return self.tracer

    def __exit__(self, *failure):
        global _trace_scopes
        _trace_scopes -= 1
        _trace_scope.tracer = self.before


cdef object _active_tracer():
    """The tracer of this thread's innermost scope, or None."""
    return getattr(_trace_scope, "tracer", None)


def active_tracer():
    """The tracer of this thread's innermost `tracing_scope`, or None."""
    return _active_tracer() if _trace_scopes else None


cdef bint _written_in_scope(Tensor t):
    """Whether the bytes of a tensor were written in this thread's recording, so that what it holds is older."""
    tracer = _active_tracer()
    if tracer is None or not isinstance(tracer, Tracer):
        return False
    first = (<Tracer>tracer).storages.get(<size_t>t.record.storage, -1)
    return first in (<Tracer>tracer).latest


@cython.final
cdef class Tracer(Recording):
    """Records every operator called on its traced tensors as a node of ``store``, a `ModelGraph`.

    The graph is functional. A write makes a new version of its value, and what shares the bytes and is used after it
    becomes a node ``after``: the same place, read after the write. So no order of the nodes can move a read past a
    write.
    """

    cdef object store      # gives the ModelGraph, which owns this tracer
    cdef readonly bint lazy
    cdef dict strides      # value -> encoded strides, where they are not compact
    cdef dict constants    # what a constant shows -> value
    cdef dict storages     # storage -> the first constant over it
    cdef dict latest       # root value -> the value that the last write to its bytes made
    cdef dict stamp        # value -> `latest` of its root when it was made
    cdef dict roots        # value -> its root, as far as it was asked for
    cdef dict places       # the result of a write -> the value that was first written at its place
    cdef dict refreshed    # (value, latest) -> the value of `after`
    cdef object outer      # of a body: gives its value for a tensor from outside; -1: a constant

    def __init__(self, store, bint lazy=False):
        """``lazy`` is for a recording that nobody runs: the tracer keeps its graph, whose values `eval` computes, and
        a write in place is refused."""
        self.store = (lambda: store) if lazy else weakref.ref(store)
        self.lazy = lazy
        self.strides = {}
        self.constants = {}
        self.storages = {}
        self.latest = {}
        self.stamp = {}
        self.roots = {}
        self.places = {}
        self.refreshed = {}
        self.outer = None

    def share_sizes(self, Recording other):
        """Takes over the symbolic sizes of a recording: their numbers mean the same here."""
        self.graph = other.graph

    def captures(self, outer):
        """For the body of a node: ``outer(tensor)`` gives its value for a tensor from outside."""
        self.outer = outer

    cdef object _graph(self):
        graph = self.store()
        if graph is None:
            raise _errors.InvalidArgumentError("a traced tensor of a graph that is gone cannot be used",
                                               "FAILED_PRECONDITION")
        return graph

    def graph_of(self):
        """The graph that is recorded."""
        return self._graph()

    # ---------------------------------------------------- values
    cdef Tensor _tensor(self, int32_t id):
        cdef Tensor result = Tensor.__new__(Tensor)
        cdef int32_t d
        cdef int64_t step = 1
        held = self._graph()._constants.get(id)
        if held is not None:
            result.record = (<Tensor>held).record
            result.record.storage = NULL
            result.record.offset = 0
            result.record.value = id
            result.recorder = self
            return result
        dtype, scheme, device, shape, _, _ = self._graph().meta(id)
        result.record.dtype = dtype
        result.record.scheme = scheme
        result.record.device = device
        result.record.rank = <int32_t>len(shape)
        for d in range(result.record.rank):
            result.record.shape[d] = shape[d]
        steps = self.strides.get(id)
        for d in range(result.record.rank - 1, -1, -1):
            if steps is None:
                result.record.strides[d] = step
                step = self.graph.get().sizes.multiply(step, result.record.shape[d])
            else:
                result.record.strides[d] = steps[d]
        result.record.value = id
        result.recorder = self
        return result

    def tensor(self, int32_t value):
        """The traced tensor of a value of the graph."""
        return self._tensor(value)

    def published(self, Tensor t):
        """A constant in its backend's own layout as it was published, a constant of its own."""
        return self._tensor(self._captured(unpack_weight(self._graph()._constants[t.record.value])))

    def value(self, Tensor t):
        """The value of a tensor: a traced one's newest version, a concrete one as a constant."""
        return self._newest(t)

    def captured(self, Tensor t):
        """The value of a tensor as it is, without a look for later writes."""
        return self._captured(t)

    def symbols(self):
        """The names of the symbolic sizes."""
        return [name.decode("utf-8", "replace") for name in symbol_names(self.graph.get().sizes)]

    def values_at(self, symbols):
        """What the expressions are for these values of `symbols`: the encoded size ``s`` below 0 is entry ``-s - 1``."""
        return list(size_values(self.graph.get().sizes, symbols))

    def steps(self, int32_t value):
        """The encoded strides of a value; None where they are compact."""
        return self.strides.get(value)

    def adopt(self, int32_t value, int32_t like, steps=None):
        """Gives an edit's new value the place in time of ``like``, and the encoded strides ``steps``."""
        if steps is not None:
            self.strides[value] = tuple(steps)
        if like in self.stamp:
            self.stamp[value] = self.stamp[like]

    def forget_writes(self):
        """Ends the time of the recording: from now on every value means itself, whatever was written after it."""
        self.latest, self.stamp, self.refreshed = {}, {}, {}

    def symbol_bounds(self):
        """(lowest, highest) value of each of `symbols`."""
        cdef int64_t low, high
        cdef size_t i
        found = []
        for i in range(self.graph.get().sizes.symbol_count()):
            self.graph.get().sizes.symbol_bounds(i, &low, &high)
            found.append((low, high))
        return found

    def taken(self, Tracer other, int64_t size, dict given):
        """An encoded size of another recording in this one, with the encoded sizes ``given`` in the place of its symbols
        by name; a symbol that is not there becomes a symbol of the same name."""
        cdef cpp_map[string, int64_t] sizes
        for name, value in given.items():
            sizes[name.encode()] = value
        return self.graph.get().sizes.take(other.graph.get().sizes, size, sizes)

    def written_roots(self):
        """(root value, value of its last write) of everything that was written."""
        return list(self.latest.items())

    cdef int32_t _root(self, int32_t value) except -1:
        found = self.roots.get(value)
        if found is not None:
            return found
        store = self._graph()
        path = [value]
        alias = store.meta(value)[4]
        while alias >= 0:
            found = self.roots.get(alias)
            if found is not None:
                break
            path.append(alias)
            alias = store.meta(alias)[4]
        root = path[-1] if found is None else found
        for item in path:
            self.roots[item] = root
        return root

    cdef int32_t _captured(self, Tensor t) except -1:
        """The value of a tensor as it is."""
        if t.recorder is not None and t.recorder is self:
            return t.record.value
        if self.outer is not None and (t.recorder is not None or t.record.storage is not NULL):
            found = self.outer(t)
            if found >= 0:
                return found
        if t.recorder is not None:
            raise invalid("a traced tensor of another recording cannot be used here")
        if t.record.storage is NULL:
            raise invalid("a tensor on device meta cannot be captured: it has no bytes")
        storage = <size_t>t.record.storage
        key = (storage, t.record.offset, t.record.dtype, t.record.scheme, t._sizes(), t._steps())
        store = self._graph()
        found = self.constants.get(key)
        if found is None or not store.value_is_alive(found):
            first = self.storages.get(storage, -1)
            if first >= 0 and not store.value_is_alive(first):
                first = -1
            found = store._add_constant(t, first)
            self.constants[key] = found
            if first < 0:
                self.storages[storage] = found
            steps = t._steps()
            if not t.record.contiguous():
                self.strides[found] = steps
            self.stamp[found] = self.storages[storage] if first < 0 else first
        return found

    cdef int32_t _newest(self, Tensor t) except -1:
        cdef int32_t id = self._captured(t)
        if not self.latest:
            return id
        cdef int32_t root = self._root(id)
        last = self.latest.get(root)
        if last is None or self.stamp.get(id, root) == last:
            return id
        if self.places[last] == self.places.get(id, id):  # the version itself
            return last
        store = self._graph()
        found = self.refreshed.get((id, last))
        if found is None:
            dtype, scheme, device, shape, _, _ = store.meta(id)
            (found,) = store._add_operator("after", [Port(0), Port(1)], [id, last],
                                           [(dtype, scheme, device, shape, id, False)])
            if id in self.strides:
                self.strides[found] = self.strides[id]
            self.stamp[found] = last
            self.refreshed[(id, last)] = found
        return found

    # ---------------------------------------------------- calls
    def move(self, Tensor t, device):
        """The tensor on another device, as a node of its own."""
        cdef int32_t id = self._newest(t)
        dtype, scheme, _, shape, _, _ = self._graph().meta(id)
        (made,) = self._graph()._add_operator("move", [Port(0)], [id],
                                              [(dtype, scheme, device_id(device), shape, -1, False)])
        return self._tensor(made)

    cdef object _record(self, Op op, list values):
        record = op.record
        if self.lazy and record.mutates:
            raise _errors.ClikaRTError(f"{op.name}: a write in place cannot wait; leave tracing() or use eager() for it",
                                       "FAILED_PRECONDITION")
        call = []
        inputs = []
        for i in range(op.n_args):
            value = values[i]
            if op.kinds[i] != _TENSOR or value is None or not isinstance(value, (Tensor, list, tuple)):
                call.append(value)
                continue
            items = (value,) if isinstance(value, Tensor) else value
            ports = []
            tensors = []
            for item in items:
                ports.append(Port(len(inputs)))
                inputs.append(self._newest(<Tensor>item))
                tensors.append(self._tensor(inputs[-1]))
            call.append(ports[0] if isinstance(value, Tensor) else ports)
            values[i] = tensors[0] if isinstance(value, Tensor) else tensors
        metas, tensors = op._metas(values)
        cdef int32_t device = op._device(metas, tensors)
        with tracing_scope(None):  # a rule may work with tensors of its own
            results = record.infer(*metas)
        if record.mutates:
            op._check_targets(values)
        single = not isinstance(results, (tuple, list))
        outputs = (results,) if single else tuple(results)
        op._check_sizes(outputs, "a recording has no values")
        views = bool(outputs) and all(isinstance(result, View) for result in outputs)
        made = []
        sources = [i for i in range(op.n_args) if op.kinds[i] == _TENSOR and values[i] is not None]
        for index, result in enumerate(outputs):
            _check_view(result.shape, op.name)
            shape = tuple([self._encode(size) for size in result.shape])
            if views:
                source = values[sources[result.source]]
                made.append(((<Tensor>source).record.dtype, (<Tensor>source).record.scheme, device, shape,
                             (<Tensor>source).record.value, False))
            elif record.target(index) is not None:
                made.append((result.dtype.code, 0, device, shape, inputs[record.target(index)], True))
            else:
                made.append((result.dtype.code, 0, device, shape, -1, False))
        ids = self._graph()._add_operator(op.name, call, inputs, made)
        for index, (id, result) in enumerate(zip(ids, outputs)):
            if views:
                source = values[sources[result.source]]
                self.strides[id] = tuple([self._encode(step) for step in result.strides])
                root = self._root(id)
                self.stamp[id] = self.latest.get(root, root)
            elif record.target(index) is not None:
                target = inputs[record.target(index)]
                if target in self.strides:
                    self.strides[id] = self.strides[target]
                root = self._root(target)
                self.latest[root] = id
                self.stamp[id] = id
                self.places[id] = self.places.get(target, target)
        tensors = [self._tensor(id) for id in ids]
        return tensors[0] if single else tuple(tensors)


def settle_lazy(list tensors, list results):
    """Gives traced tensors the bytes of what was computed for them."""
    cdef Tensor t, result
    for t, result in zip(tensors, results):
        t.record = result.record
        t.record.storage.retain()
        t.recorder = None


cdef int _materialize(list leaves) except -1:
    """Computes the traced tensors of lazy recordings."""
    waiting = {}
    for leaf in leaves:
        tracer = (<Tensor>leaf).recorder
        if isinstance(tracer, Tracer) and (<Tracer>tracer).lazy:
            waiting.setdefault(id(tracer), (tracer, []))[1].append(leaf)
    for tracer, tensors in waiting.values():
        settle_lazy(tensors, (<Tracer>tracer)._graph()._evaluate([(<Tensor>t).record.value for t in tensors]))
    return 0
