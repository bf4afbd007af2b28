"""The operators ``linears`` and ``gated_linear``: several products of one input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .linear import _infer as _infer_linear
from .record import Meta, op, static, tensor

MODES = ("exact", "fast")


def _infer(
    input: Meta, weights: list[Meta], biases: list[Meta] | None, mode: str
) -> tuple[Meta, ...]:
    if not weights:
        fail("linears", "expected at least one weight, got an empty list")
    if biases is not None and len(biases) != len(weights):
        fail("linears", f"{len(biases)} biases for {len(weights)} weights; give one each, or None")
    given: Sequence[Meta | None] = biases or [None] * len(weights)
    return tuple(
        _infer_linear(input, weight, bias, mode)
        for weight, bias in zip(weights, given, strict=True)
    )


def _compose(input: Any, weights: Any, biases: Any, mode: Any) -> tuple[Any, ...]:
    given = biases or [None] * len(weights)
    return tuple(
        ops.linear(input, weight, bias, mode) for weight, bias in zip(weights, given, strict=True)
    )


op(
    "linears",
    doc="""
    linear(input, weights[i], biases[i], mode) for every i: the products of one input with several
    weights.

    The same to the bit as one `linear` after the other; a backend reads and quantizes the input
    once, and shares all rows of all weights among its threads at once.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("weights", FLOATS, sequence=True, packed=True),
        tensor("biases", FLOATS, sequence=True, optional=True),
        static("mode", "str", "exact", modes=MODES),
    ],
    infer=_infer,
    compose=_compose,
    outputs=0,
    method=False,
)


def _infer_gated(
    input: Meta,
    gate: Meta,
    up: Meta,
    gate_bias: Meta | None,
    up_bias: Meta | None,
    activation: str,
    mode: str,
) -> Meta:
    first = _infer_linear(input, gate, gate_bias, mode)
    second = _infer_linear(input, up, up_bias, mode)
    if not same(first.shape[-1], second.shape[-1]):
        fail(
            "gated_linear",
            f"gate {text(gate.shape)} and up {text(up.shape)} must have the same rows",
        )
    return first


def _compose_gated(
    input: Any, gate: Any, up: Any, gate_bias: Any, up_bias: Any, activation: str, mode: Any
) -> Any:
    a = ops.linear(input, gate, gate_bias, mode)
    b = ops.linear(input, up, up_bias, mode)
    if activation == "swiglu":
        return ops.swiglu(a, b)
    return ops.geglu(a, b, "tanh" if activation == "geglu_tanh" else "none")


op(
    "gated_linear",
    doc="""
    f(linear(input, gate, gate_bias)) * linear(input, up, up_bias), with f silu for `swiglu` and
    gelu (in its tanh form for `geglu_tanh`) for `geglu`.

    In float32 the same to the bit as the operators it is made of; in shorter dtypes a backend may
    leave out the rounding of the two products.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("gate", FLOATS, packed=True),
        tensor("up", FLOATS, packed=True),
        tensor("gate_bias", FLOATS, optional=True),
        tensor("up_bias", FLOATS, optional=True),
        static("activation", "str", "swiglu", modes=("swiglu", "geglu", "geglu_tanh")),
        static("mode", "str", "exact", modes=MODES),
    ],
    infer=_infer_gated,
    compose=_compose_gated,
    method=False,
    source="Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202",
)
