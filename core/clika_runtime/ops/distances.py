"""Distances of vectors: Python functions over operators. The 16-bit dtypes are computed in float32
and rounded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._functions import of_tensors
from ._promotion import result_type, to_float
from .record import Meta

if TYPE_CHECKING:
    from .._native._core import Tensor


def _wide(x: Any) -> Any:
    """The tensor in the dtype that it is computed in."""
    kept = x.dtype is dtypes.float32 or x.dtype is dtypes.float64
    return x if kept else ops.cast(x, dtypes.float32)


def _common(x1: Tensor, x2: Tensor) -> tuple[Any, Any, Any]:
    """Two tensors in the dtype that they are computed in, and the result's dtype."""
    dtype = to_float(result_type(*(Meta(tuple(x.shape), x.dtype) for x in (x1, x2))))
    return _wide(ops.cast(x1, dtype)), _wide(ops.cast(x2, dtype)), dtype


@of_tensors
def l2_normalize(input: Tensor, dim: int = -1, eps: float = 1e-12) -> Tensor:
    """Vectors of length 1 along `dim`: input / max(sqrt(sum(input^2)), eps).

    Example: ``ops.l2_normalize(crt.tensor([3.0, 4.0]))`` is ``[0.6, 0.8]``.
    """
    return ops.normalize(input, 2.0, dim, eps)


@of_tensors
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)), the cosine between vectors along `dim`.

    The shapes broadcast.
    """
    a, b, dtype = _common(x1, x2)
    a, b = ops.broadcast_tensors(a, b)
    units = [ops.div(x, ops.maximum(ops.vector_norm(x, 2, dim, True), eps)) for x in (a, b)]
    return ops.cast(ops.sum(ops.mul(*units), dim), dtype)


@of_tensors
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dim; the shapes broadcast."""
    a, b, dtype = _common(x1, x2)
    return ops.cast(ops.vector_norm(ops.add(ops.sub(a, b), eps), p, -1, keepdim), dtype)
