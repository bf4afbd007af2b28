"""What tests of graphs that change share: tracing, a serialised form, and a comparison of runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import clika_runtime as crt
from clika_runtime.graph import ModelGraph, NodeKind
from clika_runtime.graph.legal import check_legal

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, 3e38]


def trace(fn: Any, *inputs: Any, **options: Any) -> ModelGraph:
    """The graph of a function of tensors, not changed yet."""
    return crt.trace(fn, example_inputs=tuple(inputs), **options).graph


def draw(seed: int, *shape: int, dtype: Any = crt.float32, special: bool = False) -> Any:
    """A tensor of normal numbers, the special ones among them where asked."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if special:
        flat = values.reshape(-1)
        flat[: len(SPECIAL)] = SPECIAL[: flat.size]
    return crt.tensor(values.astype(np.float32)).to(dtype)


def bits(tensor: Any, signed_zero: bool = True) -> bytes:
    """Dtype, shape and bytes; all NaNs are one, and unless ``signed_zero`` both zeros are."""
    values = tensor.to(crt.float32) if tensor.dtype is crt.bfloat16 else tensor
    array = np.ascontiguousarray(values.numpy())
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
        array = array if signed_zero else array + 0.0
    return f"{tensor.dtype} {tuple(tensor.shape)} ".encode() + array.tobytes()


def results(graph: ModelGraph, inputs: Any, signed_zero: bool = True) -> list[bytes]:
    """What a graph computes; it is finalized."""
    graph.finalize()
    return [bits(tensor, signed_zero) for tensor in graph.run([*inputs])]


def form(graph: ModelGraph) -> list[Any]:
    """All of a graph as plain data: equal forms, equal graphs."""
    nodes = [
        (
            graph.node_name(node),
            graph.op(node),
            [graph.value_name(value) if value >= 0 else None for value in graph.ports(node)],
            [(graph.value_name(value), graph.meta(value)) for value in graph.results(node)],
            repr(graph._calls.get(node)),
            repr(graph._extras.get(node)),
        )
        for node in graph.node_ids()
    ]
    uses = [
        (graph.value_name(value), graph.use_list(value)) for value in sorted(graph.alive_values())
    ]
    constants = [value.name for value in graph.constants()]
    outputs = [(name, graph.value_name(value)) for name, value in graph.output_list()]
    return [nodes, uses, constants, outputs, graph.input_names(), graph._operators]


def codes(graph: ModelGraph) -> list[str]:
    """Inputs by name and operators by code, in order."""
    return [
        node.name if node.kind is NodeKind.Input else node.op_code.name for node in graph.nodes()
    ]


def applied(report: Any) -> dict[str, int]:
    """The transforms that changed the graph."""
    assert not any(row.failed for row in report.transforms), report
    return {row.transform.name: row.applications for row in report.transforms if row.applications}


def optimized(fn: Any, *inputs: Any, only: Any = None, **options: Any) -> tuple[Any, dict]:
    """A graph after `optimize`, legal and settled, with the results of the one before to the bit;
    and what changed it. ``only``: the names of the transforms to run."""
    from clika_runtime.graph import transforms

    before, graph = trace(fn, *inputs, **options), trace(fn, *inputs, **options)
    check_legal(before)
    listed = None if only is None else [getattr(transforms, name)() for name in only]
    report = graph.optimize(listed)
    check_legal(graph)
    assert report.converged
    twice = form(graph)
    assert not graph.optimize(listed).changed
    assert form(graph) == twice
    kept = codes(graph)
    signed_zero = "clamp_to_relu" not in applied(report)  # it says so itself
    wanted = results(before, inputs, signed_zero)
    assert results(graph, inputs, signed_zero) == wanted
    assert codes(graph) == kept
    return graph, applied(report)
