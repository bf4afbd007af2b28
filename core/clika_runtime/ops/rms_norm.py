"""The operator ``rms_norm``."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._norms import check_rows, over_rows
from ._promotion import FLOATS
from .record import Meta, op, scalar, static, tensor

EPS = 2.0**-23  # of float32


def _infer(input: Meta, normalized_shape: Any, weight: Meta | None, eps: Any, offset: Any) -> Meta:
    check_rows("rms_norm", input, normalized_shape, weight=weight)
    return Meta(input.shape, input.dtype)


def _compose(input: Any, normalized_shape: Any, weight: Any, eps: Any, offset: float) -> Any:
    x = ops.cast(input, dtypes.float32)
    mean = ops.mean(ops.square(x), over_rows(normalized_shape), True)
    x = ops.mul(x, ops.rsqrt(ops.add(mean, EPS if eps is None else eps)))
    if weight is not None:
        x = ops.mul(x, ops.add(ops.cast(weight, dtypes.float32), offset))
    return ops.cast(x, input.dtype)


op(
    "rms_norm",
    doc="""
    x / sqrt(mean(x^2) + eps) * (offset + weight) over the last dims, which are `normalized_shape`.

    weight has the shape `normalized_shape`, or None (no factor). `eps` None is 2^-23. offset 0 uses
    the weight as it is, offset 1 stands for checkpoints that store weight - 1. Computed in float32,
    rounded once.
    """,
    args=[
        tensor("input", FLOATS),
        static("normalized_shape", "ints"),
        tensor("weight", FLOATS, optional=True),
        scalar("eps", "float", None),
        scalar("offset", "float", 0.0),
    ],
    infer=_infer,
    compose=_compose,
    method=False,
    source="Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv:1910.07467",
)
