"""Queries: hostile use, limits, and what random graphs do not show."""

from __future__ import annotations

import inspect
import math
import re
import sys

import networkx as nx
import pytest

from clika_runtime import dtypes
from clika_runtime._native import _graph
from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.graph.queries import (
    MAX_PATHS_WITHOUT_LIMIT,
    NameMatch,
    Queries,
    TopologicalOrder,
    VisitAction,
    WalkDirection,
)

from .random_graphs import FLOAT32, Graph


def add(graph, name, *reads, op="op", shape=(2, 3), dtype=FLOAT32, outputs=1, alias=-1):
    """A node that reads output 0 of nodes; an input of the graph where it has the operator ''."""
    values = [graph.add_value(dtype, 0, 0, shape, alias) for _ in range(outputs)]
    ids = [graph.results(graph.node_id(read.name))[0] for read in reads]
    return graph.node_view(graph.make_node(op, name, ids, values))


def returns(graph, *nodes):
    graph.set_output_list(
        [(node.name, graph.results(graph.node_id(node.name))[0]) for node in nodes]
    )


@pytest.fixture
def graph():
    """x -> relu, sigmoid -> add -> mul (reads add twice) -> sub; relu -> tanh -> sub."""
    graph = Graph()
    x = add(graph, "x", op="")
    relu, sigmoid = add(graph, "relu", x), add(graph, "sigmoid", x)
    total = add(graph, "add", relu, sigmoid)
    mul = add(graph, "mul", total, total)
    tanh = add(graph, "tanh", relu)
    sub = add(graph, "sub", mul, tanh)
    returns(graph, sub, sigmoid)
    return graph


def ladder(steps):
    """x, then `steps` diamonds in a row: 2 ** steps paths."""
    graph = Graph()
    last = add(graph, "x", op="")
    for i in range(steps):
        left, right = add(graph, f"left{i}", last), add(graph, f"right{i}", last)
        last = add(graph, f"join{i}", left, right)
    returns(graph, last)
    return graph, graph.node("x"), last


def names(nodes):
    return [node.name for node in nodes]


# Every query that takes nodes, asked about one.
ONE_NODE = {
    "edges_between": lambda g, n: g.edges_between(g.node("x"), n),
    "walk": lambda g, n: g.walk(n),
    "walk stop_at": lambda g, n: g.walk(g.node("x"), stop_at=n),
    "walk stop_at list": lambda g, n: g.walk(g.node("x"), stop_at=[n]),
    "descendants": lambda g, n: g.descendants(n),
    "ancestors": lambda g, n: g.ancestors(n),
    "visit": lambda g, n: g.visit(n, lambda node: VisitAction.Continue),
    "is_topological_order": lambda g, n: g.is_topological_order([n]),
    "all_simple_paths": lambda g, n: g.all_simple_paths(g.node("x"), n),
    "all_simple_edge_paths": lambda g, n: g.all_simple_edge_paths(n, g.node("x")),
    "paths avoid": lambda g, n: g.all_simple_paths(g.node("x"), g.node("x"), avoid=n),
    "count_paths": lambda g, n: g.count_paths(g.node("x"), n),
    "shortest_path": lambda g, n: g.shortest_path(g.node("x"), n),
    "cheapest path": lambda g, n: g.shortest_path(g.node("x"), n, edge_cost=lambda edge: 1.0),
    "has_path": lambda g, n: g.has_path(n, g.node("x")),
    "would_create_cycle": lambda g, n: g.would_create_cycle(g.node("x"), n),
    "merge_point": lambda g, n: g.merge_point([n]),
    "region": lambda g, n: g.region(n, n),
    "producer_cone": lambda g, n: g.producer_cone([n]),
    "consumer_cone": lambda g, n: g.consumer_cone([n]),
    "is_convex": lambda g, n: g.is_convex([n]),
    "min_value_cut before": lambda g, n: g.min_value_cut(before=[n]),
    "min_value_cut after": lambda g, n: g.min_value_cut(after=[n]),
}

