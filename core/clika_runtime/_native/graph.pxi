# Recording into the node store, symbolic sizes, and plans.
import weakref

_MAX_SIZE = (1 << 63) - 1


@cython.final
cdef class SymInt:
    """A symbolic size: a polynomial over named symbols. Arithmetic gives sizes; equal expressions are equal objects.

    A comparison is answered where the bounds of the symbols decide it; ``==`` is structural (a symbol is never
    equal to a number).
    """

    cdef object owner    # the Recording
    cdef int64_t size

    def __init__(self, *args, **kwargs):
        raise TypeError("SymInt: make one with GraphRecorder.symbol()")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a symbolic size cannot be pickled: it belongs to its recording")

    cdef object _other(self, object other):
        if isinstance(other, SymInt):
            if not _same_sizes((<SymInt>other).owner, self.owner):
                raise invalid("symbolic sizes of two recordings cannot be combined")
            return (<SymInt>other).size
        if isinstance(other, int):
            return other
        return None

    cdef object _combine(self, int kind, object left, object right):
        cdef Recording owner = <Recording>self.owner
        cdef Sizes* sizes = &owner.graph.get().sizes
        cdef int64_t a, b
        for size in (left, right):
            if not -_MAX_SIZE <= size <= _MAX_SIZE:
                raise invalid(f"a symbolic size cannot be combined with {size}: it is no size of 64 bits")
        a, b = left, right
        if kind == 0:
            return owner._wrap(sizes.add(a, b))
        if kind == 1:
            return owner._wrap(sizes.add(a, sizes.negate(b)))
        if kind == 2:
            return owner._wrap(sizes.multiply(a, b))
        if kind == 3:
            return owner._wrap(sizes.floor_divide(a, b))
        if kind == 4:
            return owner._wrap(sizes.modulo(a, b))
        return owner._wrap(sizes.minimum(a, b))

    cdef object _binary(self, int kind, object other, bint swapped):
        right = self._other(other)
        if right is None:
            return NotImplemented
        if not isinstance(other, SymInt) and right < 0:
            if kind == 0 and not swapped:
                return self._combine(1, self.size, -right)
            if kind == 1 and not swapped:
                return self._combine(0, self.size, -right)
            if kind == 0:
                return self._combine(1, self.size, -right)
            raise invalid(f"a symbolic size cannot be combined with the negative number {right}")
        if kind == 3 and not swapped and right == 0 or kind == 4 and not swapped and right == 0:
            raise ZeroDivisionError("division of a symbolic size by zero")
        return self._combine(kind, right, self.size) if swapped else self._combine(kind, self.size, right)

    def __add__(self, other):
        return self._binary(0, other, False)

    def __radd__(self, other):
        return self._binary(0, other, True)

    def __sub__(self, other):
        return self._binary(1, other, False)

    def __rsub__(self, other):
        return self._binary(1, other, True)

    def __mul__(self, other):
        return self._binary(2, other, False)

    def __rmul__(self, other):
        return self._binary(2, other, True)

    def __floordiv__(self, other):
        return self._binary(3, other, False)

    def __rfloordiv__(self, other):
        return self._binary(3, other, True)

    def __mod__(self, other):
        return self._binary(4, other, False)

    def minimum(self, other):
        """The smaller of two sizes, at least 0."""
        return self._combine(5, self.size, max(0, self._other(other)) if isinstance(other, int) else self._other(other))

    def __eq__(self, other):
        if isinstance(other, SymInt):
            return (<SymInt>other).size == self.size and _same_sizes((<SymInt>other).owner, self.owner)
        return False if isinstance(other, int) else NotImplemented

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self):
        return hash(("SymInt", self.size))

    cdef object _compare(self, object other, int kind):
        """-1, 0 or 1 where the bounds decide; raises where they do not."""
        cdef int64_t low, high
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        if isinstance(other, SymInt) and (<SymInt>other).size == self.size:
            return kind in (1, 3)
        bounds = self.bounds()
        against = (other, other) if isinstance(other, int) else other.bounds()
        low, high = bounds
        if kind == 0 or kind == 3:  # < and >=
            if high < against[0]:
                return kind == 0
            if low >= against[1]:
                return kind == 3
        else:  # <= and >
            if high <= against[0]:
                return kind == 1
            if low > against[1]:
                return kind == 2
        raise invalid(f"the symbolic size {self} (between {low} and {high}) cannot be compared with {other}: the "
                      "answer depends on its value")

    def __lt__(self, other):
        return self._compare(other, 0)

    def __le__(self, other):
        return self._compare(other, 1)

    def __gt__(self, other):
        return self._compare(other, 2)

    def __ge__(self, other):
        return self._compare(other, 3)

    def bounds(self):
        """(lowest, highest) value."""
        cdef int64_t low, high
        (<Recording>self.owner).graph.get().sizes.bounds(self.size, &low, &high)
        return low, high

    def __bool__(self):
        low, high = self.bounds()
        if low > 0:
            return True
        raise invalid(f"the symbolic size {self} may be 0: its truth depends on its value")

    def __repr__(self):
        return (<Recording>self.owner).graph.get().sizes.text(self.size).decode()


