"""The operator ``embedding``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import ALL, DEFAULT_FLOAT, INDEX
from ._shapes import fail, text
from .record import Meta, op, static, tensor


def _infer(weight: Meta, ids: Meta, dtype: Any) -> Meta:
    if weight.ndim != 2:
        fail("embedding", f"weight must be [N, K], got {text(weight.shape)}")
    if dtype is None:
        dtype = DEFAULT_FLOAT if weight.scheme else weight.dtype
    return Meta((*ids.shape, weight.shape[1]), dtype)


def _compose(weight: Any, ids: Any, dtype: Any) -> Any:
    table = weight if weight.scheme == 0 else ops.dequantize(weight, dtype or DEFAULT_FLOAT)
    rows = ops.index_select(table, 0, ops.reshape(ids, (-1,)))
    rows = ops.reshape(rows, (*ids.shape, weight.shape[1]))
    return rows if dtype is None or dtype is rows.dtype else ops.cast(rows, dtype)


op(
    "embedding",
    doc="""
    The rows of weight [N, K] that ids name: result[..., k] = weight[ids[...], k].

    The weight is dense or packed. `dtype` is the result's: by default the weight's, float32 for a
    packed one. An id outside 0 .. N-1 is an error of the kernel.
    """,
    args=[
        tensor("weight", ALL, packed=True),
        tensor("ids", INDEX),
        static("dtype", "dtype", None),
    ],
    infer=_infer,
    compose=_compose,
    method=False,
)
