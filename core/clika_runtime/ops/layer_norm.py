"""The operator ``layer_norm``."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._norms import check_rows, over_rows
from ._promotion import FLOATS
from .record import Meta, op, scalar, static, tensor


def _infer(
    input: Meta, normalized_shape: Any, weight: Meta | None, bias: Meta | None, eps: Any
) -> Meta:
    check_rows("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    return Meta(input.shape, input.dtype)


def _compose(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    over = over_rows(normalized_shape)
    x = ops.cast(input, dtypes.float32)
    x = ops.sub(x, ops.mean(x, over, True))
    x = ops.mul(x, ops.rsqrt(ops.add(ops.mean(ops.square(x), over, True), eps)))
    if weight is not None:
        x = ops.mul(x, ops.cast(weight, dtypes.float32))
    if bias is not None:
        x = ops.add(x, ops.cast(bias, dtypes.float32))
    return ops.cast(x, input.dtype)


op(
    "layer_norm",
    doc="""
    (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last dims, which are
    `normalized_shape`; var with their number of elements as divisor.

    weight and bias have the shape `normalized_shape`, or are None. Computed in float32, rounded
    once.
    """,
    args=[
        tensor("input", FLOATS),
        static("normalized_shape", "ints"),
        tensor("weight", FLOATS, optional=True),
        tensor("bias", FLOATS, optional=True),
        scalar("eps", "float", 1e-5),
    ],
    infer=_infer,
    compose=_compose,
    method=False,
    source="Ba, Kiros and Hinton, Layer Normalization, arXiv:1607.06450",
)
