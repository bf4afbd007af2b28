# Queries over the structure of a store, one function each; `clika_runtime.graph.queries` documents them.
# A function of the caller may do anything: after each call the graph has to be the one the query began with.

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport isfinite

from .. import dtypes as _dtypes

cdef extern from "graph_store/queries.hpp" namespace "clika::graph":
    cdef cppclass Callback:
        int (*call)(void*, int32_t) except -1
        void* context
    cdef cppclass WalkOptions:
        cbool backward
        int64_t max_depth
        int64_t max_nodes
        Callback visit
        Callback edge_filter
    vector[int32_t] breadth_first(const Structure&, int32_t, const WalkOptions&) except +
    vector[int64_t] value_bytes(const Store&, const vector[int32_t]&) except +
    vector[int32_t] structural_order(const Structure&, const Store&) except +
    vector[int32_t] min_memory_order(const Structure&, const Store&, const vector[int64_t]&) except +
    int64_t store_peak_bytes "clika::graph::peak_bytes"(
        const Structure&, const Store&, const vector[int64_t]&, const vector[int32_t]&) except +
    vector[int32_t] random_order(const Structure&, uint64_t) except +
    cbool is_order(const Structure&, const vector[int32_t]&) except +
    vector[int32_t] node_depths "clika::graph::depths"(const Structure&) except +

    cdef cppclass PathOptions:
        int64_t cutoff
        vector[uint8_t] avoid
        Callback edge_filter
    cdef cppclass PathGraph:
        vector[int32_t] nodes
        vector[int32_t] start
        vector[int32_t] target
        vector[int32_t] edges
        vector[int32_t] to_end
        int64_t cutoff
        cbool empty()
    PathGraph path_graph(const Structure&, int32_t, int32_t, const PathOptions&, cbool) except +
    int64_t longest_path(const PathGraph&) except +
    vector[int32_t] fewest_edges "clika::graph::shortest_path"(const PathGraph&) except +
    cbool has_more_paths(const PathGraph&, int64_t) except +
    cdef cppclass PathSearch:
        PathSearch(PathGraph) except +
        const PathGraph& graph()
        cbool next(vector[int32_t]*) except +
    cdef cppclass CostedPath:
        vector[int32_t] nodes
        vector[int32_t] edges
        double cost
        cbool found
    CostedPath cheapest_path(const PathGraph&, const vector[double]&) except +
    CostedPath costliest_path "clika::graph::critical_path"(
        const Structure&, const vector[double]&, const vector[double]&) except +

    vector[int32_t] store_cycle "clika::graph::find_cycle"(const Structure&) except +
    cbool reaches(const Structure&, int32_t, int32_t) except +
    vector[int32_t] store_components "clika::graph::components"(const Structure&) except +
    vector[int32_t] store_dominators "clika::graph::dominators"(const Structure&) except +
    vector[int32_t] store_split_points "clika::graph::split_points"(const Structure&) except +
    int32_t store_merge_point "clika::graph::merge_point"(const Structure&, const vector[int32_t]&) except +
    cdef cppclass Region:
        vector[int32_t] nodes
        int32_t crossing
        int32_t returned
    Region store_region "clika::graph::region"(const Structure&, int32_t, int32_t) except +
    vector[int32_t] store_cone "clika::graph::cone"(const Structure&, const vector[int32_t]&, cbool) except +
    cbool store_is_convex "clika::graph::is_convex"(const Structure&, const vector[int32_t]&) except +
    cdef cppclass MinCut:
        vector[int32_t] values
        int64_t bytes
    MinCut store_min_value_cut "clika::graph::min_value_cut"(
        const Structure&, const Store&, const vector[int64_t]&, const vector[int32_t]&, const vector[int32_t]&) except +

MAX_PATHS_WITHOUT_LIMIT = 10000


# ---- arguments

cdef int64_t _bound(object value, str name, str call) except -2:
    """A count that may be None (-1)."""
    if value is None:
        return -1
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{call}: {name} must be an int or None, got {type(value).__name__}")
    if value < 0:
        raise _invalid(f"{call}: {name} must not be negative, got {value}")
    return min(value, 2**62)


