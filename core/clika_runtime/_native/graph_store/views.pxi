# The store for Python, and the views of it. A view is keyed by names, so that edits do not confuse it.

cdef object _op_code = None   # the operator's name -> its OpCode
cdef object _kinds = None     # (NodeKind.Input, NodeKind.Operator)


def set_enumerations(op_code, kinds):
    """Told once by the graph package: what ``op_code`` and ``kind`` of a node give."""
    global _op_code, _kinds
    _op_code = op_code
    _kinds = kinds


cdef object _invalid(str message, str code="INVALID_ARGUMENT"):
    return _errors.InvalidArgumentError(message, code)


cdef inline string _text(str text) except *:
    if text is None:
        raise TypeError("a name must be a str, got None")
    return text.encode("utf-8", "surrogatepass")


cdef inline str _str(const string& text):
    cdef bytes raw = text.data()[:text.size()]
    return raw.decode("utf-8", "surrogatepass")


cdef class GraphStore:
    """Nodes, values and edges, with primitive edits that trust their caller. Not for use from several threads at
    once. Python keeps what belongs to a node or value (arguments, constants) under its number, which is never
    used again."""

    cdef Store store
    cdef unique_ptr[Structure] cached
    cdef object __weakref__
    cdef public bint consumed     # a merge, a split or an extract took the nodes away
    cdef list names               # per node: its name as a str, or None
    cdef dict counts

    def __cinit__(self, *args, **kwargs):
        self.consumed = False
        self.names = []

    def __reduce__(self):
        raise TypeError("a graph cannot be copied or pickled: save() writes it to a file, load() reads that")

    # ---- reading by number
    @property
    def version(self):
        """Changes with every edit."""
        return self.store.version()

    def node_ids(self):
        """Alive nodes in the deterministic topological order."""
        return list(_structure(self).nodes)

    def is_acyclic(self):
        return bool(_structure(self).acyclic)

    def node_id(self, str name):
        """The number of a node, -1 without one."""
        return self.store.node_by_name(_text(name))

    def constant_id(self, str name):
        return self.store.value_by_name(_text(name))

    def op(self, int32_t node):
        _check_node(self, node)
        return _str(self.store.nodes()[node].op)

    def node_name(self, int32_t node):
        _check_node(self, node)
        return _node_name(self, node)

    def ports(self, int32_t node):
        """The value of each input port, -1 for an absent one."""
        _check_node(self, node)
        return tuple(self.store.nodes()[node].inputs)

    def results(self, int32_t node):
        _check_node(self, node)
        return tuple(self.store.nodes()[node].outputs)

    def is_alive(self, int32_t node):
        _check_node(self, node)
        return bool(self.store.nodes()[node].alive)

    def value_is_alive(self, int32_t value):
        _check_value(self, value)
        return bool(self.store.values()[value].alive)

    def producer_id(self, int32_t value):
        """(node, port); node is -1 for a constant."""
        _check_value(self, value)
        return self.store.values()[value].node, self.store.values()[value].port

    def meta(self, int32_t value):
        """(dtype, scheme, device, encoded shape, alias, write)."""
        _check_value(self, value)
        cdef const StoreValue* v = &self.store.values()[value]
        return (v.dtype, v.scheme, v.device, tuple([v.shape[d] for d in range(v.rank)]), v.alias, bool(v.write))

    def root_id(self, int32_t value):
        """The value whose bytes a view or a version shares in the end."""
        _check_value(self, value)
        while self.store.values()[value].alias >= 0:
            value = self.store.values()[value].alias
        return value

    def value_name(self, int32_t value):
        _check_value(self, value)
        return _value_name(self, value)

    def use_list(self, int32_t value):
        """(node, port) of every read."""
        _check_value(self, value)
        cdef size_t i
        cdef const StoreValue* v = &self.store.values()[value]
        return [(v.uses[i].node, v.uses[i].port) for i in range(v.uses.size())]

    def use_count(self, int32_t value):
        """How many reads a value has."""
        _check_value(self, value)
        return self.store.values()[value].uses.size()

    def is_output(self, int32_t value):
        """Whether the graph returns a value."""
        _check_value(self, value)
        return self.store.output_count(value) > 0

    def alive_values(self):
        """Numbers of all values that are there."""
        cdef size_t i
        return [i for i in range(self.store.values().size()) if self.store.values()[i].alive]

    def counts_of(self):
        """(values, nodes) ever made."""
        return self.store.values().size(), self.store.nodes().size()

    def input_ids(self):
        return list(self.store.inputs())

    def output_list(self):
        """(name, value) of each output."""
        cdef size_t i
        cdef const vector[StoreOutput]* outputs = &self.store.outputs()
        return [(_str(outputs[0][i].name), outputs[0][i].value) for i in range(outputs.size())]

    def ids_of(self, str op):
        """Alive nodes of an operator, oldest first."""
        return list(self.store.nodes_of(_text(op)))

    def free_name(self, str base):
        return _str(self.store.free_name(_text(base)))

    def take_dirty(self):
        """Nodes that edits touched since the last call."""
        return list(self.store.take_dirty())

    # ---- views by number
    def node_view(self, int32_t node):
        _check_node(self, node)
        return _node_of(self, node)

    def value_view(self, int32_t value):
        _check_value(self, value)
        return _value_view(self, value)

    # ---- primitive edits
    def add_value(self, int32_t dtype, int32_t scheme, int32_t device, shape, int32_t alias=-1, bint write=False,
                  str name=""):
        cdef StoreValue value
        cdef int32_t rank = 0
        value.node = -1
        value.port = 0
        value.dtype = dtype
        value.scheme = scheme
        value.device = device
        for size in shape:
            if rank == 8:
                raise _errors.UnsupportedError("rank over the limit of 8")
            value.shape[rank] = size
            rank += 1
        value.rank = rank
        value.alias = alias
        value.write = write
        value.alive = True
        value.name = _text(name)
        return self.store.add_value(value)

    def make_node(self, str op, str name, inputs, outputs):
        """An input of the graph has the operator ''."""
        cdef StoreNode node
        cdef int32_t id
        for id in inputs:
            if id >= 0:
                _check_value(self, id)
        for id in outputs:
            _check_value(self, id)
        node.op = _text(op)
        node.name = _text(name)
        node.inputs = inputs
        node.outputs = outputs
        node.alive = True
        id = self.store.add_node(node)
        self.names.append(name)
        return id

    def set_port(self, int32_t node, int32_t port, int32_t value):
        _check_node(self, node)
        if not 0 <= port < <int64_t>self.store.nodes()[node].inputs.size():
            raise _invalid(f"the node number {node} has no input port {port}")
        if value >= 0:
            _check_value(self, value)
        self.store.set_input(node, port, value)

    def drop_node(self, int32_t node):
        _check_node(self, node)
        self.store.remove_node(node)

    def drop_value(self, int32_t value):
        _check_value(self, value)
        self.store.remove_value(value)

    def name_node(self, int32_t node, str name):
        _check_node(self, node)
        self.store.rename_node(node, _text(name))
        self.names[node] = name

    def name_value(self, int32_t value, str name):
        _check_value(self, value)
        self.store.rename_value(value, _text(name))

    def order_inputs(self, nodes):
        cdef vector[int32_t] ids = nodes
        for id in nodes:
            _check_node(self, id)
        self.store.set_inputs(ids)

    def set_output_list(self, pairs):
        cdef vector[StoreOutput] outputs
        cdef StoreOutput output
        for name, value in pairs:
            _check_value(self, value)
            output.name = _text(name)
            output.value = value
            outputs.push_back(output)
        self.store.set_outputs(outputs)

    def reshape_value(self, int32_t value, shape):
        _check_value(self, value)
        cdef int64_t sizes[8]
        cdef int32_t rank = 0
        for size in shape:
            if rank == 8:
                raise _errors.UnsupportedError("rank over the limit of 8")
            sizes[rank] = size
            rank += 1
        self.store.set_shape(value, rank, sizes)

    def place_value(self, int32_t value, int32_t device):
        _check_value(self, value)
        self.store.set_device(value, device)

    # ---- undo
    def mark(self):
        """Begins to note edits; `commit` or `rollback` ends it. Marks nest."""
        return self.store.mark()

    def rollback(self, size_t mark):
        cdef size_t i
        self.store.rollback(mark)
        for i in range(self.store.nodes().size()):
            if self.names[i] is not None and self.store.nodes()[i].alive:
                self.names[i] = _str(self.store.nodes()[i].name)

    def commit(self):
        self.store.commit()


