"""Queries of a `ModelGraph`: its structure read as data, as it stands at the call.

Answers are views (`Node`, `Value`, `Edge`) in a fixed order: topological where nothing else is
said. Wherever a query takes a node it refuses, with `InvalidArgumentError`, a view of another graph
and one whose node is gone. An exception of a function given to a query (a predicate, a filter, a
cost, a visitor) goes through; such a function must not edit the graph meanwhile.

Loops and branches need nothing special: a node that holds subgraphs lists the outer values that
these read among its inputs.
"""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._native import _graph
from .._native._graph import MAX_PATHS_WITHOUT_LIMIT
from ..errors import InvalidArgumentError, UnsupportedError
from .opcode import OpCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .._native._graph import Edge, Node, Value
    from .._native._graph import GraphStore as _Base
else:
    _Base = object

__all__ = [
    "MAX_PATHS_WITHOUT_LIMIT",
    "NameMatch",
    "Queries",
    "TopologicalOrder",
    "ValueCut",
    "VisitAction",
    "WalkDirection",
    "WeightedPath",
]

E = TypeVar("E", bound=enum.Enum)


class NameMatch(enum.Enum):
    """What of a name a pattern has to match: all of it, or any part."""

    Whole = "whole"
    Anywhere = "anywhere"


class VisitAction(enum.IntEnum):
    """What a visitor answers: go on, do not go past this node, or end the walk."""

    Continue = 0
    Prune = 1
    Stop = 2


class WalkDirection(enum.Enum):
    """Along the edges, from producers to readers, or against them."""

    Forward = "forward"
    Backward = "backward"


class TopologicalOrder(enum.Enum):
    """Which of the valid orders: of the nodes that can come next,

    - ``Deterministic``: the one that was made first; the inputs first of all;
    - ``Structural``: depth-first from the outputs, input by input, so that it does not depend on
      the order in which nodes were made;
    - ``MinMemory``: the one after which the fewest bytes are live, unless the deterministic order
      has the lower peak. A dynamic dim counts as 1.
    """

    Deterministic = "deterministic"
    Structural = "structural"
    MinMemory = "min_memory"


@dataclass(frozen=True)
class WeightedPath:
    """A path and the sum of its costs. Without any path ``nodes`` and ``edges`` are empty."""

    nodes: list[Node]
    edges: list[Edge]
    cost: float


@dataclass(frozen=True)
class ValueCut:
    """The values that cross a cut, in the order they are made, and the sum of their bytes."""

    values: list[Value]
    bytes: int


def _member(kind: type[E], value: Any, argument: str) -> E:
    if isinstance(value, kind):
        return value
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(repr(member.value) for member in kind)
        raise InvalidArgumentError(
            f"{argument}: {value!r} is not a {kind.__name__}; choose one of {choices}"
        ) from None


def _is_backward(direction: WalkDirection | str) -> bool:
    return _member(WalkDirection, direction, "direction") is WalkDirection.Backward


