"""Fixing a graph to its shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._native._core import SymInt
from ...errors import UnsupportedError
from ..optimize import DefaultsOptions, OwnTransform

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..rewriting import Rewriter


def _fixate(rewriter: Rewriter) -> None:
    """Every dynamic size becomes the one it was traced or read with: in the inputs, in every shape
    that is computed from them, in the arguments of reshapes and slices."""
    graph = rewriter.graph
    tracer = graph._tracer
    dynamic = any(
        size < 0
        for node in graph.input_ids()
        for value in graph.results(node)
        for size in graph.meta(value)[3]
    )
    names = tracer.symbols()
    if not dynamic or not all(name in graph._pinned for name in names):
        return
    values = tracer.values_at([graph._pinned[name] for name in names])

    def size_of(size: int) -> int:
        return size if size >= 0 else int(values[-size - 1])

    for node in graph.node_ids():
        _fix(rewriter, node, size_of)


def _fix(rewriter: Rewriter, node: int, size_of: Callable[[int], int]) -> None:
    graph = rewriter.graph
    if node in graph._bodies:
        raise UnsupportedError(
            f"fixate_dyn_shape_queues: '{graph.node_name(node)}' has subgraphs, whose sizes cannot "
            "be fixed"
        )
    results = graph.results(node)
    metas = []
    for value in results:
        dtype, scheme, device, shape, _, _ = graph.meta(value)
        metas.append((dtype, scheme, device, tuple(size_of(size) for size in shape)))
    steps = [graph._tracer.steps(value) for value in results]
    symbolic = any(step < 0 for found in steps for step in found or ())
    call = graph._calls.get(node, [])
    if _has_symbols(call) or symbolic:
        if any(rewriter.is_written(value) for value in results):
            raise UnsupportedError(
                f"fixate_dyn_shape_queues: '{graph.node_name(node)}' has a dynamic size, and its "
                "bytes are written"
            )
        rewriter.remake(
            node,
            graph.op(node),
            [_fixed(item, graph._tracer, size_of) for item in call],
            graph.ports(node),
            extras=graph._extras.get(node),
            metas=metas,
            steps=[None if found is None else [size_of(step) for step in found] for found in steps],
        )
        return
    for value, meta in zip(results, metas, strict=True):
        if graph.meta(value)[3] != meta[3]:
            graph.reshape_value(value, meta[3])


def _has_symbols(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_symbols(item) for item in value)
    return isinstance(value, SymInt)


def _fixed(value: Any, tracer: Any, size_of: Callable[[int], int]) -> Any:
    if isinstance(value, SymInt):
        return size_of(tracer.encoded(value))
    if isinstance(value, (list, tuple)):
        return type(value)(_fixed(item, tracer, size_of) for item in value)
    return value


def _needs_fixing(options: DefaultsOptions, from_file: bool) -> str:
    if options.specialize if from_file else options.shape_fixation:
        return ""
    choice = "specialize" if from_file else "shape_fixation"
    return f"fixes the graph to its shapes; set DefaultsOptions::{choice} to run it"


FIXATE_DYN_SHAPE_QUEUES = OwnTransform("fixate_dyn_shape_queues", whole=_fixate, gate=_needs_fixing)