cdef int32_t _position(GraphStore g, object view, str call) except -1:
    cdef int32_t id = _node_id(g, view, call)
    return _structure(g).position[id]


cdef list _listed(object views, str call):
    """Taken before anything is looked up: an iterator may run anything."""
    if isinstance(views, Node):
        raise TypeError(f"{call}: expected an iterable of Node, got one Node")
    return list(views)


cdef vector[int32_t] _positions(GraphStore g, list views, str call) except *:
    cdef vector[int32_t] positions
    for view in views:
        positions.push_back(_position(g, view, call))
    return positions


cdef list _stops(object views, str call):
    """The nodes of an option that takes one node, several or none."""
    return [] if views is None else [views] if isinstance(views, Node) else _listed(views, call)


cdef Structure* _ordered(GraphStore g, str call) except NULL:
    """The structure, which must have no cycle."""
    cdef Structure* s = _structure(g)
    if not s.acyclic:
        names = [_node_name(g, s.nodes[at]) for at in store_cycle(s[0])]
        raise _invalid(f"{call}: the graph has a cycle through {', '.join(map(repr, names))}")
    return s


cdef class _Question:
    """A function of the caller, asked about a node or an edge."""
    cdef GraphStore graph
    cdef object function
    cdef str name, call
    cdef uint64_t version
    cdef bint of_edges
    cdef object answers             # the class of the answers, or None: anything that is true or false
    cdef vector[uint8_t] stop_at    # nodes a walk does not go past
    cdef object stops               # or a function that says so

    def __cinit__(self, GraphStore graph, function, str name, str call, bint of_edges, answers=None):
        if function is not None and not callable(function):
            raise TypeError(f"{call}: {name} must be callable, got {type(function).__name__}")
        self.graph = graph
        self.function = function
        self.name = name
        self.call = call
        self.of_edges = of_edges
        self.answers = answers
        self.version = graph.store.version()

    cdef object ask(self, object function, int32_t at):
        cdef object view
        if self.of_edges:
            view = _edge_view(self.graph, &_structure(self.graph).edges[at])
        else:
            view = _node_at(self.graph, at)
        answer = function(view)
        if self.graph.store.version() != self.version or self.graph.consumed:
            raise _invalid(f"{self.call}: {self.name} changed the graph during the query")
        return answer

    cdef double cost(self, int32_t at) except? -1.0:
        answer = self.ask(self.function, at)
        if not hasattr(type(answer), "__float__"):
            raise TypeError(f"{self.call}: {self.name} must return a number, got {type(answer).__name__}")
        cdef double number
        try:
            number = float(answer)
        except OverflowError:
            raise _invalid(f"{self.call}: {self.name} returned a number that no float is near to") from None
        if not isfinite(number):
            raise _invalid(f"{self.call}: {self.name} returned {number}; a cost is a finite number")
        return number

    cdef Callback callback(self, int (*call)(void*, int32_t) except -1):
        cdef Callback made
        if self.function is not None or self.stops is not None or not self.stop_at.empty():
            made.call = call
            made.context = <void*>self
        return made


cdef int _ask_filter(void* context, int32_t at) except -1:
    cdef _Question question = <_Question>context
    return 1 if question.ask(question.function, at) else 0


cdef int _ask_visitor(void* context, int32_t at) except -1:
    cdef _Question question = <_Question>context
    cdef int action = 0
    if question.function is not None:
        answer = question.ask(question.function, at)
        if not isinstance(answer, question.answers):
            raise TypeError(f"{question.call}: {question.name} must return a VisitAction, got {answer!r}")
        action = answer
    if action == 0 and not question.stop_at.empty() and question.stop_at[at]:
        action = 1
    if action == 0 and question.stops is not None and question.ask(question.stops, at):
        action = 1
    return action


