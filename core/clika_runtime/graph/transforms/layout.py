"""Permutations and reshapes: joined, taken into a product, left out at the border."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._native._core import Port
from ...ops.record import VIEW
from ..optimize import DefaultsOptions, OwnTransform
from .identities import permutation

if TYPE_CHECKING:
    from ..rewriting import Rewriter

_PERMUTATIONS = frozenset({"permute", "transpose", "t", "adjoint"})
_RESHAPES = frozenset({"reshape", "view"})
# They keep the elements in their order, so that a reshape of them is a reshape of their input.
_KEEPING_ORDER = frozenset("reshape view flatten unflatten squeeze unsqueeze".split())


def _double_permute(rewriter: Rewriter, node: int) -> None:
    """A permutation of a permutation is one permutation, or none."""
    graph = rewriter.graph
    (middle,) = graph.ports(node)
    inner = rewriter.producer(middle)
    outer_order = permutation(rewriter, node)
    inner_order = permutation(rewriter, inner) if inner >= 0 else None
    if outer_order is None or inner_order is None or rewriter.is_written(middle):
        return
    order = tuple(inner_order[dim] for dim in outer_order)
    (new,) = graph.ports(inner)
    (old,) = graph.results(node)
    if order != tuple(range(len(order))):
        rewriter.remake(node, "permute", [Port(0), order], [new])
    elif rewriter.may_stand_for(new, old):
        rewriter.redirect(old, new)


def _absorb_transpose(rewriter: Rewriter, node: int) -> None:
    """MatMul(x, w^T) of a 2-D w is Linear(x, w), which reads the rows of w as they lie."""
    graph = rewriter.graph
    given = rewriter.arguments(node)
    x = rewriter.read(node, given["input"])
    turned = rewriter.read(node, given["other"])
    maker = rewriter.producer(turned)
    if maker < 0 or permutation(rewriter, maker) != (1, 0):
        return
    (weight,) = graph.ports(maker)
    if rewriter.is_written(weight) or len(graph.meta(x)[3]) < 2:
        return
    extras = dict(graph._extras.get(node, {}))
    ports = [x, weight, *graph.ports(node)[2:]]
    if "bias" in extras:
        extras["bias"] = Port(2)
    rewriter.remake(node, "linear", [Port(0), Port(1), None, "exact"], ports, extras=extras)


def _collapse(rewriter: Rewriter, node: int) -> None:
    """A reshape of what a reshape, Flatten, Squeeze and the like gives is a reshape of its input,
    where that is compact."""
    graph = rewriter.graph
    while True:
        middle = graph.ports(node)[0]
        inner = rewriter.producer(middle)
        if rewriter.op(inner) not in _KEEPING_ORDER or rewriter.record(inner) is None:
            return
        new = graph.ports(inner)[0]
        if not rewriter.is_compact(new) or rewriter.is_written(new):
            return
        graph.set_port(node, 0, new)
        rewriter.sweep(inner)


def _to_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def _to_first(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


def _boundary(rewriter: Rewriter) -> None:
    """An input that is read through a conversion to channels-last only is taken channels-last, and
    an output that leaves through one to channels-first is given channels-last, where chosen."""
    if rewriter.options.channels_last_inputs:
        for node in rewriter.graph.input_ids():
            _drop_at_input(rewriter, node)
    if rewriter.options.channels_last_outputs:
        for _, value in rewriter.graph.output_list():
            _drop_at_output(rewriter, value)


def _drop_at_input(rewriter: Rewriter, node: int) -> None:
    graph = rewriter.graph
    (value,) = graph.results(node)
    shape = graph.meta(value)[3]
    readers = sorted({reader for reader, _ in graph.use_list(value)})
    if len(shape) < 3 or not readers or rewriter.is_output(value) or rewriter.is_written(value):
        return
    order = _to_last(len(shape))
    for reader in readers:
        if permutation(rewriter, reader) != order:
            return
        (turned,) = graph.results(reader)
        # A view of the permuted input was made for its strides.
        users = {user for user, _ in graph.use_list(turned)}
        if rewriter.is_output(turned) or any(rewriter.has(user, VIEW) for user in users):
            return
    graph.reshape_value(value, [shape[dim] for dim in order])
    for reader in readers:
        rewriter.redirect(graph.results(reader)[0], value)


def _drop_at_output(rewriter: Rewriter, value: int) -> None:
    graph = rewriter.graph
    maker = rewriter.producer(value)
    if maker < 0 or permutation(rewriter, maker) != _to_first(len(graph.meta(value)[3])):
        return
    (new,) = graph.ports(maker)
    if len(graph.meta(value)[3]) < 3 or rewriter.is_written(value):
        return
    graph.set_output_list(
        (name, new if item == value else item) for name, item in graph.output_list()
    )
    rewriter.sweep(maker)


def _needs_channels_last(options: DefaultsOptions, from_file: bool) -> str:
    if options.channels_last_inputs or options.channels_last_outputs:
        return ""
    return (
        "changes the layout of the graph's inputs and outputs; set "
        "DefaultsOptions::channels_last_inputs or channels_last_outputs to run it"
    )


COLLAPSE_RESHAPES = OwnTransform("collapse_reshapes", visit=_collapse, ops=_RESHAPES)
REMOVE_DOUBLE_PERMUTE = OwnTransform(
    "remove_double_permute", visit=_double_permute, ops=_PERMUTATIONS
)
MATMUL_ABSORB_TRANSPOSE = OwnTransform(
    "matmul_absorb_transpose",
    visit=_absorb_transpose,
    ops=frozenset({"matmul"}),
    runs_after=[REMOVE_DOUBLE_PERMUTE],
)
DROP_BOUNDARY_PERMUTES = OwnTransform(
    "drop_boundary_permutes", whole=_boundary, gate=_needs_channels_last
)
