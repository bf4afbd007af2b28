"""Permutations and reshapes: joined, taken into a product, left out at the border."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._native._core import Port
from ...ops.record import ELEMENTWISE, RANDOM
from ..optimize import DefaultsOptions, OwnTransform
from ..strides import restride
from .identities import PERMUTATIONS, permutation

if TYPE_CHECKING:
    from ..rewriting import Rewriter

_RESHAPES = frozenset({"reshape", "view"})
# They keep the elements in their order: a reshape of them is a reshape of their input.
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


def _sink(rewriter: Rewriter, node: int) -> None:
    """An elementwise operator over channels-first views of channels-last values runs on these, and
    its result is viewed channels-first: so conversions between spatial operators meet and go."""
    graph = rewriter.graph
    if not rewriter.has(node, ELEMENTWISE) or rewriter.has(node, RANDOM):
        return
    result, *more = graph.results(node)
    dtype, scheme, device, shape, _, _ = graph.meta(result)
    order = _to_first(len(shape))
    if more or len(shape) < 3 or "bias" in graph._extras.get(node, {}):
        return
    ports = []
    for value in graph.ports(node):
        maker = rewriter.producer(value)
        if value < 0 or rewriter.is_written(value):
            return
        if graph.meta(value)[3] == ():
            ports.append(value)
        elif graph.meta(value)[3] == shape and permutation(rewriter, maker) == order:
            ports.append(graph.ports(maker)[0])
        else:
            return
    if tuple(ports) == graph.ports(node) or rewriter.is_written(result):
        return
    if rewriter.is_output(result) and not rewriter.options.channels_last_outputs:
        return
    if not _free_of_strides(rewriter, result):
        return
    sizes = [0] * len(shape)
    for dim, source in enumerate(order):
        sizes[source] = shape[dim]
    value = graph.add_value(dtype, scheme, device, sizes)
    name = graph.node_name(node)
    made = graph.make_node(graph.op(node), graph.free_name(name), ports, [value])
    graph._calls[made] = list(graph._calls[node])
    if node in graph._extras:
        graph._extras[made] = dict(graph._extras[node])
    turned = graph.add_value(dtype, scheme, device, shape, value)
    view = graph.make_node("permute", graph.free_name(f"{name}_permuted"), [value], [turned])
    graph._calls[view] = [Port(0), order]
    rewriter.move_uses(result, turned)
    rewriter.sweep(node)
    graph.name_node(made, name)
    restride(graph, [view, *(reader for reader, _ in graph.use_list(turned))])


def _free_of_strides(rewriter: Rewriter, value: int) -> bool:
    """Whether a value and its permutations may have other strides: no reader of theirs minds."""
    graph = rewriter.graph
    for reader, _ in graph.use_list(value):
        if permutation(rewriter, reader) is not None:
            (result,) = graph.results(reader)
            if rewriter.is_output(result) or not _free_of_strides(rewriter, result):
                return False
        elif not rewriter.ignores_strides(reader):
            return False
    return True


def _boundary(rewriter: Rewriter) -> None:
    """An input that is read through a conversion to channels-last only is taken channels-last, and
    an output that leaves through one to channels-first is given channels-last, where chosen."""
    if rewriter.options.channels_last_inputs:
        for node in rewriter.graph.input_ids():
            _drop_at_input(rewriter, node)
    if rewriter.options.channels_last_outputs:
        for name, value in rewriter.graph.output_list():
            _drop_at_output(rewriter, name, value)


def _drop_at_input(rewriter: Rewriter, node: int) -> None:
    graph = rewriter.graph
    (value,) = graph.results(node)
    shape = graph.meta(value)[3]
    readers = sorted({reader for reader, _ in graph.use_list(value)})
    if len(shape) < 3 or not readers or node in rewriter.converted:
        return
    if rewriter.is_output(value) or rewriter.is_written(value):
        return
    order = _to_last(len(shape))
    for reader in readers:
        if permutation(rewriter, reader) != order:
            return
        (turned,) = graph.results(reader)
        if rewriter.is_output(turned) or not _free_of_strides(rewriter, turned):
            return
    rewriter.converted.add(node)
    graph.reshape_value(value, [shape[dim] for dim in order])
    for reader in readers:
        rewriter.redirect(graph.results(reader)[0], value)
    restride(graph, [reader for reader, _ in graph.use_list(value)])


def _drop_at_output(rewriter: Rewriter, name: str, value: int) -> None:
    graph = rewriter.graph
    maker = rewriter.producer(value)
    rank = len(graph.meta(value)[3])
    if rank < 3 or name in rewriter.converted or rewriter.is_written(value):
        return
    if maker < 0 or permutation(rewriter, maker) != _to_first(rank):
        return
    rewriter.converted.add(name)
    (new,) = graph.ports(maker)
    graph.set_output_list(
        (label, new if label == name else item) for label, item in graph.output_list()
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
SINK_CHANNELS_FIRST = OwnTransform("sink_channels_first", visit=_sink)
REMOVE_DOUBLE_PERMUTE = OwnTransform(
    "remove_double_permute", visit=_double_permute, ops=PERMUTATIONS
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