cdef int _check_node(GraphStore g, int32_t node) except -1:
    if not 0 <= node < <int64_t>g.store.nodes().size():
        raise _invalid(f"the graph has no node number {node}")
    return 0


cdef int _check_value(GraphStore g, int32_t value) except -1:
    if not 0 <= value < <int64_t>g.store.values().size():
        raise _invalid(f"the graph has no value number {value}")
    return 0


cdef Structure* _structure(GraphStore g) except NULL:
    """The arrays of the graph as it stands."""
    if g.cached.get() is NULL or g.cached.get().version != g.store.version():
        g.cached.reset(new Structure(g.store))
    return g.cached.get()


cdef inline str _node_name(GraphStore g, int32_t node):
    return <str>g.names[node]


cdef str _value_name(GraphStore g, int32_t value):
    cdef const StoreValue* v = &g.store.values()[value]
    if not v.name.empty():
        return _str(v.name)
    name = _node_name(g, v.node)
    return name if g.store.nodes()[v.node].op.empty() else f"{name}_{v.port}"


cdef Node _node_of(GraphStore g, int32_t id):
    cdef Node view = Node.__new__(Node)
    view.graph = g
    view.key = _node_name(g, id)
    view.id = id
    view.version = g.store.version()
    return view


cdef Node _node_at(GraphStore g, int32_t position):
    return _node_of(g, _structure(g).nodes[position])