cdef int64_t _whole_size(str what, object value) except -1:
    """A size of the caller's."""
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what} must be a whole number, got {value!r}")
    whole = value.__index__()
    if not 0 <= whole <= _MAX_SIZE:
        raise invalid(f"{what} must be between 0 and 2**63 - 1, got {whole}")
    return whole


@cython.final
cdef class _GraphScalar:
    """A runtime scalar of a recording whose value arrives with each run."""

    cdef object owner
    cdef int32_t index
    cdef readonly str name

    def __init__(self, *args, **kwargs):
        raise TypeError("make a scalar of a recording with GraphRecorder.scalar()")


cdef bint _same_sizes(object a, object b):
    """A body shares the sizes of the recording around it."""
    return a is b or (<Recording>a).graph.get() == (<Recording>b).graph.get()


cdef class Recording:
    """What traced tensors and symbolic sizes belong to: their sizes, and what a call on them becomes."""

    cdef shared_ptr[Graph] graph
    cdef object __weakref__

    def __cinit__(self):
        self.graph = make_shared[Graph]()

    cdef object _record(self, Op op, list values):
        raise NotImplementedError

    cdef object _wrap(self, int64_t size):
        if size >= 0:
            return size
        cdef SymInt result = SymInt.__new__(SymInt)
        result.owner = self
        result.size = size
        return result

    cdef int64_t _encode(self, object size) except? -1:
        if isinstance(size, SymInt):
            if not _same_sizes((<SymInt>size).owner, self):
                raise invalid("a symbolic size of another recording cannot be used here")
            return (<SymInt>size).size
        return _whole_size("a size", size)

    def symbol(self, str name, low, high):
        """A named size between ``low`` and ``high``, both included; the same name is the same symbol.

        Raises `InvalidArgumentError` for bounds that are no sizes, and where the name has other bounds already.
        """
        cdef int64_t least = _whole_size(f"symbol: the lower bound of '{name}'", low)
        cdef int64_t most = _whole_size(f"symbol: the upper bound of '{name}'", high)
        if most < least:
            raise invalid(f"symbol: '{name}' needs low <= high, got {low} and {high}")
        cdef int64_t size = self.graph.get().sizes.symbol(utf8_name("symbol", name), least, most)
        cdef int64_t known_low, known_high
        self.graph.get().sizes.symbol_bounds(self.graph.get().sizes.as_symbol(size), &known_low, &known_high)
        if known_low != least or known_high != most:
            raise invalid(f"symbol: '{name}' was made with the bounds {known_low} and {known_high}, got {low} and "
                          f"{high}")
        return self._wrap(size)

    def size(self, int64_t encoded):
        """A size from its number in this recording."""
        return self._wrap(encoded)

    def encoded(self, size):
        """The number of a size in this recording: itself, or below 0 for a symbolic one."""
        return self._encode(size)


