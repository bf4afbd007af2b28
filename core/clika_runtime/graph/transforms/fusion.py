"""Several operators as one node, with the same result to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import dtypes
from ..._native._core import Port
from ..activations import ACTIVATIONS, CARRIERS, IDENTITY, activation_of
from ..optimize import OwnTransform

if TYPE_CHECKING:
    from ..rewriting import Rewriter

_PRODUCTS = CARRIERS - {"add", "sub", "mul", "div"}
_EXACT = (dtypes.float32, dtypes.float64)
_RMS_NORM_EPS = 2.0**-23  # what `rms_norm` takes for None


def _bias(rewriter: Rewriter, node: int) -> None:
    """Add(MatMul(x, w), b), and so for Linear and convolutions: b becomes the node's own bias,
    added to its result before its activation. b has one element per column, or one."""
    graph = rewriter.graph
    given = rewriter.arguments(node)
    if given["alpha"] != 1 or not set(graph._extras.get(node, {})) <= {"activation"}:
        return
    (total,) = graph.results(node)
    for product, bias in (("input", "other"), ("other", "input")):
        value = rewriter.read(node, given[product])
        bias_value = rewriter.read(node, given[bias])
        maker = rewriter.producer(value)
        if bias_value < 0 or rewriter.op(maker) not in _PRODUCTS or not rewriter.is_plain(maker):
            continue
        if rewriter.only_use(value) != node or not rewriter.same_kind(value, total):
            continue
        if rewriter.is_written(bias_value) or not _fits(graph, bias_value, total):
            continue
        if rewriter.record(maker) is None or rewriter.arguments(maker).get("bias") is not None:
            continue
        ports = [*graph.ports(maker), bias_value]
        extras = dict(graph._extras.get(node, {}))
        call = list(graph._calls[maker])
        if rewriter.op(maker) == "linear" and _is_row(graph, bias_value, total):
            call[2] = Port(2)  # its kernel adds the bias last, in the same dtype
        else:
            extras["bias"] = Port(len(ports) - 1)
        rewriter.remake(maker, graph.op(maker), call, ports, extras=extras, result_of=node)
        return


def _fits(graph: Any, bias: int, total: int) -> bool:
    """Whether a value has the dtype and device of a result, and one element or one per column."""
    dtype, scheme, device, shape, _, _ = graph.meta(bias)
    wanted = graph.meta(total)
    if (dtype, scheme, device) != (wanted[0], 0, wanted[2]) or len(shape) > 1:
        return False
    return not shape or bool(wanted[3]) and shape[0] in (1, wanted[3][-1])


def _is_row(graph: Any, bias: int, total: int) -> bool:
    """Whether a bias is what Linear takes, with the result to the bit."""
    if graph._spec(total).dtype not in _EXACT:
        return False
    return bool(graph.meta(bias)[3] == graph.meta(total)[3][-1:])


def _activation(rewriter: Rewriter, node: int) -> None:
    """An activation of what only it reads becomes the ``activation`` of the node that makes it."""
    graph = rewriter.graph
    given = rewriter.arguments(node)
    settings = {name: value for name, value in given.items() if name != "input"}
    name = activation_of(rewriter.op(node), settings)
    if name is None or not rewriter.is_plain(node) or not isinstance(given["input"], Port):
        return
    value = rewriter.read(node, given["input"])
    (result,) = graph.results(node)
    maker = rewriter.producer(value)
    if rewriter.op(maker) not in CARRIERS or rewriter.record(maker) is None:
        return
    extras = dict(graph._extras.get(maker, {}))
    if extras.get("activation", IDENTITY) != IDENTITY or rewriter.only_use(value) != node:
        return
    if rewriter.is_written(value) or not rewriter.same_kind(value, result):
        return
    extras["activation"] = name
    ports = graph.ports(maker)
    rewriter.remake(
        maker, graph.op(maker), graph._calls[maker], ports, extras=extras, result_of=node
    )


def _swiglu(rewriter: Rewriter, node: int) -> None:
    """Mul(Silu(gate), up) of one shape is SwiGlu(gate, up). In float32 and float64 only: in the
    16-bit dtypes the one operator rounds once where the two round twice."""
    graph = rewriter.graph
    given = rewriter.arguments(node)
    (result,) = graph.results(node)
    if graph._spec(result).dtype not in _EXACT or not rewriter.is_plain(node):
        return
    for gated, other in (("input", "other"), ("other", "input")):
        value = rewriter.read(node, given[gated])
        up = rewriter.read(node, given[other])
        maker = rewriter.producer(value)
        if up < 0 or rewriter.op(maker) != "silu" or not rewriter.is_plain(maker):
            continue
        if rewriter.only_use(value) != node or not rewriter.same_kind(value, result):
            continue
        (gate,) = graph.ports(maker)
        if not rewriter.same_kind(up, result) or rewriter.is_written(value):
            continue
        if not rewriter.is_written(gate) and not rewriter.is_written(up):
            rewriter.remake(node, "swiglu", [Port(0), Port(1)], [gate, up])
            return


def _add_rms_norm(rewriter: Rewriter, node: int) -> None:
    """RmsNorm(Add(a, b)) is the norm of AddRmsNorm(a, b); what else reads the sum reads its second
    result."""
    graph = rewriter.graph
    given = rewriter.arguments(node)
    total = rewriter.read(node, given["input"])
    maker = rewriter.producer(total)
    if rewriter.op(maker) != "add" or not rewriter.is_plain(maker) or not rewriter.is_plain(node):
        return
    terms = rewriter.arguments(maker)
    a, b = rewriter.read(maker, terms["input"]), rewriter.read(maker, terms["other"])
    if terms["alpha"] != 1 or a < 0 or b < 0:
        return
    if not rewriter.same_kind(a, total) or not rewriter.same_kind(b, total):
        return
    if any(rewriter.is_written(value) for value in (a, b, total, *graph.results(node))):
        return
    weight = rewriter.read(node, given["weight"])
    # The sum comes out together with the norm: nothing that the norm waits for may wait for it.
    if weight >= 0 and rewriter.producer(weight) >= 0 and graph.op(rewriter.producer(weight)):
        return
    if weight >= 0 and rewriter.is_written(weight):
        return
    rank = len(given["normalized_shape"]) if isinstance(given["normalized_shape"], tuple) else 1
    if rank != 1:
        return
    eps = _RMS_NORM_EPS if given["eps"] is None else given["eps"]
    _join(rewriter, node, maker, [a, b], weight, [given["normalized_shape"], given["offset"], eps])


def _join(
    rewriter: Rewriter, node: int, maker: int, terms: list[int], weight: int, settings: list[Any]
) -> None:
    graph = rewriter.graph
    shape, offset, eps = settings
    values = [graph.add_value(*graph.meta(terms[0])[:4]) for _ in range(2)]
    name = graph.node_name(node)
    made = graph.make_node(
        "add_rms_norm", graph.free_name(name), [*terms, *([weight] if weight >= 0 else [])], values
    )
    graph._calls[made] = [
        Port(0),
        Port(1),
        None,
        None,
        shape,
        offset,
        Port(2) if weight >= 0 else None,
        None,
        eps,
    ]
    rewriter.move_uses(graph.results(node)[0], values[0])
    rewriter.sweep(node)
    if graph.is_alive(maker):
        rewriter.move_uses(graph.results(maker)[0], values[1])
        rewriter.sweep(maker)
    graph.name_node(made, name)


FOLD_BIAS = OwnTransform("fold_bias", visit=_bias, ops=frozenset({"add"}))
FOLD_ACTIVATION = OwnTransform(
    "fold_activation", visit=_activation, ops=frozenset(op for op, _ in ACTIVATIONS.values())
)
FOLD_SILU_MUL = OwnTransform("fold_silu_mul", visit=_swiglu, ops=frozenset({"mul"}))
FOLD_ADD_RMS_NORM = OwnTransform(
    "fold_add_rms_norm", visit=_add_rms_norm, ops=frozenset({"rms_norm"})
)
