"""The operator ``add_rms_norm``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._norms import check_row
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import Meta, op, scalar, tensor


def _infer(
    input: Meta, residual: Meta, weight: Meta | None, eps: Any, offset: Any
) -> tuple[Meta, Meta]:
    if input.ndim != residual.ndim or not all(map(same, input.shape, residual.shape)):
        fail(
            "add_rms_norm",
            f"residual {text(residual.shape)} must have the shape of input {text(input.shape)}",
        )
    if input.dtype is not residual.dtype:
        fail(
            "add_rms_norm",
            f"residual has dtype {residual.dtype.name}, input {input.dtype.name}; convert one with "
            ".to()",
        )
    check_row("add_rms_norm", input.shape, weight=weight)
    return Meta(input.shape, input.dtype), Meta(input.shape, input.dtype)


def _compose(input: Any, residual: Any, weight: Any, eps: float, offset: float) -> tuple[Any, Any]:
    total = ops.add(input, residual)
    return total, ops.rms_norm(total, weight, eps, offset)


op(
    "add_rms_norm",
    doc="""
    s = input + residual, and rms_norm(s, weight, eps, offset): the pair (s, its norm).

    The sum is rounded to the dtype of input before it is normalized.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("residual", FLOATS),
        tensor("weight", FLOATS, optional=True),
        scalar("eps", "float", 1e-6),
        scalar("offset", "float", 0.0),
    ],
    infer=_infer,
    compose=_compose,
    outputs=2,
    method=False,
)