@cython.final
cdef class GraphRecorder(Recording):
    """Records operator calls on traced tensors into the native node store and compiles them to a `Plan`.

    >>> g = GraphRecorder()
    >>> n = g.symbol("n", 1, 64)
    >>> x = g.input("x", (n, 4), float32)
    >>> plan = g.compile({"y": x * 2.0})
    >>> plan.run({"x": tensor([[1.0, 2.0, 3.0, 4.0]])})["y"].tolist()
    [[2.0, 4.0, 6.0, 8.0]]
    """

    cdef list input_names
    cdef list keep          # Python kernels that nodes borrow

    def __cinit__(self):
        self.input_names = []
        self.keep = []

    def share_sizes(self, Recording other):
        """Takes over the symbolic sizes of a recording: their numbers mean the same here."""
        self.graph.get().sizes = other.graph.get().sizes

    def apply(self, Op op, list values, bint fold=True):
        """Calls ``op`` on its arguments in the record's order: at once where no tensor is traced, unless ``fold`` is
        False, else recorded."""
        if not fold:
            with tracing_scope(self):  # what it is composed of is recorded too
                return self._record(op, list(values))
        for value in values:
            for item in (value if isinstance(value, (list, tuple)) else (value,)):
                if (isinstance(item, Tensor) and (<Tensor>item).recorder is not None
                        or isinstance(item, (SymInt, _GraphScalar))):
                    return self._record(op, list(values))
        given = {}
        for arg, value in zip(op.args, values):
            given[arg.name] = value
        return op(**given)

    def input(self, str name, shape, dtype, device=None):
        """A traced tensor whose bytes arrive with each run under ``name``."""
        if name in self.input_names:
            raise invalid(f"input: the name '{name}' is taken")
        cdef string label = utf8_name("input", name)
        cdef Value value
        cdef int32_t i = 0
        value.dtype = dtype_code(dtype)
        value.device = device_id(device)
        for size in shape:
            if i >= 8:
                raise _errors.UnsupportedError("input: rank over the limit of 8")
            value.shape[i] = self._encode(size)
            i += 1
        value.rank = i
        self._compact(&value)
        self.input_names.append(name)
        return self._tensor(self.graph.get().add_input(label, value))

    def scalar(self, str name):
        """A runtime scalar whose value arrives with each run under ``name``."""
        cdef string label = utf8_name("scalar", name)
        cdef size_t k
        for k in range(self.graph.get().scalar_inputs.size()):
            if self.graph.get().scalar_inputs[k] == label:
                raise invalid(f"scalar: the name '{name}' is taken")
        cdef _GraphScalar result = _GraphScalar.__new__(_GraphScalar)
        result.owner = self
        result.name = name
        result.index = <int32_t>self.graph.get().scalar_inputs.size()
        self.graph.get().scalar_inputs.push_back(label)
        return result

    def state(self, Tensor target):
        """The traced value of a tensor that runs of the plan update in place (a KV pool, a counter)."""
        return self._tensor(self.graph.get().latest(self._capture(target, True)))

    def constant(self, Tensor target):
        """The traced value of a captured tensor. Concrete tensors that meet traced ones are captured by themselves."""
        return self._tensor(self._capture(target, False))

    @property
    def inputs(self):
        return tuple(self.input_names)

    def node_count(self):
        return self.graph.get().nodes.size()

    def nodes(self):
        """(operator, input values, output values) of every node, in recorded order."""
        cdef Graph* graph = self.graph.get()
        cdef size_t i
        result = []
        for i in range(graph.nodes.size()):
            result.append((graph.nodes[i].op.decode(), tuple(graph.nodes[i].inputs), tuple(graph.nodes[i].outputs)))
        return result

    cdef void _compact(self, Value* value):
        cdef int64_t step = 1
        cdef int32_t i
        for i in range(value.rank - 1, -1, -1):
            value.strides[i] = step
            step = self.graph.get().sizes.multiply(step, value.shape[i])

    cdef int32_t _capture(self, Tensor t, bint state) except -1:
        if t.recorder is not None:
            if t.recorder is not self:
                raise invalid("a traced tensor of another recording cannot be used here")
            return t.record.value
        if t.record.storage is NULL:
            raise invalid("a tensor on device meta cannot be captured: it has no bytes")
        cdef Value value
        cdef int32_t i
        value.dtype = t.record.dtype
        value.scheme = t.record.scheme
        value.layout = t.record.layout
        value.device = t.record.device
        value.rank = t.record.rank
        for i in range(t.record.rank):
            value.shape[i] = t.record.shape[i]
            value.strides[i] = t.record.strides[i]
        value.storage = t.record.storage
        value.storage_offset = t.record.offset
        return self.graph.get().capture(value, state)

    cdef Tensor _tensor(self, int32_t id):
        cdef Tensor result = Tensor.__new__(Tensor)
        cdef Value* value = &self.graph.get().values[id]
        cdef int32_t i
        result.record.dtype = value.dtype
        result.record.scheme = value.scheme
        result.record.layout = value.layout
        result.record.device = value.device
        result.record.rank = value.rank
        for i in range(value.rank):
            result.record.shape[i] = value.shape[i]
            result.record.strides[i] = value.strides[i]
        result.record.value = id
        result.recorder = self
        return result

    def published(self, Tensor t):
        """A captured weight in its backend's own layout as it was published, a constant of its own."""
        cdef Tensor held = Tensor.__new__(Tensor)
        cdef Value* value = &self.graph.get().values[t.record.value]
        held.record = t.record
        held.record.value = -1
        held.record.storage = value.storage
        held.record.offset = value.storage_offset
        if value.storage is NULL:
            raise invalid("a weight in its backend's own layout is a constant of a recording, not computed by it")
        value.storage.retain()
        return self._tensor(self._capture(unpack_weight(held), False))

    # -------------------------------------------------------- a call
    cdef object _record(self, Op op, list values):
        record = op.record
        cdef list traced = []
        cdef Tensor t
        # Every tensor becomes a value of this store; in-place writes are seen through their newest version.
        for i in range(op.n_args):
            value = values[i]
            if op.kinds[i] != _TENSOR or value is None:
                continue
            if isinstance(value, Tensor):
                values[i] = self._newest(<Tensor>value)
            elif isinstance(value, (list, tuple)):
                values[i] = [self._newest(<Tensor>item) for item in value]
        metas, tensors = op._metas(values)
        if len(tensors) > 64:
            for i in range(op.n_args):
                if isinstance(values[i], (list, tuple)) and op.sequence[i]:
                    return op._in_parts(values, i)
        cdef int32_t device = op._device(metas, tensors)
        results = record.infer(*metas)
        single = not isinstance(results, (tuple, list))
        outputs = (results,) if single else tuple(results)
        op._check_sizes(outputs, "a recording has no values")
        for result in outputs:
            _check_view(result.shape, op.name)
        if outputs and all(isinstance(result, View) for result in outputs):
            return self._record_views(op, values, outputs, single)
        if "view" in record.traits:
            return record.compose(*values)
        promoted = record.promote(*metas) if record.promote is not None else None
        entering = op._entering(metas, promoted)
        slot = 0
        for i in range(op.n_args):
            if op.kinds[i] != _TENSOR:
                continue
            value = values[i]
            if isinstance(value, (list, tuple)):
                values[i] = [self._entered(item, entering[slot + k]) for k, item in enumerate(value)]
                slot += len(value)
                continue
            if isinstance(value, Tensor):
                values[i] = self._entered(value, entering[slot])
            elif value is not None:
                dtype = entering[slot] or metas[i].dtype
                if isinstance(value, float) and not (15 <= dtype.code <= 18):
                    value = int(value)
                number = tensor(value, dtype=dtype)
                if device > 255:
                    number = number.to(device_object(device))
                values[i] = self._tensor(self._capture(number, False))
            slot += 1

        # The backend's kernel, else the composed form on the same traced tensors.
        cdef Binding made
        made.kernel = NULL
        made.python_kernel = NULL
        flat, groups = [], []
        for i in range(op.n_args):
            if op.kinds[i] != _TENSOR:
                continue
            value = values[i]
            if isinstance(value, (list, tuple)):
                groups.append(len(value))
                flat.extend(value)
            else:
                groups.append(-1)
                flat.append(value)
        flat_metas = [None if item is None else _meta_of(<Tensor>item) for item in flat]
        found = op._kernel_for(&made, flat_metas, groups, [None] * len(flat), list(outputs), device)
        if found is not True:
            if record.compose is None:
                raise op._no_kernel(flat_metas, device, found)
            return record.compose(*values)

        cdef Node node
        cdef ScalarRef scalar
        cdef Value output, fresh
        cdef int32_t d
        node.op = op.name.encode()
        for item in flat:
            node.inputs.push_back(-1 if item is None else (<Tensor>item).record.value)
        for count in groups:
            node.groups.push_back(count)
        node.attrs = make_shared[Attrs]()
        op._pack(node.attrs.get(), values)
        self._patch(op, values, &node)
        for i in range(op.n_args):
            if op.kinds[i] != _SCALAR:
                continue
            value = values[i]
            scalar.input = -1
            scalar.constant.is_none = 0
            if value is None:
                scalar.constant.is_none = 1
            elif isinstance(value, _GraphScalar):
                if (<_GraphScalar>value).owner is not self:
                    raise invalid(f"{op.name}: a scalar of another recording cannot be used here")
                scalar.input = (<_GraphScalar>value).index
            else:
                op._scalar(i, value, &scalar.constant)
            node.scalars.push_back(scalar)
        node.python_kernel = made.python_kernel
        if made.python_kernel is not NULL:
            self.keep.append((op, <object>made.python_kernel))
            node.python_kernel = <void*>self.keep[-1]
        ids = []
        for index, result in enumerate(outputs):
            output = fresh
            output.dtype = result.dtype.code
            output.device = device
            d = 0
            for size in result.shape:
                output.shape[d] = self._encode(size)
                d += 1
            output.rank = d
            self._compact(&output)
            target = record.target(index)
            if target is not None:
                output.alias = node.inputs[target]
                output.offset = self.graph.get().values[output.alias].offset
                output.write = True
                for d in range(output.rank):
                    output.strides[d] = (<Tensor>flat[target]).record.strides[d]
            ids.append(self.graph.get().add_value(output))
            node.outputs.push_back(ids[-1])
        self.graph.get().add_node(node)
        made_tensors = [self._tensor(id) for id in ids]
        return made_tensors[0] if single else tuple(made_tensors)

    cdef Tensor _newest(self, Tensor t):
        cdef int32_t id = self._capture(t, False)
        return self._tensor(self.graph.get().latest(id))

    cdef Tensor _entered(self, Tensor t, object wanted):
        if wanted is None or wanted.code == t.record.dtype or t.record.scheme != CLIKA_DENSE:
            return t
        return get_op("cast")(t, wanted)

    cdef int _patch(self, Op op, list values, Node* node) except -1:
        """Notes which static integers are symbolic; a plan writes their values before a run."""
        cdef Patch patch
        index = 0
        for i in range(op.n_args):
            if op.kinds[i] != _STATIC:
                continue
            value = values[i]
            if op.args[i].type == "ints" and value is not None:
                for element, item in enumerate(op._settle(i, value)):
                    if isinstance(item, SymInt):
                        patch.attr = index
                        patch.element = element
                        patch.size = (<SymInt>item).size
                        node.patches.push_back(patch)
            elif isinstance(value, SymInt):
                raise _errors.UnsupportedError(
                    f"{op.name}: {op.args[i].name} cannot be a symbolic size in a recording",
                    "NOT_IMPLEMENTED_FOR_PARAM")
            index += 1
        return 0

    cdef object _record_views(self, Op op, list values, tuple outputs, bint single):
        cdef Node node
        cdef Value output
        cdef Tensor source
        cdef int32_t d
        flat = []
        node.op = op.name.encode()
        node.view = True
        for i in range(op.n_args):
            if op.kinds[i] == _TENSOR and values[i] is not None:
                flat.append(values[i])
                node.inputs.push_back((<Tensor>values[i]).record.value)
                node.groups.push_back(-1)
        node.attrs = make_shared[Attrs]()
        op._pack(node.attrs.get(), values)
        ids = []
        for result in outputs:
            source = flat[result.source]
            output = self.graph.get().values[source.record.value]
            output.kind = ValueKind.kResult
            output.users.clear()
            output.storage = NULL
            output.storage_offset = 0
            output.name = b""
            output.write = False
            output.alias = source.record.value
            d = 0
            for size, step in zip(result.shape, result.strides):
                output.shape[d] = self._encode(size)
                output.strides[d] = self._encode(step)
                d += 1
            output.rank = d
            output.offset = self.graph.get().sizes.add(output.offset, self._encode(result.offset))
            ids.append(self.graph.get().add_value(output))
            node.outputs.push_back(ids[-1])
        self.graph.get().add_node(node)
        made = [self._tensor(id) for id in ids]
        return made[0] if single else tuple(made)

    def move(self, Tensor t, device):
        """The tensor on another device."""
        cdef int32_t number = device_id(device)
        if t.record.device == number:
            return t
        if t.recorder is None:
            return t.to(device)
        if t.record.scheme == CLIKA_DENSE and not t.is_contiguous():
            t = get_op("copy")(t)
        cdef Node node
        node.op = b"move"
        node.move = True
        node.inputs.push_back(self._capture(self._newest(t), False))
        node.groups.push_back(-1)
        node.attrs = make_shared[Attrs]()
        return self._results(&node, [(t.record.dtype, t._sizes(), number)])[0]

    def control(self, str kind, list inputs, list bodies, int32_t carried, int32_t scanned, list results):
        """A node with bodies, which are plans: ``kind`` is "if", "loop" or "scan" (see ``Control`` in ``plan.hpp``);
        ``results`` are (dtype, shape, device) of each output."""
        cdef shared_ptr[Control] made = make_shared[Control]()
        cdef Node node
        made.get().code = PlanCode.kIf if kind == "if" else PlanCode.kLoop if kind == "loop" else PlanCode.kScan
        made.get().carried = carried
        made.get().scanned = scanned
        for body in bodies:
            made.get().bodies.push_back((<Plan>body).native)
            self.keep.append(body)
        node.op = kind.encode()
        for item in inputs:
            if item is None:
                node.inputs.push_back(-1)
            else:
                t = self._newest(<Tensor>item)
                if not t.is_contiguous():
                    t = get_op("copy")(t)
                node.inputs.push_back((<Tensor>t).record.value)
            node.groups.push_back(-1)
        node.attrs = make_shared[Attrs]()
        node.control = as_const_control(made)
        return self._results(&node, [(dtype.code, shape, device_id(device)) for dtype, shape, device in results])

    cdef list _results(self, Node* node, list metas):
        """Adds a node whose outputs are fresh and contiguous."""
        cdef Value output, fresh
        cdef int32_t d
        ids = []
        for dtype, shape, device in metas:
            output = fresh
            output.dtype = dtype
            output.device = device
            d = 0
            for size in shape:
                output.shape[d] = self._encode(size)
                d += 1
            output.rank = d
            self._compact(&output)
            ids.append(self.graph.get().add_value(output))
            node.outputs.push_back(ids[-1])
        self.graph.get().add_node(node[0])
        return [self._tensor(id) for id in ids]

    def compile(self, outputs):
        """A `Plan` that computes ``outputs``: a traced tensor, or a dict or sequence of them."""
        cdef vector[int32_t] ids
        cdef ErrorPtr error
        cdef Plan plan = Plan.__new__(Plan)
        if isinstance(outputs, Tensor):
            plan.names = None
            plan.single = True
            wanted = [outputs]
        elif isinstance(outputs, dict):
            plan.names = tuple(outputs)
            wanted = list(outputs.values())
        elif isinstance(outputs, (list, tuple)):
            plan.names = None
            wanted = list(outputs)
        else:
            raise TypeError(f"compile: outputs must be a tensor, or a dict or sequence of them, got "
                            f"{type(outputs).__name__}")
        for item in wanted:
            if not isinstance(item, Tensor):
                raise TypeError(f"compile: an output must be a tensor, got {type(item).__name__}")
            ids.push_back(self._capture(<Tensor>item, False))
        owner = NativePlan.compile(self.graph, ids, &error)
        if error.get() is not NULL:
            raise_error(error, "")
        plan.native = shared_plan(owner)
        plan.recorder = self
        plan.input_names = tuple(self.input_names)
        return plan


