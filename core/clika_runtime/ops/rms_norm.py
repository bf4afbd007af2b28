"""The operator ``rms_norm``."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._norms import check_row
from ._promotion import FLOATS
from .record import Meta, op, scalar, tensor


def _infer(input: Meta, weight: Meta | None, eps: Any, offset: Any) -> Meta:
    check_row("rms_norm", input.shape, weight=weight)
    return Meta(input.shape, input.dtype)


def _compose(input: Any, weight: Any, eps: float, offset: float) -> Any:
    x = ops.cast(input, dtypes.float32)
    x = ops.mul(x, ops.rsqrt(ops.add(ops.mean(ops.square(x), -1, True), eps)))
    if weight is not None:
        x = ops.mul(x, ops.add(ops.cast(weight, dtypes.float32), offset))
    return ops.cast(x, input.dtype)


op(
    "rms_norm",
    doc="""
    x / sqrt(mean(x^2) + eps) * (offset + weight) over the last dim.

    input [..., K], weight [K] or None (no factor). offset 0 uses the weight as it is, offset 1
    stands for checkpoints that store weight - 1. Computed in float32, rounded once.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("weight", FLOATS, optional=True),
        scalar("eps", "float", 1e-6),
        scalar("offset", "float", 0.0),
    ],
    infer=_infer,
    compose=_compose,
    method=False,
    source="Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv:1910.07467",
)
