"""Distances of vectors: Python functions over operators. The 16-bit dtypes are computed in float32
and rounded once."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._promotion import result_type, to_float
from ._rules import check_tensors
from .record import Meta


def _wide(x: Any) -> Any:
    """The tensor in the dtype that it is computed in."""
    kept = x.dtype is dtypes.float32 or x.dtype is dtypes.float64
    return x if kept else ops.cast(x, dtypes.float32)


def _common(name: str, x1: Any, x2: Any) -> tuple[Any, Any, Any]:
    """Two tensors in the dtype that they are computed in, and the result's dtype."""
    check_tensors(name, x1=x1, x2=x2)
    dtype = to_float(result_type(*(Meta(tuple(x.shape), x.dtype) for x in (x1, x2))))
    return _wide(ops.cast(x1, dtype)), _wide(ops.cast(x2, dtype)), dtype


def l2_normalize(input: Any, dim: int = -1, eps: float = 1e-12) -> Any:
    """Vectors of length 1 along `dim`: input / max(sqrt(sum(input^2)), eps).

    Example: ``ops.l2_normalize(crt.tensor([3.0, 4.0]))`` is ``[0.6, 0.8]``.
    """
    return ops.normalize(input, 2.0, dim, eps)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)), the cosine between vectors along `dim`.

    The shapes broadcast.
    """
    a, b, dtype = _common("cosine_similarity", x1, x2)
    a, b = ops.broadcast_tensors(a, b)
    units = [ops.div(x, ops.maximum(ops.vector_norm(x, 2, dim, True), eps)) for x in (a, b)]
    return ops.cast(ops.sum(ops.mul(*units), dim), dtype)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The p-norm of x1 - x2 + eps along the last dim; the shapes broadcast."""
    a, b, dtype = _common("pairwise_distance", x1, x2)
    return ops.cast(ops.vector_norm(ops.add(ops.sub(a, b), eps), p, -1, keepdim), dtype)
