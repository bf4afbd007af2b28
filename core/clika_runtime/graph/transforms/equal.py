"""The same computation twice, done once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._native._core import Port
from ...ops.record import COMMUTATIVE, RANDOM
from ..optimize import OwnTransform

if TYPE_CHECKING:
    from ..rewriting import Rewriter


def _merge(rewriter: Rewriter, node: int) -> None:
    """Of two nodes with one operator, the same inputs and the same arguments the newer one goes.
    Not of those that draw random numbers, nor of those that write."""
    graph = rewriter.graph
    key = _key(rewriter, node)
    if key is None:
        return
    known: int = rewriter.memory.get(key, node)
    if known == node or not graph.is_alive(known) or _key(rewriter, known) != key:
        rewriter.memory[key] = node
        return
    kept, gone = sorted((node, known))
    pairs = list(zip(graph.results(gone), graph.results(kept), strict=True))
    if all(rewriter.may_stand_for(new, old) for old, new in pairs):
        for old, new in pairs:
            rewriter.move_uses(old, new)
        rewriter.sweep(gone)
        rewriter.memory[key] = kept


def _key(rewriter: Rewriter, node: int) -> tuple[Any, ...] | None:
    """What two nodes that compute the same have in common; None for one that has no equal."""
    graph = rewriter.graph
    found = rewriter.record(node)
    if found is None or RANDOM in found.traits or found.mutates:
        return None
    if any(rewriter.is_written(value) for value in graph.results(node)):
        return None
    ports = graph.ports(node)
    call = graph._calls[node]
    if COMMUTATIVE in found.traits and rewriter.arguments(node).get("alpha", 1) == 1:
        if all(isinstance(item, Port) for item in call[:2]) and ports[0] > ports[1]:
            ports = (ports[1], ports[0], *ports[2:])
    # As text, in which 1, 1.0 and True differ, and 0.0 and -0.0.
    return graph.op(node), ports, repr(call), repr(sorted(graph._extras.get(node, {}).items()))


MERGE_EQUAL_NODES = OwnTransform("merge_equal_nodes", visit=_merge)