# Every query that takes a function, with that function.
FUNCTIONS = {
    "find_nodes": lambda g, f: g.find_nodes(f),
    "walk filter": lambda g, f: g.walk(g.node("x"), edge_filter=f),
    "walk stop": lambda g, f: g.walk(g.node("x"), stop_at=f),
    "descendants": lambda g, f: g.descendants(g.node("x"), edge_filter=f),
    "ancestors": lambda g, f: g.ancestors(g.node("sub"), stop_at=f),
    "visit": lambda g, f: g.visit(g.node("x"), lambda node: VisitAction(int(f(node)))),
    "all_simple_paths": lambda g, f: g.all_simple_paths(g.node("x"), g.node("sub"), edge_filter=f),
    "count_paths": lambda g, f: g.count_paths(g.node("x"), g.node("sub"), edge_filter=f),
    "has_path": lambda g, f: g.has_path(g.node("x"), g.node("sub"), edge_filter=f),
    "shortest_path": lambda g, f: g.shortest_path(g.node("x"), g.node("sub"), edge_filter=f),
    "edge_cost": lambda g, f: g.shortest_path(g.node("x"), g.node("sub"), edge_cost=f),
    "node_cost": lambda g, f: g.critical_path(f),
    "critical edge_cost": lambda g, f: g.critical_path(lambda node: 1.0, f),
}


def test_every_query_is_asked_here():
    public = {name for name, item in vars(Queries).items() if inspect.isfunction(item)}
    asked = {case.split()[0] for case in (*ONE_NODE, *FUNCTIONS)} | {"critical_path"}
    takes_no_node = {
        "nodes", "edges", "node", "find_nodes_by_name", "topological_order", "depths",
        "topological_generations", "random_topological_order", "find_cycle", "dominators",
        "weakly_connected_components", "split_points", "to_networkx",
    }  # fmt: skip
    assert public <= asked | takes_no_node


@pytest.mark.parametrize("case", ONE_NODE)
def test_gone_and_foreign_views_are_refused(graph, case):
    query = ONE_NODE[case]
    late = add(graph, "late", graph.node("sub"))
    graph.drop_node(graph.node_id("late"))
    with pytest.raises(InvalidArgumentError, match="'late' is no longer in its graph"):
        query(graph, late)
    other = Graph()
    with pytest.raises(InvalidArgumentError, match="'x' is of another graph"):
        query(graph, add(other, "x", op=""))
    is_option = case in ("walk stop_at", "paths avoid")
    for wrong in ("x", 3, graph.edges()[0], *([] if is_option else [None])):
        with pytest.raises(TypeError):
            query(graph, wrong)
    renamed = graph.node("tanh")
    graph.name_node(graph.node_id("tanh"), "tanh2")
    with pytest.raises(InvalidArgumentError, match="'tanh' is no longer"):
        query(graph, renamed)