class Queries(_Base):
    """The queries of a `ModelGraph`. The examples ask this graph::

    def model(inputs):
        a, b = crt.relu(inputs[0]), crt.sigmoid(inputs[0])
        c = a + b
        return [c * c - crt.tanh(a), b]

    graph = crt.trace(model, [crt.TensorSpec("x", crt.float32, [2, 3])]).graph
    x, relu, sigmoid, add, mul, tanh, sub = graph.nodes()
    """

    # ------------------------------------------------------------------ nodes and edges
    def nodes(self) -> list[Node]:
        """All nodes, inputs of the graph included.

        >>> [node.name for node in graph.nodes()]
        ['x', 'Relu_1', 'Sigmoid_2', 'Add_3', 'Mul_4', 'Tanh_5', 'Sub_6']
        """
        return _graph.nodes(self)

    def edges(self) -> list[Edge]:
        """All edges, by reader, then by its input port.

        >>> len(graph.edges()), graph.edges()[0]
        (9, Edge('x':0 -> 'Relu_1':0))
        """
        return _graph.edges(self)

    def edges_between(self, src: Node, dst: Node) -> list[Edge]:
        """The edges from one node to another, by input port.

        >>> graph.edges_between(add, mul)
        [Edge('Add_3':0 -> 'Mul_4':0), Edge('Add_3':0 -> 'Mul_4':1)]
        """
        return _graph.edges_between(self, src, dst)

    def node(self, name: str) -> Node | None:
        """The node of that name, or None.

        >>> graph.node("x"), graph.node("y")
        (Node('x', Input), None)
        """
        return _graph.node(self, name)

    def find_nodes(self, wanted: OpCode | Callable[[Node], object]) -> list[Node]:
        """The nodes of an `OpCode`, or those a predicate is true for, in the order of their names.

        >>> graph.find_nodes(OpCode.Mul), graph.find_nodes(lambda node: node.out_degree() > 2)
        ([Node('Mul_4', Mul)], [])
        """
        if isinstance(wanted, OpCode):
            return _graph.find_nodes_by_op(self, wanted.value)
        if callable(wanted):
            return _graph.find_nodes_where(self, wanted)
        raise TypeError(f"find_nodes: takes an OpCode or a predicate, got {type(wanted).__name__}")

    def find_nodes_by_name(
        self, pattern: str | re.Pattern[str], match: NameMatch | str = NameMatch.Whole
    ) -> list[Node]:
        """The nodes whose whole name, or any part of it, matches a regular expression, in the order
        of their names. Raises `InvalidArgumentError` for what is no regular expression.

        >>> graph.find_nodes_by_name("(Relu|Add)_[0-9]+")
        [Node('Add_3', Add), Node('Relu_1', Relu)]
        >>> graph.find_nodes_by_name("Sig"), graph.find_nodes_by_name("Sig", NameMatch.Anywhere)
        ([], [Node('Sigmoid_2', Sigmoid)])
        """
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise InvalidArgumentError(
                f"find_nodes_by_name: {pattern!r} is no regular expression: {error}"
            ) from error
        if not isinstance(compiled.pattern, str):
            raise TypeError("find_nodes_by_name: the pattern must be of str, not of bytes")
        whole = _member(NameMatch, match, "match") is NameMatch.Whole
        return _graph.find_nodes_by_name(self, compiled.fullmatch if whole else compiled.search)

    # ------------------------------------------------------------------ walks
    def walk(
        self,
        start: Node,
        *,
        direction: WalkDirection | str = WalkDirection.Forward,
        max_depth: int | None = None,
        max_nodes: int | None = None,
        stop_at: Node | Iterable[Node] | Callable[[Node], object] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
    ) -> list[Node]:
        """The nodes a breadth-first walk reaches, the start first. It takes a node's edges by
        output port and reader, or backward by input port.

        ``max_depth`` bounds the edges from the start, ``max_nodes`` the length of the list. The
        walk does not go past the nodes of ``stop_at`` (nodes, or a predicate), nor along an edge
        that ``edge_filter`` is false for.

        >>> graph.walk(x, max_depth=1)
        [Node('x', Input), Node('Relu_1', Relu), Node('Sigmoid_2', Sigmoid)]
        >>> [node.name for node in graph.walk(mul, direction="backward", stop_at=[relu, sigmoid])]
        ['Mul_4', 'Add_3', 'Relu_1', 'Sigmoid_2']
        """
        backward = _is_backward(direction)
        return _graph.walk(self, start, backward, max_depth, max_nodes, stop_at, edge_filter)

    def descendants(
        self,
        node: Node,
        *,
        max_depth: int | None = None,
        max_nodes: int | None = None,
        stop_at: Node | Iterable[Node] | Callable[[Node], object] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
    ) -> list[Node]:
        """The nodes that read the node, directly or not: a forward `walk` without its start, so the
        nearest first.

        >>> [node.name for node in graph.descendants(relu)]
        ['Add_3', 'Tanh_5', 'Mul_4', 'Sub_6']
        """
        return _graph.relatives(self, node, False, max_depth, max_nodes, stop_at, edge_filter)

    def ancestors(
        self,
        node: Node,
        *,
        max_depth: int | None = None,
        max_nodes: int | None = None,
        stop_at: Node | Iterable[Node] | Callable[[Node], object] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
    ) -> list[Node]:
        """The nodes that the node reads, directly or not: a backward `walk` without its start.

        >>> [node.name for node in graph.ancestors(sub, max_depth=2)]
        ['Mul_4', 'Tanh_5', 'Add_3', 'Relu_1']
        """
        return _graph.relatives(self, node, True, max_depth, max_nodes, stop_at, edge_filter)

    def visit(
        self,
        start: Node,
        visitor: Callable[[Node], VisitAction],
        *,
        direction: WalkDirection | str = WalkDirection.Forward,
        max_depth: int | None = None,
        max_nodes: int | None = None,
        stop_at: Node | Iterable[Node] | Callable[[Node], object] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
    ) -> None:
        """Shows ``visitor`` the nodes of a `walk`, each as it is reached; the walk goes on by the
        `VisitAction` it answers.

        >>> seen = []
        >>> graph.visit(x, lambda node: seen.append(node.name) or VisitAction(node == sigmoid))
        >>> seen
        ['x', 'Relu_1', 'Sigmoid_2', 'Add_3', 'Tanh_5', 'Mul_4', 'Sub_6']
        """
        _graph.visit(
            self,
            start,
            visitor,
            VisitAction,
            _is_backward(direction),
            max_depth,
            max_nodes,
            stop_at,
            edge_filter,
        )

    # ------------------------------------------------------------------ orders
    def topological_order(
        self, order: TopologicalOrder | str = TopologicalOrder.Deterministic
    ) -> list[Node]:
        """Every node after the nodes it reads, in one of the orders of `TopologicalOrder`.

        >>> [node.name for node in graph.topological_order(TopologicalOrder.Structural)]
        ['x', 'Relu_1', 'Sigmoid_2', 'Add_3', 'Mul_4', 'Tanh_5', 'Sub_6']
        """
        return _graph.topological_order(self, _member(TopologicalOrder, order, "order").value)

    def topological_generations(self) -> list[list[Node]]:
        """The nodes by the length of the longest path that ends at them. A generation reads earlier
        ones only, so its nodes can run at the same time.

        >>> [[node.name for node in nodes] for nodes in graph.topological_generations()]
        [['x'], ['Relu_1', 'Sigmoid_2'], ['Add_3', 'Tanh_5'], ['Mul_4'], ['Sub_6']]
        """
        return _graph.topological_generations(self)

    def depths(self) -> dict[Node, int]:
        """Per node the number of edges of the longest path that ends at it.

        >>> graph.depths()[sub]
        4
        """
        return _graph.depths(self)

    def random_topological_order(self, seed: int) -> list[Node]:
        """One of the valid orders, drawn from the seed (its lower 64 bits); any may come.

        >>> graph.is_topological_order(graph.random_topological_order(7))
        True
        """
        return _graph.random_topological_order(self, seed)

    def is_topological_order(self, nodes: Iterable[Node]) -> bool:
        """Whether each node of the graph is there once, after the nodes it reads.

        >>> graph.is_topological_order([x, relu])
        False
        """
        return _graph.is_topological_order(self, nodes)

    # ------------------------------------------------------------------ paths
    def all_simple_paths(
        self,
        src: Node,
        dst: Node,
        *,
        cutoff: int | None = None,
        avoid: Node | Iterable[Node] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
        limit: int | None = None,
    ) -> Iterator[list[Node]]:
        """The paths from one node to another as nodes, depth first; parallel edges give one path. A
        node has one path to itself: the node.

        ``cutoff`` bounds the edges of a path. Paths cross no node of ``avoid`` and no edge that
        ``edge_filter`` is false for. ``limit`` ends the list; without it more than
        `MAX_PATHS_WITHOUT_LIMIT` paths are an `InvalidArgumentError`. The paths are those of the
        graph at the call, whatever happens to it while they are taken.

        >>> for path in graph.all_simple_paths(x, sub, avoid=sigmoid):
        ...     print([node.name for node in path])
        ['x', 'Relu_1', 'Add_3', 'Mul_4', 'Sub_6']
        ['x', 'Relu_1', 'Tanh_5', 'Sub_6']
        """
        return _graph.all_simple_paths(self, src, dst, False, cutoff, avoid, edge_filter, limit)

    def all_simple_edge_paths(
        self,
        src: Node,
        dst: Node,
        *,
        cutoff: int | None = None,
        avoid: Node | Iterable[Node] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
        limit: int | None = None,
    ) -> Iterator[list[Edge]]:
        """As `all_simple_paths`, the paths as edges: each of parallel edges gives its own.

        >>> len(list(graph.all_simple_edge_paths(x, sub)))
        5
        """
        return _graph.all_simple_paths(self, src, dst, True, cutoff, avoid, edge_filter, limit)

    def count_paths(
        self,
        src: Node,
        dst: Node,
        *,
        cutoff: int | None = None,
        avoid: Node | Iterable[Node] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
    ) -> int:
        """How many paths `all_simple_paths` would list, counted without listing them.

        >>> graph.count_paths(x, sub)
        3
        """
        return _graph.count_paths(self, src, dst, cutoff, avoid, edge_filter)

    @overload
    def shortest_path(
        self,
        src: Node,
        dst: Node,
        *,
        edge_cost: None = None,
        cutoff: int | None = None,
        avoid: Node | Iterable[Node] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
    ) -> list[Node]: ...
    @overload
    def shortest_path(
        self,
        src: Node,
        dst: Node,
        *,
        edge_cost: Callable[[Edge], float],
        cutoff: int | None = None,
        avoid: Node | Iterable[Node] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
    ) -> WeightedPath: ...
    def shortest_path(
        self,
        src: Node,
        dst: Node,
        *,
        edge_cost: Callable[[Edge], float] | None = None,
        cutoff: int | None = None,
        avoid: Node | Iterable[Node] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
    ) -> list[Node] | WeightedPath:
        """The path with the fewest edges, as nodes; empty where there is none. Of equals the first
        that `all_simple_paths` lists.

        With an ``edge_cost``, a finite number per edge, the cheapest path as a `WeightedPath`: of
        equals one with the fewest edges; empty and of infinite cost where there is none.

        >>> [node.name for node in graph.shortest_path(x, sub)]
        ['x', 'Relu_1', 'Tanh_5', 'Sub_6']
        >>> dear = {tanh: 5.0}
        >>> path = graph.shortest_path(x, sub, edge_cost=lambda edge: dear.get(edge.dst(), 1.0))
        >>> [node.name for node in path.nodes], path.cost
        (['x', 'Relu_1', 'Add_3', 'Mul_4', 'Sub_6'], 4.0)
        """
        if edge_cost is None:
            return _graph.shortest_path(self, src, dst, cutoff, avoid, edge_filter)
        found = _graph.cheapest_between(self, src, dst, edge_cost, cutoff, avoid, edge_filter)
        return WeightedPath([], [], math.inf) if found is None else WeightedPath(*found)

    def has_path(
        self,
        src: Node,
        dst: Node,
        *,
        cutoff: int | None = None,
        avoid: Node | Iterable[Node] | None = None,
        edge_filter: Callable[[Edge], object] | None = None,
    ) -> bool:
        """Whether a path leads from one node to another; a node reaches itself.

        >>> graph.has_path(x, sub), graph.has_path(sub, x)
        (True, False)
        """
        return _graph.has_path(self, src, dst, cutoff, avoid, edge_filter)

    def critical_path(
        self,
        node_cost: Callable[[Node], float],
        edge_cost: Callable[[Edge], float] | None = None,
    ) -> WeightedPath:
        """The costliest path: the longest chain of work where a node costs its run time. A cost is
        a finite number per node, and per edge (default 0).

        >>> path = graph.critical_path(lambda node: 2.0 if node == sigmoid else 1.0)
        >>> [node.name for node in path.nodes], path.cost
        (['x', 'Sigmoid_2', 'Add_3', 'Mul_4', 'Sub_6'], 6.0)
        """
        return WeightedPath(*_graph.critical_path(self, node_cost, edge_cost))

    # ------------------------------------------------------------------ structure
    def find_cycle(self) -> list[Node]:
        """The nodes of a cycle, each read by the next; empty for every traced or compiled graph.

        >>> graph.find_cycle()
        []
        """
        return _graph.find_cycle(self)

    def would_create_cycle(self, src: Node, dst: Node) -> bool:
        """Whether an edge from ``src`` to ``dst`` would close a cycle.

        >>> graph.would_create_cycle(sub, x), graph.would_create_cycle(x, sub)
        (True, False)
        """
        return _graph.would_create_cycle(self, src, dst)

    def weakly_connected_components(self) -> list[list[Node]]:
        """The nodes that edges join in either direction, by their first nodes.

        >>> len(graph.weakly_connected_components())
        1
        """
        return _graph.weakly_connected_components(self)

    def dominators(self) -> dict[Node, Node]:
        """Per node the last other node that every path from the inputs to it crosses; the node
        itself where there is none, as for an input and where paths from two inputs meet. For a node
        that no input reaches, paths start at the nodes that read nothing.

        >>> dominators = graph.dominators()
        >>> dominators[mul], dominators[sub], dominators[x]
        (Node('Add_3', Add), Node('x', Input), Node('x', Input))
        """
        return _graph.dominators(self)

    def split_points(self) -> list[Node]:
        """The nodes that every path from the inputs to the outputs of the graph crosses. A path
        ends at any node that makes an output, also where others read that too.

        >>> graph.split_points()  # sigmoid is an output
        [Node('x', Input)]
        """
        return _graph.split_points(self)

    def merge_point(self, nodes: Iterable[Node]) -> Node | None:
        """Where the paths from several nodes meet: the first node that every path from each of them
        to the outputs of the graph crosses, one of ``nodes`` included; None where there is none.

        >>> graph.merge_point([add, tanh]), graph.merge_point([relu, sigmoid])
        (Node('Sub_6', Sub), None)
        """
        return _graph.merge_point(self, nodes)

    def region(self, entry: Node, exit: Node) -> list[Node]:
        """The single-entry, single-exit block between two nodes, both included: what lies on paths
        from one to the other. Raises `InvalidArgumentError`, naming the edge or output, where
        something else enters or leaves it.

        >>> graph.region(add, mul)
        [Node('Add_3', Add), Node('Mul_4', Mul)]
        """
        return _graph.region(self, entry, exit)

    def producer_cone(self, nodes: Iterable[Node]) -> list[Node]:
        """Everything a set of nodes reads, directly or not, outside the set.

        >>> [node.name for node in graph.producer_cone([mul])]
        ['x', 'Relu_1', 'Sigmoid_2', 'Add_3']
        """
        return _graph.cone(self, nodes, True)

    def consumer_cone(self, nodes: Iterable[Node]) -> list[Node]:
        """Everything a set of nodes feeds, directly or not, outside the set.

        >>> [node.name for node in graph.consumer_cone([sigmoid, tanh])]
        ['Add_3', 'Mul_4', 'Sub_6']
        """
        return _graph.cone(self, nodes, False)

    def is_convex(self, nodes: Iterable[Node]) -> bool:
        """Whether no path leaves a set of nodes and comes back: then it can be cut out and replaced
        as one piece.

        >>> graph.is_convex([add, mul]), graph.is_convex([relu, mul])
        (True, False)
        """
        return _graph.is_convex(self, nodes)

    def min_value_cut(self, before: Iterable[Node] = (), after: Iterable[Node] = ()) -> ValueCut:
        """The split of the nodes into two parts that hands the fewest bytes from the first part to
        the second, which feeds nothing of the first; of the cheapest, the one nearest the inputs.

        ``before`` and ``after`` pin nodes to either part; inputs of the graph are in the first part
        unless ``after`` names them. An output of the graph counts as handed over, a value that
        several nodes read counts once, a constant does not count, and a dynamic dim counts as 1.
        Raises `InvalidArgumentError` where the pins contradict each other. Method: maximum flow
        (Dinic, 1970) over nodes and values.

        >>> cut = graph.min_value_cut(before=[add], after=[sub])
        >>> [value.producer().name for value in cut.values], cut.bytes
        (['Relu_1', 'Sigmoid_2', 'Add_3'], 72)
        """
        return ValueCut(*_graph.min_value_cut(self, before, after))

    # ------------------------------------------------------------------ other libraries
    def to_networkx(self) -> Any:
        """The graph as a ``networkx.MultiDiGraph`` of the `Node` views; an edge's key is
        ``(src_port, dst_port)``. Needs the package networkx.

        >>> graph.to_networkx().number_of_edges(add, mul)
        2
        """
        try:
            import networkx
        except ModuleNotFoundError as error:
            if error.name != "networkx":
                raise
            raise UnsupportedError(
                "to_networkx: the package networkx is not installed; pip install networkx"
            ) from error
        made = networkx.MultiDiGraph()
        made.add_nodes_from(self.nodes())
        made.add_edges_from(_graph.keyed_edges(self))
        return made