cdef vector[int32_t] _walked(GraphStore g, start, bint backward, max_depth, max_nodes, stop_at, edge_filter,
                             visitor, actions, str call) except *:
    cdef WalkOptions options
    options.backward = backward
    options.max_depth = _bound(max_depth, "max_depth", call)
    options.max_nodes = _bound(max_nodes, "max_nodes", call)
    cdef list stops = [] if callable(stop_at) else _stops(stop_at, call)
    cdef int32_t at = _position(g, start, call), stop
    cdef _Question edges = _Question(g, edge_filter, "edge_filter", call, True)
    cdef _Question visits = _Question(g, visitor, "the visitor" if visitor is not None else "stop_at", call, False,
                                      actions)
    if callable(stop_at):
        visits.stops = stop_at
    elif stops:
        visits.stop_at.resize(_structure(g).size(), 0)
        for stop in _positions(g, stops, call):
            visits.stop_at[stop] = 1
    options.edge_filter = edges.callback(_ask_filter)
    options.visit = visits.callback(_ask_visitor)
    return breadth_first(_structure(g)[0], at, options)


cdef PathGraph _paths(GraphStore g, src, dst, cutoff, avoid, edge_filter, bint parallel, str call) except *:
    cdef PathOptions options
    options.cutoff = _bound(cutoff, "cutoff", call)
    cdef list avoided = _stops(avoid, call)
    cdef Structure* s = _ordered(g, call)
    cdef int32_t start = _position(g, src, call), end = _position(g, dst, call), at
    cdef _Question edges = _Question(g, edge_filter, "edge_filter", call, True)
    if avoided:
        options.avoid.resize(s.size(), 0)
        for at in _positions(g, avoided, call):
            options.avoid[at] = 1
    options.edge_filter = edges.callback(_ask_filter)
    return path_graph(s[0], start, end, options, parallel)


cdef list _edge_list(GraphStore g, const vector[int32_t]& edges):
    cdef Structure* s = _structure(g)
    cdef size_t i
    return [_edge_view(g, &s.edges[edges[i]]) for i in range(edges.size())]


cdef vector[int64_t] _bytes(GraphStore g, str call) except *:
    cdef vector[int32_t] bits
    for code in range(1 + max(dtype.code for dtype in _dtypes.ALL)):
        bits.push_back(0)
    for dtype in _dtypes.ALL:
        bits[dtype.code] = dtype.bits
    try:
        return value_bytes(g.store, bits)
    except OverflowError:
        raise _invalid(f"{call}: the values of the graph hold more bytes than an int64 counts") from None


# ---- nodes and edges

def nodes(GraphStore g):
    cdef Structure* s = _structure(g)
    cdef int32_t at
    return [_node_of(g, s.nodes[at]) for at in range(s.size())]


def edges(GraphStore g):
    cdef Structure* s = _structure(g)
    cdef size_t e
    return [_edge_view(g, &s.edges[e]) for e in range(s.edges.size())]


def keyed_edges(GraphStore g):
    """(source, target, (source port, target port), no data) of every edge."""
    cdef Structure* s = _structure(g)
    cdef list views = nodes(g)
    cdef dict data = {}
    cdef size_t e
    return [(views[s.edges[e].src], views[s.edges[e].dst], (s.edges[e].src_port, s.edges[e].dst_port), data)
            for e in range(s.edges.size())]


def edges_between(GraphStore g, src, dst):
    cdef int32_t start = _position(g, src, "edges_between"), end = _position(g, dst, "edges_between"), e
    cdef Structure* s = _structure(g)
    return [_edge_view(g, &s.edges[e]) for e in range(s.in_start[end], s.in_start[end + 1])
            if s.edges[e].src == start]


def node(GraphStore g, str name):
    cdef int32_t id = g.store.node_by_name(_text(name))
    return None if id < 0 else _node_of(g, id)


cdef list _by_name(GraphStore g, list ids):
    return sorted(ids, key=g.names.__getitem__)


def find_nodes_by_op(GraphStore g, str op):
    return [_node_of(g, id) for id in _by_name(g, list(g.store.nodes_of(_text(op))))]


def find_nodes_where(GraphStore g, predicate):
    cdef Structure* s = _structure(g)
    cdef _Question question = _Question(g, predicate, "the predicate", "find_nodes", False)
    cdef vector[int32_t] found
    cdef int32_t id
    for id in _by_name(g, list(s.nodes)):
        if question.ask(predicate, s.position[id]):
            found.push_back(s.position[id])
    return _nodes(g, found)