cdef list _nodes(GraphStore g, const vector[int32_t]& positions):
    cdef Structure* s = _structure(g)
    cdef size_t i
    return [_node_of(g, s.nodes[positions[i]]) for i in range(positions.size())]


cdef Value _value_view(GraphStore g, int32_t id):
    cdef Value view = Value.__new__(Value)
    cdef const StoreValue* v = &g.store.values()[id]
    view.graph = g
    view.port = v.port
    view.key = _str(v.name) if v.node < 0 else _node_name(g, v.node)
    view.is_named = v.node < 0
    view.id = id
    view.version = g.store.version()
    return view


cdef Edge _edge_view(GraphStore g, const StoreEdge* edge):
    cdef Structure* s = _structure(g)
    cdef Edge view = Edge.__new__(Edge)
    view.graph = g
    view.source = _node_name(g, s.nodes[edge.src])
    view.target = _node_name(g, s.nodes[edge.dst])
    view.source_port = edge.src_port
    view.target_port = edge.dst_port
    view.version = g.store.version()
    return view


cdef int32_t _node_id(GraphStore g, object view, str call) except -1:
    """The number of a view's node; refuses a view of another graph and one whose node is gone."""
    if not isinstance(view, Node):
        raise TypeError(f"{call}: expected a Node, got {type(view).__name__}")
    if (<Node>view).graph is not g:
        raise _invalid(f"{call}: the node '{(<Node>view).key}' is of another graph")
    return (<Node>view)._id()


cdef int32_t _value_id(GraphStore g, object view, str call) except -1:
    if not isinstance(view, Value):
        raise TypeError(f"{call}: expected a Value, got {type(view).__name__}")
    if (<Value>view).graph is not g:
        raise _invalid(f"{call}: the value '{(<Value>view)._label()}' is of another graph")
    return (<Value>view)._id()