cdef extern from *:
    """
    namespace clika {
    static std::shared_ptr<const Control> as_const_control(const std::shared_ptr<Control>& made) { return made; }
    static std::shared_ptr<Plan> shared_plan(std::unique_ptr<Plan>& made) { return std::shared_ptr<Plan>(std::move(made)); }
    }
    """
    shared_ptr[const_Control] as_const_control "clika::as_const_control"(const shared_ptr[Control]&)
    shared_ptr[NativePlan] shared_plan "clika::shared_plan"(unique_ptr[NativePlan]&)


cdef object _trace(Op op, list values):
    """Finds the recording that a call belongs to and records it there."""
    tracer = _active_tracer() if _trace_scopes else None
    if isinstance(tracer, Tracer) and (<Tracer>tracer).outer is not None:
        return (<Recording>tracer)._record(op, values)
    for value in values:
        for item in (value if isinstance(value, (list, tuple)) else (value,)):
            if isinstance(item, Tensor) and (<Tensor>item).recorder is not None:
                return (<Recording>(<Tensor>item).recorder)._record(op, values)
            if isinstance(item, SymInt):
                return (<Recording>(<SymInt>item).owner)._record(op, values)
            if isinstance(item, _GraphScalar):
                return (<Recording>(<_GraphScalar>item).owner)._record(op, values)
    if tracer is not None:
        return (<Recording>tracer)._record(op, values)
    raise _errors.InternalError(f"{op.name}: no recording found for a traced call")