def find_nodes_by_name(GraphStore g, matches):
    """``matches`` is a compiled pattern's `fullmatch` or `search`."""
    cdef list found = [id for id in _structure(g).nodes if matches(g.names[id])]
    return [_node_of(g, id) for id in _by_name(g, found)]


# ---- walks

def walk(GraphStore g, start, bint backward, max_depth, max_nodes, stop_at, edge_filter):
    return _nodes(g, _walked(g, start, backward, max_depth, max_nodes, stop_at, edge_filter, None, None, "walk"))


def relatives(GraphStore g, start, bint backward, max_depth, max_nodes, stop_at, edge_filter):
    """A walk without its start."""
    call = "ancestors" if backward else "descendants"
    most = _bound(max_nodes, "max_nodes", call)
    return _nodes(g, _walked(g, start, backward, max_depth, None if most < 0 else most + 1, stop_at, edge_filter, None,
                             None, call))[1:]


def visit(GraphStore g, start, visitor, actions, bint backward, max_depth, max_nodes, stop_at, edge_filter):
    if visitor is None:
        raise TypeError("visit: the visitor must be callable, got NoneType")
    _walked(g, start, backward, max_depth, max_nodes, stop_at, edge_filter, visitor, actions, "visit")


# ---- orders

def topological_order(GraphStore g, str order):
    """``order`` is "deterministic", "structural" or "min_memory"."""
    cdef Structure* s = _ordered(g, "topological_order")
    if order == "structural":
        return _nodes(g, structural_order(s[0], g.store))
    if order == "min_memory":
        return _nodes(g, min_memory_order(s[0], g.store, _bytes(g, "topological_order")))
    return nodes(g)


def peak_bytes(GraphStore g, order):
    """The most bytes that are live while a node of a topological order runs: inputs, constants and memory inside
    kernels apart."""
    cdef vector[int32_t] positions = _positions(g, _listed(order, "peak_bytes"), "peak_bytes")
    return store_peak_bytes(_ordered(g, "peak_bytes")[0], g.store, _bytes(g, "peak_bytes"), positions)


def random_topological_order(GraphStore g, seed):
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"random_topological_order: seed must be an int, got {type(seed).__name__}")
    cdef uint64_t number = seed & 0xffffffffffffffff
    return _nodes(g, random_order(_ordered(g, "random_topological_order")[0], number))


def is_topological_order(GraphStore g, order):
    cdef vector[int32_t] positions = _positions(g, _listed(order, "is_topological_order"), "is_topological_order")
    return bool(is_order(_structure(g)[0], positions))


def topological_generations(GraphStore g):
    cdef vector[int32_t] depth = node_depths(_ordered(g, "topological_generations")[0])
    cdef list generations = []
    cdef size_t at
    for at in range(depth.size()):
        while len(generations) <= depth[at]:
            generations.append([])
        generations[depth[at]].append(_node_at(g, at))
    return generations


def depths(GraphStore g):
    cdef vector[int32_t] depth = node_depths(_ordered(g, "depths")[0])
    cdef size_t at
    return {_node_at(g, at): depth[at] for at in range(depth.size())}


# ---- paths

cdef class PathIterator:
    """Paths of the graph as it stood at the call, one by one."""
    cdef unique_ptr[PathSearch] search
    cdef list nodes, edges   # views, by index in the search's graph; one of the two is None
    cdef int64_t left        # -1: all
    cdef vector[int32_t] path

    def __init__(self, *args, **kwargs):
        raise TypeError("PathIterator: see ModelGraph.all_simple_paths")

    def __iter__(self):
        return self

    def __next__(self):
        cdef size_t i
        if self.left == 0 or not self.search.get().next(&self.path):
            raise StopIteration
        if self.left > 0:
            self.left -= 1
        if self.nodes is None:
            return [self.edges[self.path[i]] for i in range(self.path.size())]
        cdef const PathGraph* graph = &self.search.get().graph()
        return [self.nodes[0]] + [self.nodes[graph.target[self.path[i]]] for i in range(self.path.size())]