cdef object _gone(GraphStore g, str what):
    if g.consumed:
        return _invalid(f"{what} is no longer in its graph: that graph no longer exists (a merge, a split or an extract "
                        "consumed it, or it was destroyed or assigned over)")
    return _invalid(f"{what} is no longer in its graph: an edit removed or renamed it")


def node_number(GraphStore g, view, str call):
    """The number of a node's view in ``g``. Raises `InvalidArgumentError` for a view of another graph or of a node
    that is gone."""
    return _node_id(g, view, call)


def value_number(GraphStore g, view, str call):
    """The number of a value's view in ``g``, as `node_number`."""
    return _value_id(g, view, call)


cdef class Node:
    """An operator or an input of a graph. The key is its name: the view finds its node again after edits, and
    refuses once the name is gone."""

    cdef GraphStore graph
    cdef str key
    cdef int32_t id
    cdef uint64_t version

    def __init__(self, *args, **kwargs):
        raise TypeError("Node: a graph makes its nodes; see ModelGraph.nodes()")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a view of a graph cannot be pickled; keep its name")

    cdef int32_t _id(self) except -1:
        if self.version == self.graph.store.version() and not self.graph.consumed:
            return self.id
        cdef int32_t found = -1 if self.graph.consumed else self.graph.store.node_by_name(_text(self.key))
        if found < 0:
            raise _gone(self.graph, f"the node '{self.key}'")
        self.id = found
        self.version = self.graph.store.version()
        return found

    def check(self):
        """Raises `InvalidArgumentError` once the node is gone."""
        self._id()

    @property
    def name(self):
        self._id()
        return self.key

    @property
    def kind(self):
        return _kinds[not self.graph.store.nodes()[self._id()].op.empty()]

    @property
    def op_code(self):
        """Which operator it is. An input of the graph has none: None."""
        cdef int32_t id = self._id()
        if self.graph.store.nodes()[id].op.empty():
            return None
        return _op_code(_str(self.graph.store.nodes()[id].op))

    @property
    def inputs(self):
        """The values it reads, by input port; an absent optional one is left out."""
        cdef int32_t id = self._id()
        cdef vector[int32_t] values = self.graph.store.nodes()[id].inputs
        return [_value_view(self.graph, value) for value in values if value >= 0]

    @property
    def outputs(self):
        """The values it makes, by output port."""
        cdef int32_t id = self._id()
        cdef vector[int32_t] values = self.graph.store.nodes()[id].outputs
        return [_value_view(self.graph, value) for value in values]

    def input(self, port):
        """The value on an input port, or None."""
        cdef object at = operator.index(port)
        cdef int32_t id = self._id()
        if not 0 <= at < <int64_t>self.graph.store.nodes()[id].inputs.size():
            return None
        cdef int32_t value = self.graph.store.nodes()[id].inputs[<int32_t>at]
        return None if value < 0 else _value_view(self.graph, value)

    def output(self, port):
        """The value on an output port, or None."""
        cdef object at = operator.index(port)
        cdef int32_t id = self._id()
        if not 0 <= at < <int64_t>self.graph.store.nodes()[id].outputs.size():
            return None
        return _value_view(self.graph, self.graph.store.nodes()[id].outputs[<int32_t>at])

    def in_edges(self):
        """One edge per input port that reads a node's value."""
        cdef int32_t at = _structure(self.graph).position[self._id()]
        cdef Structure* s = _structure(self.graph)
        cdef int32_t e
        return [_edge_view(self.graph, &s.edges[e]) for e in range(s.in_start[at], s.in_start[at + 1])]

    def out_edges(self):
        """One edge per read of its values, by output port."""
        cdef int32_t at = _structure(self.graph).position[self._id()]
        cdef Structure* s = _structure(self.graph)
        cdef int32_t e
        return [_edge_view(self.graph, &s.edges[s.out_edges[e]])
                for e in range(s.out_start[at], s.out_start[at + 1])]

    def in_degree(self):
        cdef int32_t at = _structure(self.graph).position[self._id()]
        return _structure(self.graph).in_start[at + 1] - _structure(self.graph).in_start[at]

    def out_degree(self):
        cdef int32_t at = _structure(self.graph).position[self._id()]
        return _structure(self.graph).out_start[at + 1] - _structure(self.graph).out_start[at]

    def predecessors(self):
        """The nodes it reads from, each once, in topological order."""
        return _nodes(self.graph, _structure(self.graph).predecessors(_structure(self.graph).position[self._id()]))

    def successors(self):
        """The nodes that read it, each once, in topological order."""
        return _nodes(self.graph, _structure(self.graph).successors(_structure(self.graph).position[self._id()]))

    @property
    def attributes(self):
        """The operator's settings by name: every argument that is no tensor of the graph."""
        return self.graph._attributes(self._id())

    def attribute(self, str name not None):
        """One of `attributes`. Raises `InvalidArgumentError` for a name that is none."""
        found = self.graph._attributes(self._id())
        if name not in found:
            raise _invalid(f"attribute: the node '{self.key}' has no attribute '{name}'; it has {sorted(found)}")
        return found[name]

    def __eq__(self, other):
        if not isinstance(other, Node):
            return NotImplemented
        return self.graph is (<Node>other).graph and self.key == (<Node>other).key

    def __hash__(self):
        return hash((<size_t><void*>self.graph, self.key))

    def __repr__(self):
        try:
            id = self._id()
        except _errors.InvalidArgumentError:
            return f"Node(gone: '{self.key}')"
        op = _str(self.graph.store.nodes()[id].op)
        return f"Node('{self.key}', {_op_code(op).name if op else 'Input'})"