@cython.final
cdef class Plan:
    """A compiled recording. ``run`` takes the inputs by name (dict) or in recorded order (sequence), crosses to the
    native program once and gives the outputs in the form that ``compile`` was given them."""

    cdef shared_ptr[NativePlan] native
    cdef object recorder
    cdef tuple input_names
    cdef tuple names
    cdef bint single

    def __init__(self, *args, **kwargs):
        raise TypeError("Plan: make one with GraphRecorder.compile()")

    def run(self, inputs, scalars=None):
        """Runs the program. Raises `InvalidArgumentError` for inputs that do not fit the recording, and what a
        kernel failed with. Ctrl-C cancels between instructions."""
        cdef vector[const TensorRecord*] records
        cdef clika_scalar values[32]
        cdef vector[TensorRecord] results
        cdef ErrorPtr error
        cdef Tensor t
        cdef size_t m = 0
        cdef cbool synchronous = _any_scope != 0 and _scopes.synchronous != 0
        if isinstance(inputs, dict):
            if len(inputs) != len(self.input_names) or any(name not in inputs for name in self.input_names):
                raise invalid(f"run: the plan's inputs are {list(self.input_names)}, got {list(inputs)}")
            inputs = [inputs[name] for name in self.input_names]
        # A list of our own: its length is its length, and no other thread empties it while the program runs.
        inputs = list(inputs)
        records.reserve(len(inputs))
        for item in inputs:
            if type(item) is not Tensor:
                n = records.size()
                label = self.input_names[n] if n < <size_t>len(self.input_names) else n
                raise TypeError(f"run: input '{label}' must be a tensor, got {type(item).__name__}")
            records.push_back(&(<Tensor>item).record)
        if scalars is not None:
            known = [name.decode() for name in self.native.get().graph().scalar_inputs]
            if isinstance(scalars, dict):
                if set(scalars) != set(known):
                    raise invalid(f"run: the plan's scalars are {known}, got {list(scalars)}")
                scalars = [scalars[name] for name in known]
            scalars = list(scalars)
            if len(scalars) > 32:
                raise invalid("run: more than 32 scalars")
            for value in scalars:
                values[m].is_none = value is None
                values[m].is_float = isinstance(value, float)
                values[m].f = 0 if value is None else value
                try:
                    values[m].i = (0 if value is None or isinstance(value, float) and not -9e18 < value < 9e18
                                   else int(value))
                except OverflowError:
                    raise invalid(f"run: scalar {value} does not fit 64 bits") from None
                m += 1
        with nogil:
            error = self.native.get().run(records.data(), records.size(), values, m, synchronous, &results)
        if error.get() is not NULL:
            if PyErr_CheckSignals() == 0 and error.get().code == b"CANCELLED" and _interrupted():
                raise KeyboardInterrupt
            raise_error(error, "")
        made = []
        for m in range(results.size()):
            t = Tensor.__new__(Tensor)
            t.record = results[m]
            made.append(t)
        if self.single:
            return made[0]
        return made if self.names is None else dict(zip(self.names, made))

    @property
    def inputs(self):
        return self.input_names

    @property
    def outputs(self):
        return self.names

    def stats(self):
        """Instructions of the program, bytes of its arena, the lower bound of those, runs, resizes, instructions run,
        graphs of the device that were recorded, and runs that launched one."""
        cdef PlanCounters c = self.native.get().counters()
        return {
            "instructions": self.native.get().instruction_count(),
            "arena_bytes": self.native.get().arena_bytes(),
            "arena_lower_bound": self.native.get().lower_bound_bytes(),
            "runs": c.runs, "resizes": c.resizes, "evictions": c.evictions, "instructions_run": c.instructions,
            "recordings": c.recordings, "replays": c.replays,
        }

    def profile(self, bint on):
        """Adds up the time of each instruction from now on; off, and on again, starts anew."""
        with nogil:  # a run that holds the plan may want the GIL
            self.native.get().profile(on)

    def symbols(self):
        """What the symbolic sizes of the recording were in the run before, in their order."""
        return list(self.native.get().symbols())

    def profiled_runs(self):
        """How often the program has run since `profile`; that of a body runs for each iteration."""
        return self.native.get().profiled_runs()

    def profiled(self):
        """(operator, node of the recording, nanoseconds) of each instruction."""
        cdef size_t i
        cdef const vector[int64_t]* times = &self.native.get().profiled()
        return [(self.native.get().instruction(i).op.decode(), self.native.get().instruction(i).node, times[0][i])
                for i in range(times.size())]


