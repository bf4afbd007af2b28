"""The operator ``add_rms_norm``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._norms import check_rows
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import Meta, op, scalar, static, tensor


def _infer(
    input: Meta,
    residual: Meta,
    input_bias: Meta | None,
    residual_bias: Meta | None,
    normalized_shape: Any,
    offset: Any,
    weight: Meta | None,
    bias: Meta | None,
    eps: Any,
) -> tuple[Meta, Meta]:
    name = "add_rms_norm"
    if input.ndim != residual.ndim or not all(map(same, input.shape, residual.shape)):
        fail(
            name,
            f"residual {text(residual.shape)} must have the shape of input {text(input.shape)}",
        )
    if input.dtype is not residual.dtype:
        fail(
            name,
            f"residual has dtype {residual.dtype.name}, input {input.dtype.name}; convert one with "
            ".to()",
        )
    check_rows(
        name,
        input,
        normalized_shape,
        input_bias=input_bias,
        residual_bias=residual_bias,
        weight=weight,
        bias=bias,
    )
    return Meta(input.shape, input.dtype), Meta(input.shape, input.dtype)


def _compose(
    input: Any,
    residual: Any,
    input_bias: Any,
    residual_bias: Any,
    normalized_shape: Any,
    offset: float | None,
    weight: Any,
    bias: Any,
    eps: float,
) -> tuple[Any, Any]:
    total = ops.add(input, residual)
    for other in (input_bias, residual_bias):
        if other is not None:
            total = ops.add(total, ops.cast(other, input.dtype))
    rows = input.shape[-1] if normalized_shape is None else normalized_shape
    normed = ops.rms_norm(total, rows, weight, eps, offset or 0.0)
    return normed if bias is None else ops.add(normed, ops.cast(bias, input.dtype)), total


op(
    "add_rms_norm",
    doc="""
    s = input + residual (+ input_bias + residual_bias), and rms_norm(s) * (offset + weight) + bias:
    the pair (the norm, s).

    `normalized_shape` are the last dims, by default the last one; weight and the biases have that
    shape. `offset` None is 0. The sum is rounded to the dtype of input before it is normalized.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("residual", FLOATS),
        tensor("input_bias", FLOATS, optional=True),
        tensor("residual_bias", FLOATS, optional=True),
        static("normalized_shape", "ints", None),
        scalar("offset", "float", None),
        tensor("weight", FLOATS, optional=True),
        tensor("bias", FLOATS, optional=True),
        scalar("eps", "float", 1e-6),
    ],
    infer=_infer,
    compose=_compose,
    outputs=2,
    method=False,
)