cdef class Value:
    """A tensor that a node makes on one output port, or a constant. The key is the node's name and the port, or the
    constant's name."""

    cdef GraphStore graph
    cdef str key
    cdef int32_t port
    cdef bint is_named
    cdef int32_t id
    cdef uint64_t version

    def __init__(self, *args, **kwargs):
        raise TypeError("Value: a graph makes its values; see Node.outputs")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a view of a graph cannot be pickled; keep its name")

    cdef str _label(self):
        return self.key if self.is_named else f"{self.key}_{self.port}"

    cdef int32_t _id(self) except -1:
        if self.version == self.graph.store.version() and not self.graph.consumed:
            return self.id
        cdef int32_t found = -1, node
        if not self.graph.consumed:
            if self.is_named:
                found = self.graph.store.value_by_name(_text(self.key))
            else:
                node = self.graph.store.node_by_name(_text(self.key))
                if node >= 0 and self.port < <int32_t>self.graph.store.nodes()[node].outputs.size():
                    found = self.graph.store.nodes()[node].outputs[self.port]
        if found < 0:
            raise _gone(self.graph, f"the value '{self._label()}'")
        self.id = found
        self.version = self.graph.store.version()
        return found

    def check(self):
        """Raises `InvalidArgumentError` once the value is gone."""
        self._id()

    @property
    def name(self):
        return _value_name(self.graph, self._id())

    @property
    def port(self):
        """The output port of its producer."""
        return self.graph.store.values()[self._id()].port

    def producer(self):
        """The node that makes it; None for a constant."""
        cdef int32_t node = self.graph.store.values()[self._id()].node
        return None if node < 0 else _node_of(self.graph, node)

    def consumers(self):
        """The nodes that read it, each once, in topological order."""
        return [_node_at(self.graph, at) for at in sorted({at for at, _ in self._reads()})]

    cdef list _reads(self):
        cdef int32_t id = self._id()
        cdef vector[Use] uses = self.graph.store.values()[id].uses
        cdef Structure* s = _structure(self.graph)
        cdef size_t i
        return [(s.position[uses[i].node], uses[i].port) for i in range(uses.size())]

    def uses(self):
        """(node, input port) of every read, in topological order."""
        return [(_node_at(self.graph, at), port) for at, port in sorted(self._reads())]

    def is_constant(self):
        return self.graph.store.values()[self._id()].node < 0

    def is_graph_output(self):
        return self.graph.store.output_count(self._id()) > 0

    def is_graph_input(self):
        cdef int32_t node = self.graph.store.values()[self._id()].node
        return node >= 0 and self.graph.store.nodes()[node].op.empty()

    def spec(self):
        """Name, dtype and dims as a `TensorSpec`; a dynamic dim is -1 and has a name."""
        return self.graph._spec(self._id())

    @property
    def dtype(self):
        return self.graph._spec(self._id()).dtype

    @property
    def shape(self):
        """The dims; a dynamic one is a symbolic size."""
        return self.graph._shape(self._id())

    def __eq__(self, other):
        if not isinstance(other, Value):
            return NotImplemented
        return (self.graph is (<Value>other).graph and self.key == (<Value>other).key
                and self.port == (<Value>other).port and self.is_named == (<Value>other).is_named)

    def __hash__(self):
        return hash((<size_t><void*>self.graph, self.key, self.port, self.is_named))

    def __repr__(self):
        try:
            spec = self.graph._spec(self._id())
        except _errors.InvalidArgumentError:
            return f"Value(gone: '{self._label()}')"
        return f"Value('{self._label()}', {spec.dtype}, {list(spec.dims)})"