def all_simple_paths(GraphStore g, src, dst, bint as_edges, cutoff, avoid, edge_filter, limit):
    call = "all_simple_edge_paths" if as_edges else "all_simple_paths"
    cdef int64_t most = _bound(limit, "limit", call)
    cdef PathGraph graph = _paths(g, src, dst, cutoff, avoid, edge_filter, as_edges, call)
    if most < 0 and has_more_paths(graph, MAX_PATHS_WITHOUT_LIMIT):
        raise _invalid(f"{call}: more than {MAX_PATHS_WITHOUT_LIMIT} paths from '{src.name}' to '{dst.name}'; pass "
                       "limit= to list the first of them, or count them with count_paths()")
    cdef PathIterator paths = PathIterator.__new__(PathIterator)
    paths.left = most
    if as_edges:
        paths.edges = _edge_list(g, graph.edges)
    else:
        paths.nodes = _nodes(g, graph.nodes)
    paths.search.reset(new PathSearch(move(graph)))
    return paths


def count_paths(GraphStore g, src, dst, cutoff, avoid, edge_filter):
    cdef PathGraph graph = _paths(g, src, dst, cutoff, avoid, edge_filter, False, "count_paths")
    cdef int32_t i, e, last = <int32_t>graph.nodes.size() - 1
    cdef int64_t step
    if graph.empty():
        return 0
    if graph.cutoff < 0 or longest_path(graph) <= graph.cutoff:
        # Paths from the source by node; those of a node that is done are dropped, they may be large numbers.
        counts = [1] + [0] * last
        for i in range(last):
            count = counts[i]
            counts[i] = None
            for e in range(graph.start[i], graph.start[i + 1]):
                counts[graph.target[e]] += count
        return counts[last]
    total = 0
    reached = {0: 1}  # paths of `step` edges, by their last node
    for step in range(1, graph.cutoff + 1):
        PyErr_CheckSignals()
        longer = {}
        for i, count in reached.items():
            for e in range(graph.start[i], graph.start[i + 1]):
                if step + graph.to_end[graph.target[e]] <= graph.cutoff:
                    longer[graph.target[e]] = longer.get(graph.target[e], 0) + count
        reached = longer
        total += reached.pop(last, 0)
    return total + (last == 0)


def shortest_path(GraphStore g, src, dst, cutoff, avoid, edge_filter):
    cdef PathGraph graph = _paths(g, src, dst, cutoff, avoid, edge_filter, False, "shortest_path")
    cdef vector[int32_t] path, found
    cdef int32_t e
    if graph.empty():
        return []
    path = fewest_edges(graph)
    found.push_back(graph.nodes[0])
    for e in path:
        found.push_back(graph.nodes[graph.target[e]])
    return _nodes(g, found)


cdef tuple _costed(GraphStore g, const CostedPath& path):
    return _nodes(g, path.nodes), _edge_list(g, path.edges), path.cost


def cheapest_between(GraphStore g, src, dst, edge_cost, cutoff, avoid, edge_filter):
    """(nodes, edges, cost), or None without a path."""
    cdef PathGraph graph = _paths(g, src, dst, cutoff, avoid, edge_filter, True, "shortest_path")
    cdef _Question question = _Question(g, edge_cost, "edge_cost", "shortest_path", True)
    cdef vector[double] costs
    cdef int32_t e
    for e in graph.edges:
        costs.push_back(question.cost(e))
    cdef CostedPath path
    try:
        path = cheapest_path(graph, costs)
    except OverflowError:
        raise _invalid("shortest_path: too many trade-offs between edges and cost under this cutoff; raise the cutoff "
                       "or leave it out") from None
    return _costed(g, path) if path.found else None


def has_path(GraphStore g, src, dst, cutoff, avoid, edge_filter):
    return not _paths(g, src, dst, cutoff, avoid, edge_filter, False, "has_path").empty()


def critical_path(GraphStore g, node_cost, edge_cost):
    """(nodes, edges, cost)."""
    cdef Structure* s = _ordered(g, "critical_path")
    if node_cost is None:
        raise TypeError("critical_path: node_cost must be callable, got NoneType")
    cdef _Question of_node = _Question(g, node_cost, "node_cost", "critical_path", False)
    cdef _Question of_edge = _Question(g, edge_cost, "edge_cost", "critical_path", True)
    cdef vector[double] node_costs, edge_costs
    cdef int32_t at
    for at in range(s.size()):
        node_costs.push_back(of_node.cost(at))
    if edge_cost is not None:
        for at in range(<int32_t>s.edges.size()):
            edge_costs.push_back(of_edge.cost(at))
    return _costed(g, costliest_path(s[0], node_costs, edge_costs))