@pytest.mark.parametrize("query", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("allowed", [0, 1])
def test_exceptions_of_functions_go_through(graph, query, allowed):
    class Mine(BaseException):
        pass

    def fail(view):
        calls.append(view)
        if len(calls) > allowed:
            raise Mine
        return 0

    calls = []
    version, edges = graph.version, graph.edges()
    with pytest.raises(Mine):
        query(graph, fail)
    assert len(calls) == allowed + 1
    assert graph.version == version
    assert graph.edges() == edges


@pytest.mark.parametrize("query", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("edit", ["grow", "shrink", "rollback", "consume"])
def test_functions_must_not_edit(graph, query, edit):
    add(graph, "spare")

    def change(view):
        if edit == "grow":
            for i in range(200):
                add(graph, f"more{i}", graph.node("x"))
        elif edit == "shrink":
            graph.drop_node(graph.node_id("spare"))
        elif edit == "consume":
            graph.consumed = True
        else:
            mark = graph.mark()
            graph.name_node(graph.node_id("spare"), "other")
            graph.rollback(mark)
        graph.nodes()  # the arrays of the changed graph take the place of those in use
        return 1

    with pytest.raises(InvalidArgumentError, match="changed the graph during the query"):
        query(graph, change)


@pytest.mark.parametrize("query", ["merge_point", "producer_cone", "is_convex", "min_value_cut"])
def test_an_iterator_that_edits_is_read_first(graph, query):
    def nodes():
        yield graph.node("relu")
        for i in range(200):
            add(graph, f"more{i}", graph.node("x"))
        yield graph.node("more199")

    getattr(graph, query)(nodes())
    assert len(graph.nodes()) == 207


def test_a_query_within_a_query(graph):
    found = graph.find_nodes(lambda node: len(graph.ancestors(node)) > 2)
    assert names(found) == ["add", "mul", "sub"]


@pytest.mark.parametrize("query", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("wrong", [3, "relu"])
def test_what_is_no_function_is_refused(graph, query, wrong):
    with pytest.raises(TypeError):
        query(graph, wrong)


def test_wrong_arguments(graph):
    x, sub = graph.node("x"), graph.node("sub")
    for option in ("max_depth", "max_nodes"):
        with pytest.raises(InvalidArgumentError, match=f"walk: {option} must not be negative"):
            graph.walk(x, **{option: -1})
        for wrong in (1.5, True, "2"):
            with pytest.raises(TypeError, match=f"descendants: {option} must be an int"):
                graph.descendants(x, **{option: wrong})
        assert len(graph.walk(x, **{option: 10**30})) == 7
    for option in ("cutoff", "limit"):
        with pytest.raises(InvalidArgumentError, match=f"all_simple_paths: {option} must not"):
            graph.all_simple_paths(x, sub, **{option: -1})
        assert len(list(graph.all_simple_paths(x, sub, **{option: 10**30}))) == 3
    with pytest.raises(
        InvalidArgumentError, match="'up' is not a WalkDirection; choose one of 'forw"
    ):
        graph.walk(x, direction="up")
    with pytest.raises(InvalidArgumentError, match="3 is not a TopologicalOrder"):
        graph.topological_order(3)
    with pytest.raises(InvalidArgumentError, match="'part' is not a NameMatch"):
        graph.find_nodes_by_name("x", "part")
    with pytest.raises(InvalidArgumentError, match="is no regular expression"):
        graph.find_nodes_by_name("(")
    with pytest.raises(TypeError, match="of str, not of bytes"):
        graph.find_nodes_by_name(re.compile(b"x"))
    with pytest.raises(TypeError, match="find_nodes: takes an OpCode or a predicate, got str"):
        graph.find_nodes("relu")
    with pytest.raises(TypeError, match="expected an iterable of Node, got one Node"):
        graph.producer_cone(x)
    with pytest.raises(InvalidArgumentError, match="merge_point: no nodes are given"):
        graph.merge_point([])
    for wrong in (None, 1.5, True):
        with pytest.raises(TypeError, match="seed must be an int"):
            graph.random_topological_order(wrong)
    for wrong in (None, 1, True, "stop"):
        with pytest.raises(TypeError, match="visit: the visitor must return a VisitAction"):
            graph.visit(x, lambda node: wrong)  # noqa: B023
    with pytest.raises(TypeError, match="visit: the visitor must be callable"):
        graph.visit(x, None)
    with pytest.raises(TypeError):
        graph.node(3)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_costs_are_finite(graph, number):
    x, sub = graph.node("x"), graph.node("sub")
    with pytest.raises(
        InvalidArgumentError, match=r"node_cost returned .*a cost is a finite number"
    ):
        graph.critical_path(lambda node: number)
    with pytest.raises(InvalidArgumentError, match="edge_cost returned"):
        graph.critical_path(lambda node: 1, lambda edge: number)
    with pytest.raises(InvalidArgumentError, match="shortest_path: edge_cost returned"):
        graph.shortest_path(x, sub, edge_cost=lambda edge: number)


def test_costs_are_numbers(graph):
    for wrong in (None, "1", [1]):
        with pytest.raises(TypeError, match="node_cost must return a number"):
            graph.critical_path(lambda node: wrong)  # noqa: B023
    with pytest.raises(InvalidArgumentError, match="no float is near to"):
        graph.critical_path(lambda node: 10**400)
    assert graph.critical_path(lambda node: True).cost == 5.0


def test_names(graph):
    add(graph, "add10"), add(graph, "add9"), add(graph, "été"), add(graph, "Z")
    assert names(graph.find_nodes_by_name("add.*")) == ["add", "add10", "add9"]
    assert names(graph.find_nodes_by_name("d", NameMatch.Anywhere)) == [
        "add", "add10", "add9", "sigmoid",
    ]  # fmt: skip
    assert names(graph.find_nodes_by_name(".*")) == sorted(names(graph.nodes()))
    assert graph.find_nodes_by_name("ad") == []
    assert graph.node("été").name == "été"
    assert graph.node("") is None


def test_visits(graph):
    def seen(action, at, **options):
        shown = []

        def visitor(node):
            shown.append(node.name)
            return action if node.name == at else VisitAction.Continue

        assert graph.visit(graph.node("x"), visitor, **options) is None
        return shown

    assert seen(VisitAction.Prune, "add") == ["x", "relu", "sigmoid", "add", "tanh", "sub"]
    assert seen(VisitAction.Stop, "add") == ["x", "relu", "sigmoid", "add"]
    assert seen(VisitAction.Stop, "", max_depth=1) == ["x", "relu", "sigmoid"]
    assert seen(VisitAction.Stop, "", stop_at=[graph.node("relu")], max_nodes=4) == [
        "x", "relu", "sigmoid", "add",
    ]  # fmt: skip
    assert seen(VisitAction.Stop, "", direction=WalkDirection.Backward) == ["x"]


def test_paths_beyond_the_limit():
    graph, x, last = ladder(40)
    for search in (graph.all_simple_paths, graph.all_simple_edge_paths):
        with pytest.raises(
            InvalidArgumentError, match="more than 10000 paths from 'x' to 'join39'"
        ):
            search(x, last)
        first = list(search(x, last, limit=5))
        assert len(first) == len({tuple(path) for path in first}) == 5
        assert all(len(path) in (80, 81) for path in first)
        with pytest.raises(InvalidArgumentError, match="more than 10000"):
            search(x, last, cutoff=80)
        assert list(search(x, last, cutoff=79)) == []
    assert graph.count_paths(x, last) == 2**40
    assert graph.count_paths(x, last, cutoff=80) == 2**40
    assert graph.has_path(x, last)


@pytest.mark.parametrize("more", [0, 1])
def test_the_limit_is_exact(more):
    # One level of 100 nodes each, then one of 100: 10,000 paths; a direct edge makes one more.
    graph = Graph()
    x = add(graph, "x", op="")
    middle = add(graph, "middle", *(add(graph, f"a{i}", x) for i in range(100)))
    ends = [add(graph, f"b{i}", middle) for i in range(100)]
    last = add(graph, "last", *ends, *([x] if more else []))
    assert graph.count_paths(x, last) == MAX_PATHS_WITHOUT_LIMIT + more
    if more:
        with pytest.raises(InvalidArgumentError, match="more than 10000"):
            graph.all_simple_paths(x, last)
        assert len(list(graph.all_simple_paths(x, last, cutoff=1))) == 1
    else:
        assert len(list(graph.all_simple_paths(x, last))) == MAX_PATHS_WITHOUT_LIMIT


def test_a_cutoff_is_counted_exactly():
    # Nodes in a row, each also reading the one before the last: a path chooses what it skips.
    graph = Graph()
    row = [add(graph, "x", op="")]
    for i in range(30):
        row.append(add(graph, f"n{i}", *row[-2:]))
    total = 0
    for edges in range(31):
        total += math.comb(edges, 30 - edges)  # as many steps of two as are left over
        assert graph.count_paths(row[0], row[-1], cutoff=edges) == total
    assert graph.count_paths(row[0], row[-1]) == total
    # Short edges are free, skips cost one: fewer edges are dearer.
    for cutoff in range(15, 31):
        path = graph.shortest_path(
            row[0],
            row[-1],
            cutoff=cutoff,
            edge_cost=lambda edge: row.index(edge.dst()) - row.index(edge.src()) - 1,
        )
        assert (path.cost, len(path.edges)) == (30 - cutoff, cutoff)


def test_trade_offs_are_bounded():
    # As above, where every node of the row has as many trade-offs as it has choices.
    graph = Graph()
    row = [add(graph, "x", op="")]
    for i in range(5000):
        row.append(add(graph, f"n{i}", *row[-2:]))
    ports = {0: 1.0, 1: 0.0}
    ends = row[0], row[-1]
    assert graph.shortest_path(*ends, edge_cost=lambda edge: ports[edge.dst_port()]).cost < 2
    with pytest.raises(InvalidArgumentError, match="too many trade-offs between edges and cost"):
        graph.shortest_path(*ends, edge_cost=lambda edge: ports[edge.dst_port()], cutoff=4999)


def test_of_equal_paths_the_shortest_counts():
    graph = Graph()
    x = add(graph, "x", op="")
    long = add(graph, "b", add(graph, "a", x))
    short = add(graph, "c", x)
    last = add(graph, "last", long, short)
    assert names(graph.shortest_path(x, last)) == ["x", "c", "last"]
    free = graph.shortest_path(x, last, edge_cost=lambda edge: 0.0)
    assert names(free.nodes) == ["x", "c", "last"]
    # A chain of work is not cut short where it costs nothing.
    assert names(graph.critical_path(lambda node: 0.0).nodes)[:1] == ["x"]
    assert names(graph.critical_path(lambda node: float(node == last)).nodes) == [
        "x",
        "a",
        "b",
        "last",
    ]


def test_paths_stay_as_they_were_found(graph):
    x, sub = graph.node("x"), graph.node("sub")
    paths = graph.all_simple_paths(x, sub)
    first = next(paths)
    add(graph, "late", sub)
    graph.set_port(graph.node_id("sub"), 1, graph.results(graph.node_id("add"))[0])
    del graph
    rest = list(paths)
    assert [names(path) for path in (first, *rest)] == [
        ["x", "relu", "add", "mul", "sub"],
        ["x", "relu", "tanh", "sub"],
        ["x", "sigmoid", "add", "mul", "sub"],
    ]
    assert list(paths) == []


def test_random_orders_draw_every_valid_order(graph):
    valid = {tuple(order) for order in nx.all_topological_sorts(graph.to_networkx())}
    drawn = {tuple(graph.random_topological_order(seed)) for seed in range(60 * len(valid))}
    assert drawn == valid
    assert graph.random_topological_order(5) == graph.random_topological_order(5 + 2**64)
    assert graph.is_topological_order(graph.random_topological_order(-1))


def test_cycles_are_found_and_refused(graph):
    add(graph, "after", graph.node("sub"))
    graph.set_port(graph.node_id("relu"), 0, graph.results(graph.node_id("sub"))[0])
    cycle = graph.find_cycle()
    assert all(a in b.predecessors() for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    assert graph.node("after") not in cycle
    assert len(graph.walk(graph.node("relu"))) == 6  # ends
    assert graph.would_create_cycle(graph.node("mul"), graph.node("tanh"))
    assert len(graph.weakly_connected_components()) == 1
    assert not graph.is_topological_order(graph.nodes())
    x, relu, sub = graph.node("x"), graph.node("relu"), graph.node("sub")
    for query in (
        graph.topological_order, graph.topological_generations, graph.depths, graph.dominators,
        graph.split_points, graph.min_value_cut, lambda: graph.random_topological_order(1),
        lambda: graph.count_paths(x, sub), lambda: graph.has_path(relu, sub),
        lambda: graph.critical_path(lambda node: 1.0), lambda: graph.region(x, sub),
        lambda: graph.merge_point([x]), lambda: graph.is_convex([x]),
        lambda: graph.producer_cone([x]), lambda: graph.shortest_path(x, sub),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match="the graph has a cycle through '"):
            query()


def test_an_empty_graph():
    graph = Graph()
    empty_lists = (
        graph.nodes, graph.edges, graph.topological_order, graph.topological_generations,
        graph.find_cycle, graph.weakly_connected_components, graph.split_points,
    )  # fmt: skip
    assert [query() for query in empty_lists] == [[]] * len(empty_lists)
    assert graph.topological_order("structural") == graph.topological_order("min_memory") == []
    assert graph.depths() == graph.dominators() == {}
    assert graph.random_topological_order(1) == graph.find_nodes(lambda node: True) == []
    assert graph.is_topological_order([]) and graph.is_convex([])
    path = graph.critical_path(lambda node: 1.0)
    assert (path.nodes, path.edges, path.cost) == ([], [], 0.0)
    cut = graph.min_value_cut()
    assert (cut.values, cut.bytes) == ([], 0)
    assert graph.producer_cone([]) == graph.consumer_cone([]) == []
    assert graph.to_networkx().number_of_nodes() == 0


def test_graphs_are_deep():
    """Nothing recurses: a chain far deeper than any stack, and a search along it."""
    graph = Graph()
    last = first = add(graph, "x", op="")
    for i in range(20_000):
        last = add(graph, f"n{i}", last)
    returns(graph, last)
    assert len(graph.topological_order(TopologicalOrder.Structural)) == 20_001
    assert len(next(graph.all_simple_paths(first, last))) == 20_001
    assert len(graph.shortest_path(first, last, edge_cost=lambda edge: 1.0).nodes) == 20_001
    assert len(graph.split_points()) == 20_001
    assert graph.dominators()[last].name == "n19998"
    assert graph.min_value_cut().bytes == 24
    assert graph.count_paths(first, last) == 1


def test_counts_are_exact():
    graph, x, last = ladder(1000)
    assert graph.count_paths(x, last) == 2**1000
    assert graph.count_paths(x, last, avoid=graph.node("left7")) == 2**999


def test_min_memory_follows_views_and_outputs():
    # Big values first would hold both; a view holds its source.
    graph = Graph()
    x = add(graph, "x", op="")
    big = [add(graph, f"big{i}", x, shape=(100,)) for i in range(3)]
    source = graph.results(graph.node_id("big0"))[0]
    view = add(graph, "view", big[0], shape=(100,), alias=source)
    small = [add(graph, f"small{i}", node, shape=(1,)) for i, node in enumerate([view, *big[1:]])]
    returns(graph, add(graph, "sum", *small, shape=(1,)))
    made, least = graph.topological_order(), graph.topological_order("min_memory")
    # big0, big1, big2 and the first small; one big and what is small at a time.
    assert _graph.peak_bytes(graph, made) == 3 * 400 + 4
    assert _graph.peak_bytes(graph, least) == 400 + 3 * 4
    assert names(least)[:4] == ["x", "big0", "view", "small0"]


def test_min_memory_sees_who_reads_last():
    graph = Graph()
    x = add(graph, "x", op="")
    big = add(graph, "big", x, shape=(100,))
    one = add(graph, "one", big, shape=(1,))
    after_one = add(graph, "after_one", one, shape=(2,))
    half = add(graph, "half", big, shape=(50,))  # once `one` has run, this frees `big`
    returns(graph, one, after_one, half)
    order = names(graph.topological_order("min_memory"))
    assert order == ["x", "big", "one", "half", "after_one"]


def test_cuts_count_bytes():
    graph = Graph()
    x = add(graph, "x", op="", shape=(-7, 5))  # a dynamic dim counts as 1
    half = add(graph, "half", x, shape=(-7, 3), dtype=dtypes.float16.code)
    bits = add(graph, "bits", half, shape=(3,), dtype=dtypes.int4.code)
    last = add(graph, "last", bits, half)
    returns(graph, last)
    cut = graph.min_value_cut()
    assert (cut.values, cut.bytes) == ([half.output(0)], 6)
    cut = graph.min_value_cut(before=[bits])
    assert (cut.values, cut.bytes) == ([half.output(0), bits.output(0)], 6 + 2)
    cut = graph.min_value_cut(after=[half])
    assert (cut.values, cut.bytes) == ([x.output(0)], 20)
    cut = graph.min_value_cut(before=[last])
    assert (cut.values, cut.bytes) == ([last.output(0)], 24)
    with pytest.raises(
        InvalidArgumentError, match="'half' of `after` is or feeds 'bits' of `before`"
    ):
        graph.min_value_cut(before=[x, bits], after=[half])
    with pytest.raises(InvalidArgumentError, match="is or feeds"):
        graph.min_value_cut(before=[bits], after=[bits])
    # An input that only the second part is given.
    assert graph.min_value_cut(after=[x]).bytes == 0
    add(graph, "huge", last, shape=(2**40, 2**40))
    for query in (graph.min_value_cut, lambda: graph.topological_order("min_memory")):
        with pytest.raises(InvalidArgumentError, match="more bytes than an int64 counts"):
            query()
    graph.drop_node(graph.node_id("huge"))
    add(graph, "none", last, shape=(2**40, 0, 2**40))
    assert graph.min_value_cut().bytes == 6


def test_regions_name_what_crosses(graph):
    node = graph.node
    assert names(graph.region(node("add"), node("mul"))) == ["add", "mul"]
    assert names(graph.region(node("add"), node("add"))) == ["add"]
    with pytest.raises(InvalidArgumentError, match="no path leads from 'sub' to 'x'"):
        graph.region(node("sub"), node("x"))
    with pytest.raises(
        InvalidArgumentError, match="way in or out: the edge 'sigmoid':0 -> 'add':1"
    ):
        graph.region(node("relu"), node("sub"))
    with pytest.raises(InvalidArgumentError, match="the graph returns a value of 'sigmoid'"):
        graph.region(node("x"), node("sub"))


def test_merge_points(graph):
    node = graph.node
    assert graph.merge_point([node("add"), node("tanh")]) == node("sub")
    assert graph.merge_point([node("add"), node("mul")]) == node("mul")
    assert graph.merge_point([node("relu")]) == node("relu")
    assert graph.merge_point([node("relu"), node("sigmoid")]) is None  # sigmoid is returned
    returns(graph, node("sub"))
    assert graph.merge_point([node("relu"), node("sigmoid")]) == node("sub")
    assert graph.merge_point([add(graph, "unread"), node("relu")]) is None


def test_edges_in_networkx_have_data_of_their_own(graph):
    made = graph.to_networkx()
    made.edges[graph.node("add"), graph.node("mul"), (0, 1)]["weight"] = 2
    assert sum(len(data) for _, _, data in made.edges(data=True)) == 1


def test_networkx_is_asked_for_by_name(graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(UnsupportedError, match="pip install networkx"):
        graph.to_networkx()
