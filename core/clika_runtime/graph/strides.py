"""Strides of views, which follow from what a view reads. Edits that exchange what it reads leave
them as they were; `restride` derives them anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from .._native._core import Port
from ..errors import InvalidArgumentError
from ..ops.record import VIEW, Meta, View
from .opcode import STRUCTURAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..ops.record import Arg
    from .model_graph import ModelGraph

_NUMBERS = {bool: dtypes.bool, int: dtypes.int64, float: dtypes.float32}


def restride(graph: ModelGraph, nodes: Iterable[int]) -> None:
    """Derives the strides of the views among ``nodes``, and of views of those that changed."""
    work = list(nodes)
    while work:
        node = work.pop()
        if not graph.is_alive(node) or node not in graph._calls or not is_view(graph, node):
            continue
        try:
            inferred = infer(graph, node)
        except InvalidArgumentError:  # no view with these strides; `finalize` refuses it
            continue
        results = inferred if isinstance(inferred, (tuple, list)) else (inferred,)
        for value, result in zip(graph.results(node), results, strict=True):
            tracer = graph._tracer
            before = tuple(tracer.tensor(value).stride())
            steps = result.strides if isinstance(result, View) else compact(result.shape)
            if before != tuple(steps):
                tracer.adopt(value, value, [tracer.encoded(step) for step in steps])
                work.extend(reader for reader, _ in graph.use_list(value))


def is_view(graph: ModelGraph, node: int) -> bool:
    """Whether a node's operator makes views."""
    op = graph.op(node)
    return bool(op) and op not in STRUCTURAL and VIEW in ops.record(op).traits


def compact(shape: Iterable[Any]) -> tuple[Any, ...]:
    """The strides of a shape in row-major order without gaps.

    >>> compact((2, 3, 4))
    (12, 4, 1)
    """
    steps: list[Any] = []
    step: Any = 1
    for size in reversed(tuple(shape)):
        steps.insert(0, step)
        step = size * step
    return tuple(steps)


def infer(graph: ModelGraph, node: int) -> Any:
    """What the record of a node's operator says about its results."""
    record = ops.record(graph.op(node))
    given = zip(record.args, graph._calls[node], strict=True)
    return record.infer(*(_seen(graph, node, arg, value) for arg, value in given))


def meta_of(graph: ModelGraph, value: int) -> Meta:
    """A value as shape rules see it."""
    tensor = graph._tracer.tensor(value)
    scheme = graph.meta(value)[1]
    return Meta(
        tuple(tensor.shape),
        tensor.dtype,
        tensor.device,
        scheme,
        strides=None if scheme else tuple(tensor.stride()),
    )


def _seen(graph: ModelGraph, node: int, arg: Arg, value: Any) -> Any:
    """An argument as the shape rule sees it."""
    if arg.kind == "scalar" or value is None:
        return None
    if arg.kind == "static":
        return (value,) if arg.type == "ints" and isinstance(value, int) else value
    if isinstance(value, Port):
        return meta_of(graph, graph.ports(node)[value])
    if isinstance(value, (list, tuple)):
        return [meta_of(graph, graph.ports(node)[port]) for port in value]
    return Meta((), _NUMBERS[type(value)], weak=True)