# ---- structure

def find_cycle(GraphStore g):
    return _nodes(g, store_cycle(_structure(g)[0]))


def would_create_cycle(GraphStore g, src, dst):
    cdef int32_t start = _position(g, src, "would_create_cycle"), end = _position(g, dst, "would_create_cycle")
    return bool(reaches(_structure(g)[0], end, start))


def weakly_connected_components(GraphStore g):
    cdef vector[int32_t] component = store_components(_structure(g)[0])
    cdef list found = []
    cdef size_t at
    for at in range(component.size()):
        if component[at] == <int32_t>len(found):
            found.append([])
        found[component[at]].append(_node_at(g, at))
    return found


def dominators(GraphStore g):
    cdef vector[int32_t] last = store_dominators(_ordered(g, "dominators")[0])
    cdef list views = nodes(g)
    cdef size_t at
    return {views[at]: views[last[at]] for at in range(last.size())}


def split_points(GraphStore g):
    return _nodes(g, store_split_points(_ordered(g, "split_points")[0]))


def merge_point(GraphStore g, nodes):
    cdef vector[int32_t] positions = _positions(g, _listed(nodes, "merge_point"), "merge_point")
    if positions.empty():
        raise _invalid("merge_point: no nodes are given")
    cdef int32_t met = store_merge_point(_ordered(g, "merge_point")[0], positions)
    return None if met < 0 else _node_at(g, met)


def region(GraphStore g, entry, exit):
    cdef Structure* s = _ordered(g, "region")
    cdef int32_t start = _position(g, entry, "region"), end = _position(g, exit, "region")
    cdef Region found = store_region(s[0], start, end)
    between = f"between '{entry.name}' and '{exit.name}'"
    if found.nodes.empty():
        raise _invalid(f"region: no path leads from '{entry.name}' to '{exit.name}'")
    if found.crossing >= 0:
        edge = _edge_view(g, &s.edges[found.crossing])
        raise _invalid(f"region: what lies {between} has another way in or out: the edge {(<Edge>edge)._label()}")
    if found.returned >= 0:
        raise _invalid(f"region: what lies {between} has another way out: the graph returns a value of "
                       f"'{_node_name(g, s.nodes[found.returned])}'")
    return _nodes(g, found.nodes)


def cone(GraphStore g, nodes, bint backward):
    call = "producer_cone" if backward else "consumer_cone"
    cdef vector[int32_t] positions = _positions(g, _listed(nodes, call), call)
    return _nodes(g, store_cone(_ordered(g, call)[0], positions, backward))


def is_convex(GraphStore g, nodes):
    cdef vector[int32_t] positions = _positions(g, _listed(nodes, "is_convex"), "is_convex")
    return bool(store_is_convex(_ordered(g, "is_convex")[0], positions))


def min_value_cut(GraphStore g, before, after):
    """(values, bytes)."""
    cdef list firsts = _listed(before, "min_value_cut"), seconds = _listed(after, "min_value_cut")
    cdef Structure* s = _ordered(g, "min_value_cut")
    cdef vector[int32_t] first = _positions(g, firsts, "min_value_cut")
    cdef vector[int32_t] second = _positions(g, seconds, "min_value_cut")
    cdef vector[int32_t] needed = store_cone(s[0], first, True)
    cdef int32_t at, other
    cdef set pulled = set(needed) | set(first)
    for at in second:
        if at not in pulled:
            continue
        for other in first:
            if reaches(s[0], at, other):
                raise _invalid(f"min_value_cut: '{_node_name(g, s.nodes[at])}' of `after` is or feeds "
                               f"'{_node_name(g, s.nodes[other])}' of `before`, so no cut has them so")
    cdef MinCut cut = store_min_value_cut(s[0], g.store, _bytes(g, "min_value_cut"), first, second)
    return [_value_view(g, id) for id in cut.values], cut.bytes