cdef object _pending_interrupt = None


cdef bint _interrupted():
    global _pending_interrupt
    failure = _pending_interrupt
    _pending_interrupt = None
    if failure is None:
        return False
    raise failure


cdef cbool _poll() noexcept with gil:
    """Called by a running plan now and then: runs Python's signal handlers on the main thread."""
    global _pending_interrupt
    try:
        PyErr_CheckSignals()
    except BaseException as failure:
        _pending_interrupt = failure
        return True
    return False


cdef string _kind_text(int32_t dtype, int32_t device) noexcept with gil:
    return f"dtype {_DTYPES[dtype].name} on {device_object(device)}".encode()


cdef ErrorPtr _call_from_plan(void* kernel, const clika_call* call, const char* name) noexcept with gil:
    cdef ErrorPtr none
    try:
        op, function = <object>kernel
        _python_call(op, function, call)
    except _errors.ClikaRTError as failure:
        return make_error(int(failure.status), utf8_text(failure.code_name), utf8_text(failure))
    except BaseException as failure:
        return make_error(4, b"INTERNAL", utf8_text(f"{type(failure).__name__}: {failure}"))
    return none


cdef extern from *:
    """
    namespace clika {
    static void set_plan_hooks(ErrorPtr (*call)(void*, const clika_call*, const char*), bool (*poll)(),
                               std::string (*kind)(int32_t, int32_t)) {
      Plan::python_call = call;
      Plan::poll_signals = poll;
      Plan::kind_text = kind;
    }
    }
    """
    void set_plan_hooks "clika::set_plan_hooks"(ErrorPtr (*)(void*, const clika_call*, const char*) noexcept,
                                                cbool (*)() noexcept, string (*)(int32_t, int32_t) noexcept)

set_plan_hooks(_call_from_plan, _poll, _kind_text)


clika_seal(SymInt)
clika_seal(Plan)
clika_seal(_GraphScalar)
