"""`Pattern`: operators to find in a graph, and the edges between them; what a rule replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._native._core import Tensor
from ..errors import InvalidArgumentError
from .opcode import OpCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .._native._graph import Node, Value

# (from, to, from_port, to_port) over numbers of pattern nodes.
_Edge = tuple[int, int, int, int]


class Pattern:
    """Operators, one pattern node each, and the edges between them; the first node is the root.

    A list of operators is a straight line: each feeds input 0 of the next one.

    >>> from clika_runtime.graph import OpCode
    >>> pattern = Pattern()
    >>> add, neg = pattern.add_node(OpCode.Add), pattern.add_node(OpCode.Neg)
    >>> pattern.add_edge(neg, add, to_port=1)
    >>> pattern
    Pattern(Add, Neg; 1:0 -> 0:1)
    """

    def __init__(self, chain: Sequence[OpCode] = ()) -> None:
        self._codes: list[OpCode] = []
        self._optional: set[int] = set()
        self._edges: list[_Edge] = []
        for code in chain:
            node = self.add_node(code)
            if node:
                self.add_edge(node - 1, node)

    @classmethod
    def chain(cls, codes: Sequence[OpCode]) -> Pattern:
        """The straight line of these operators."""
        return cls(codes)

    def add_node(self, code: OpCode, *, optional: bool = False) -> int:
        """Adds an operator to find and gives its number. An ``optional`` one may be missing: then
        what feeds it feeds what it would feed. The root is not optional."""
        if not isinstance(code, OpCode):
            raise TypeError(f"Pattern.add_node: code must be an OpCode, got {type(code).__name__}")
        if optional and not self._codes:
            raise InvalidArgumentError("Pattern.add_node: the root cannot be optional")
        self._codes.append(code)
        if optional:
            self._optional.add(len(self._codes) - 1)
        return len(self._codes) - 1

    def add_edge(self, from_: int, to: int, from_port: int = 0, to_port: int = 0) -> None:
        """Output ``from_port`` of one pattern node feeds input ``to_port`` of another."""
        for node in (from_, to):
            if not isinstance(node, int) or not 0 <= node < len(self._codes):
                raise InvalidArgumentError(
                    f"Pattern.add_edge: there is no pattern node {node!r}; the pattern has "
                    f"{len(self._codes)}"
                )
        for port in (from_port, to_port):
            if not isinstance(port, int) or port < 0:
                raise InvalidArgumentError(f"Pattern.add_edge: {port!r} is no port")
        if any(edge[1] == to and edge[3] == to_port for edge in self._edges):
            raise InvalidArgumentError(
                f"Pattern.add_edge: input {to_port} of pattern node {to} has an edge already"
            )
        edges = [*self._edges, (from_, to, from_port, to_port)]
        if _has_cycle(len(self._codes), edges):
            raise InvalidArgumentError(
                f"Pattern.add_edge: an edge from {from_} to {to} would make a cycle"
            )
        self._edges = edges

    def copy(self) -> Pattern:
        """A pattern of its own with the same nodes and edges."""
        made = Pattern()
        made._codes = list(self._codes)
        made._optional = set(self._optional)
        made._edges = list(self._edges)
        return made

    def __repr__(self) -> str:
        codes = ", ".join(
            code.name + "?" * (node in self._optional) for node, code in enumerate(self._codes)
        )
        edges = ", ".join(f"{a}:{port} -> {b}:{into}" for a, b, port, into in self._edges)
        return f"Pattern({codes}{'; ' + edges if edges else ''})"

    # ---------------------------------------------------------- the search
    def find(self, graph: Any) -> Iterator[list[int]]:
        """The occurrences: the number of the node found for each pattern node, -1 for an optional
        one that is missing. By root, oldest first; optional nodes are found rather than missed."""
        if not self._codes:
            return
        for root in graph.ids_of(self._codes[0].value):
            found: set[frozenset[int]] = set()
            for match in self._extend(graph, self._edges, {0: root}, 1):
                key = frozenset(node for node in match.values() if node >= 0)
                if key not in found and not any(key < larger for larger in found):
                    found.add(key)
                    yield [match[node] for node in range(len(self._codes))]

    def _extend(
        self, graph: Any, edges: list[_Edge], match: dict[int, int], absent: int
    ) -> Iterator[dict[int, int]]:
        """Every way to finish a match over the pattern nodes that it lacks."""
        node = next((node for node in self._order(edges, match)), None)
        if node is None:
            yield match
            return
        taken = set(match.values())
        for candidate in self._candidates(graph, edges, match, node):
            if candidate not in taken and _fits(graph, edges, {**match, node: candidate}, node):
                yield from self._extend(graph, edges, {**match, node: candidate}, absent)
        if node in self._optional:
            yield from self._extend(
                graph, _without(edges, node), {**match, node: -absent}, absent + 1
            )

    def _order(self, edges: list[_Edge], match: dict[int, int]) -> Iterator[int]:
        """The pattern nodes still to find, those with an edge to a found one first."""
        for a, b, _, _ in edges:
            if a in match and b not in match:
                yield b
            elif b in match and a not in match:
                yield a
        yield from (node for node in range(len(self._codes)) if node not in match)

    def _candidates(
        self, graph: Any, edges: list[_Edge], match: dict[int, int], node: int
    ) -> list[int]:
        """The graph's nodes that one edge to a found node leaves; all of the operator without."""
        op = self._codes[node].value
        for a, b, port, into in edges:
            if a == node and b in match:
                ports = graph.ports(match[b])
                value = ports[into] if into < len(ports) else -1
                maker = graph.producer_id(value)[0] if value >= 0 else -1
                return [maker] if maker >= 0 and graph.op(maker) == op else []
            if b == node and a in match:
                results = graph.results(match[a])
                uses = graph.use_list(results[port]) if port < len(results) else []
                return sorted({at for at, used in uses if used == into and graph.op(at) == op})
        return list(graph.ids_of(op))


