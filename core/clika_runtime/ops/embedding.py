"""The operator ``embedding``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._functions import of_tensors
from ._promotion import ALL, DEFAULT_FLOAT, INDEX
from ._shapes import fail, text
from .record import Meta, op, static, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native._core import Tensor
    from ..dtypes import dtype as DType


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


def renormed(name: str, weight: Any, max_norm: float, norm_type: float) -> Any:
    """The rows of a table, scaled down to ``max_norm`` where their p-norm is larger, in float32 (or
    float64)."""
    if weight.scheme:
        fail(name, "max_norm scales rows, and those of a packed weight are fixed")
    x = weight if weight.dtype is dtypes.float64 else ops.cast(weight, DEFAULT_FLOAT)
    size = ops.abs(x)
    if math.isinf(norm_type):
        size = ops.amax(size, -1, True)
    else:
        size = ops.pow(ops.sum(ops.pow(size, norm_type), -1, True), 1 / norm_type)
    scale = ops.where(ops.gt(size, max_norm), ops.div(max_norm, ops.add(size, 1e-7)), 1.0)
    return ops.mul(x, scale)


def _front(call: Callable[..., Any]) -> Callable[..., Any]:
    @of_tensors
    def embedding(
        weight: Tensor,
        ids: Tensor,
        dtype: DType | None = None,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
    ) -> Tensor:
        n = weight.shape[0] if len(weight.shape) else 0
        if padding_idx is not None and type(n) is int and not -n <= padding_idx < n:
            fail("embedding", f"padding_idx {padding_idx} must be within the {n} rows of weight")
        if max_norm is None:
            return call(weight, ids, dtype)
        rows = call(renormed("embedding", weight, max_norm, norm_type), ids)
        return ops.cast(rows, dtype or weight.dtype)

    return embedding


op(
    "embedding",
    doc="""
    The rows of weight [N, K] that ids name: result[..., k] = weight[ids[...], k].

    The weight is dense or packed. `dtype` is the result's: by default the weight's, float32 for a
    packed one. An id outside 0 .. N-1 is an error of the kernel. `padding_idx` matters in training
    only. With `max_norm` a row whose p-norm (p = norm_type) is larger is scaled down to it; the
    weight itself stays as it is.
    """,
    args=[
        tensor("weight", ALL, packed=True),
        tensor("ids", INDEX),
        static("dtype", "dtype", None),
    ],
    infer=_infer,
    compose=_compose,
    front=_front,
    method=False,
)