cdef class Edge:
    """One read of a value: from the producer's output port to the reader's input port, which are its key."""

    cdef GraphStore graph
    cdef str source
    cdef str target
    cdef int32_t source_port
    cdef int32_t target_port
    cdef uint64_t version

    def __init__(self, *args, **kwargs):
        raise TypeError("Edge: a graph makes its edges; see ModelGraph.edges()")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a view of a graph cannot be pickled; keep its name")

    cdef int _check(self) except -1:
        if self.version == self.graph.store.version() and not self.graph.consumed:
            return 0
        cdef int32_t src = -1, dst = -1, value
        if not self.graph.consumed:
            src = self.graph.store.node_by_name(_text(self.source))
            dst = self.graph.store.node_by_name(_text(self.target))
            if src >= 0 and dst >= 0 and self.target_port < <int32_t>self.graph.store.nodes()[dst].inputs.size():
                value = self.graph.store.nodes()[dst].inputs[self.target_port]
                if (value >= 0 and self.graph.store.values()[value].node == src
                        and self.graph.store.values()[value].port == self.source_port):
                    self.version = self.graph.store.version()
                    return 0
        raise _gone(self.graph, f"the edge {self._label()}")

    cdef str _label(self):
        return f"'{self.source}':{self.source_port} -> '{self.target}':{self.target_port}"

    def check(self):
        """Raises `InvalidArgumentError` once the edge is gone."""
        self._check()

    def src(self):
        self._check()
        return _node_of(self.graph, self.graph.store.node_by_name(_text(self.source)))

    def dst(self):
        self._check()
        return _node_of(self.graph, self.graph.store.node_by_name(_text(self.target)))

    def src_port(self):
        self._check()
        return self.source_port

    def dst_port(self):
        self._check()
        return self.target_port

    def value(self):
        """The value that is read."""
        self._check()
        cdef int32_t src = self.graph.store.node_by_name(_text(self.source))
        return _value_view(self.graph, self.graph.store.nodes()[src].outputs[self.source_port])

    def __eq__(self, other):
        if not isinstance(other, Edge):
            return NotImplemented
        return (self.graph is (<Edge>other).graph and self.source == (<Edge>other).source
                and self.target == (<Edge>other).target and self.source_port == (<Edge>other).source_port
                and self.target_port == (<Edge>other).target_port)

    def __hash__(self):
        return hash((<size_t><void*>self.graph, self.source, self.source_port, self.target, self.target_port))

    def __repr__(self):
        try:
            self._check()
        except _errors.InvalidArgumentError:
            return f"Edge(gone: {self._label()})"
        return f"Edge({self._label()})"


clika_seal(Node)
clika_seal(Value)
clika_seal(Edge)