def _without(edges: list[_Edge], node: int) -> list[_Edge]:
    """The edges of a pattern that lacks a node: what fed it feeds what it fed."""
    into = [edge for edge in edges if edge[1] == node]
    out = [edge for edge in edges if edge[0] == node]
    kept = [edge for edge in edges if node not in edge[:2]]
    if len(into) == 1:
        source, _, port, _ = into[0]
        kept += [(source, b, port, to) for _, b, _, to in out]
    return kept


def _fits(graph: Any, edges: list[_Edge], match: dict[int, int], node: int) -> bool:
    """Whether the graph has every edge between a node and the other found ones."""
    for a, b, port, into in edges:
        if node not in (a, b) or a not in match or b not in match:
            continue
        ports, results = graph.ports(match[b]), graph.results(match[a])
        if into >= len(ports) or port >= len(results) or ports[into] != results[port]:
            return False
    return True


def _has_cycle(count: int, edges: list[_Edge]) -> bool:
    left = set(range(count))
    while left:
        free = {node for node in left if not any(b == node and a in left for a, b, _, _ in edges)}
        if not free:
            return True
        left -= free
    return False


@dataclass(frozen=True)
class RewriteMatch:
    """An occurrence of a pattern. ``nodes`` has the node for each pattern node, None for a missing
    optional one; ``inputs`` the values that it reads from outside, each once, by pattern node, then
    port; ``outputs`` those it makes that a node outside reads or the graph returns."""

    nodes: list[Node | None]
    inputs: list[Value]
    outputs: list[Value]


def apply_rule(
    graph: Any,
    pattern: Pattern,
    replacement: Callable[[RewriteMatch, list[Tensor]], object],
    condition: Callable[[RewriteMatch], object] | None,
) -> None:
    """Searches once and replaces every occurrence that ``condition`` accepts, in order. Left out
    are those that an earlier replacement touched, that are not convex, or that nothing outside
    reads."""
    for found in list(pattern.find(graph)):
        inside = [node for node in found if node >= 0]
        if not all(graph.is_alive(node) for node in inside):
            continue
        match = _match(graph, found, inside)
        if not match.outputs or not graph.is_convex([graph.node_view(node) for node in inside]):
            continue
        if condition is not None and not condition(match):
            continue

        def compute(tensors: list[Tensor], match: RewriteMatch = match) -> Any:
            return replacement(match, list(tensors))

        graph.replace(match.outputs, compute, match.inputs)


def _match(graph: Any, found: list[int], inside: list[int]) -> RewriteMatch:
    inputs, outputs = [], []
    returned = {value for _, value in graph.output_list()}
    for node in inside:
        for value in graph.ports(node):
            if value >= 0 and graph.producer_id(value)[0] not in inside and value not in inputs:
                inputs.append(value)
        for value in graph.results(node):
            if value in returned or any(
                reader not in inside for reader, _ in graph.use_list(value)
            ):
                outputs.append(value)
    return RewriteMatch(
        [graph.node_view(node) if node >= 0 else None for node in found],
        [graph.value_view(value) for value in inputs],
        [graph.value_view(value) for value in outputs],
    )
