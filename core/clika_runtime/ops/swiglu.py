"""The operator ``swiglu``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import ELEMENTWISE, Meta, op, tensor


def _infer(gate: Meta, up: Meta) -> Meta:
    if gate.ndim != up.ndim or not all(map(same, gate.shape, up.shape)):
        fail("swiglu", f"gate {text(gate.shape)} and up {text(up.shape)} must have one shape")
    if gate.dtype is not up.dtype:
        fail(
            "swiglu",
            f"gate has dtype {gate.dtype.name}, up {up.dtype.name}; convert one with .to()",
        )
    return Meta(gate.shape, gate.dtype)


def _compose(gate: Any, up: Any) -> Any:
    return ops.mul(ops.silu(gate), up)


op(
    "swiglu",
    doc="""
    silu(gate) * up, element by element.

    A fused kernel computes in float32 and rounds once.
    """,
    args=[tensor("gate", FLOATS), tensor("up", FLOATS)],
    infer=_infer,
    compose=_compose,
    traits={ELEMENTWISE},
    method=False,
    source="Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202",
)
