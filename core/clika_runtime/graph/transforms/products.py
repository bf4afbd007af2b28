"""Products of one input with several packed weights as one node, with the same result to the bit:
the input is read and quantized once, and the threads share the rows of all weights at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import dtypes
from ..._native._core import Port
from ..optimize import OwnTransform

if TYPE_CHECKING:
    from ..rewriting import Rewriter

_MOST = 8  # weights that one node takes


def _product(rewriter: Rewriter, node: int) -> tuple[int, int, int, str] | None:
    """(input, weight, bias or -1, mode) of a linear over a packed weight that stands for itself."""
    graph = rewriter.graph
    if rewriter.op(node) != "linear" or rewriter.record(node) is None:
        return None
    given = rewriter.arguments(node)
    x, weight = rewriter.read(node, given["input"]), rewriter.read(node, given["weight"])
    bias = -1 if given["bias"] is None else rewriter.read(node, given["bias"])
    if weight < 0 or not graph.meta(weight)[1] or not rewriter.is_plain(node):
        return None
    (result,) = graph.results(node)
    parts = (weight, *((bias,) if given["bias"] is not None else ()))
    if any(value < 0 or rewriter.producer(value) >= 0 for value in parts):
        return None
    if any(rewriter.is_written(value) for value in (x, result, *parts)):
        return None
    return x, weight, bias, given["mode"]


def _gated(rewriter: Rewriter, node: int) -> None:
    """Swiglu or Geglu of two Linears of one input, which only it reads, is GatedLinear. In float32
    only: in shorter dtypes the one operator leaves out the rounding of the products."""
    graph = rewriter.graph
    given = rewriter.arguments(node)
    (result,) = graph.results(node)
    if graph._spec(result).dtype is not dtypes.float32 or not rewriter.is_plain(node):
        return
    found = []
    for half in ("gate", "up"):
        value = rewriter.read(node, given[half])
        product = _product(rewriter, rewriter.producer(value))
        if product is None or rewriter.only_use(value) != node:
            return
        found.append(product)
    (x, gate, gate_bias, mode), (other, up, up_bias, other_mode) = found
    if x != other or mode != other_mode:
        return
    activation = "swiglu"
    if rewriter.op(node) == "geglu":
        activation = "geglu_tanh" if given["approximate"] == "tanh" else "geglu"
    ports = [x, gate, up]
    call: list[Any] = [Port(0), Port(1), Port(2), None, None, activation, mode]
    for at, bias in ((3, gate_bias), (4, up_bias)):
        if bias >= 0:
            call[at] = Port(len(ports))
            ports.append(bias)
    rewriter.remake(node, "gated_linear", call, ports)


def _joined(rewriter: Rewriter, node: int) -> None:
    """Linears of one input over packed weights, all or none of them with a bias, are Linears."""
    graph = rewriter.graph
    first = _product(rewriter, node)
    if first is None:
        return
    x, _, bias, mode = first
    nodes, products = [], []
    for reader in sorted({reader for reader, _ in graph.use_list(x)}):
        found = _product(rewriter, reader)
        if found is None or found[0] != x or found[3] != mode or (found[2] >= 0) != (bias >= 0):
            continue
        nodes.append(reader)
        products.append(found)
    nodes, products = nodes[:_MOST], products[:_MOST]
    if len(nodes) < 2:
        return
    weights = [found[1] for found in products]
    biases = [found[2] for found in products if found[2] >= 0]
    olds = [graph.results(item)[0] for item in nodes]
    values = []
    for old in olds:
        value = graph.add_value(*graph.meta(old)[:4])
        graph._tracer.adopt(value, old, graph._tracer.steps(old))
        values.append(value)
    name = graph.node_name(nodes[0])
    made = graph.make_node("linears", graph.free_name(name), [x, *weights, *biases], values)
    count = len(weights)
    graph._calls[made] = [
        Port(0),
        [Port(1 + at) for at in range(count)],
        [Port(1 + count + at) for at in range(count)] if biases else None,
        mode,
    ]
    for item, old, value in zip(nodes, olds, values, strict=True):
        rewriter.move_uses(old, value)
        rewriter.sweep(item)
    graph.name_node(made, name)


FOLD_GATED_LINEAR = OwnTransform(
    "fold_gated_linear", visit=_gated, ops=frozenset({"swiglu", "geglu"})
)
JOIN_LINEARS = OwnTransform("join_linears", visit=_joined, ops=frozenset({"linear"}))
