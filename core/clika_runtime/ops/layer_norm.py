"""The operator ``layer_norm``."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._norms import check_row
from ._promotion import FLOATS
from .record import Meta, op, scalar, tensor


def _infer(input: Meta, weight: Meta | None, bias: Meta | None, eps: Any) -> Meta:
    check_row("layer_norm", input.shape, weight=weight, bias=bias)
    return Meta(input.shape, input.dtype)


def _compose(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    x = ops.cast(input, dtypes.float32)
    x = ops.sub(x, ops.mean(x, -1, True))
    x = ops.mul(x, ops.rsqrt(ops.add(ops.mean(ops.square(x), -1, True), eps)))
    if weight is not None:
        x = ops.mul(x, ops.cast(weight, dtypes.float32))
    if bias is not None:
        x = ops.add(x, ops.cast(bias, dtypes.float32))
    return ops.cast(x, input.dtype)


op(
    "layer_norm",
    doc="""
    (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last dim, var with divisor K.

    input [..., K], weight and bias [K] or None. Computed in float32, rounded once.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("weight", FLOATS, optional=True),
        tensor("bias", FLOATS, optional=True),
        scalar("eps", "float", 1e-5),
    ],
    infer=_infer,
    compose=_compose,
    method=False,
    source="Ba, Kiros and Hinton, Layer Normalization, arXiv:1607.06450",
)
