"""Norms and distances of vectors: Python functions over operators. The 16-bit dtypes are computed
in float32 and rounded once."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes, ops
from ..errors import InvalidArgumentError
from ._promotion import to_float


def _wide(x: Any) -> Any:
    """The tensor in the dtype that it is computed in."""
    kept = x.dtype is dtypes.float32 or x.dtype is dtypes.float64
    return x if kept else ops.cast(x, dtypes.float32)


def _length(name: str, x: Any, p: float, dim: Any, keepdim: bool) -> Any:
    """The p-norm along dims."""
    if p == 2:
        return ops.sqrt(ops.sum(ops.square(x), dim, keepdim))
    size = ops.abs(x)
    if p == 1:
        return ops.sum(size, dim, keepdim)
    if p == 0:
        return ops.sum(ops.cast(ops.ne(x, 0), x.dtype), dim, keepdim)
    if math.isinf(p):
        return ops.amax(size, dim, keepdim) if p > 0 else ops.amin(size, dim, keepdim)
    if math.isnan(p):
        raise InvalidArgumentError(f"{name}: p must be a number, got {p}")
    return ops.pow(ops.sum(ops.pow(size, float(p)), dim, keepdim), 1 / p)


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """input / max(its p-norm along `dim`, eps), of a floating-point tensor.

    Example: ``ops.normalize(ops.full((1, 2), 3.0))`` is ``[[0.7071, 0.7071]]``.
    """
    if input.dtype.kind != "f":
        raise InvalidArgumentError(
            f"normalize: input has dtype {input.dtype.name}; convert it with .to() to a "
            "floating-point dtype"
        )
    x = _wide(input)
    return ops.cast(
        ops.div(x, ops.maximum(_length("normalize", x, p, dim, True), eps)), input.dtype
    )


def l2_normalize(input: Any, dim: Any = -1, eps: float = 1e-12) -> Any:
    """Vectors of length 1 along `dim`: input / max(sqrt(sum(input^2)), eps)."""
    return normalize(input, 2.0, dim, eps)


def _common(x1: Any, x2: Any) -> tuple[Any, Any, Any]:
    """Two tensors in the dtype that they are computed in, and the result's dtype."""
    from ._promotion import result_type
    from .record import Meta

    dtype = to_float(result_type(*(Meta(tuple(x.shape), x.dtype) for x in (x1, x2))))
    return _wide(ops.cast(x1, dtype)), _wide(ops.cast(x2, dtype)), dtype


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along `dim`: x1 . x2 / (max(|x1|, eps) max(|x2|,
    eps)). The shapes broadcast.
    """
    a, b, dtype = _common(x1, x2)
    a, b = ops.broadcast_tensors(a, b)
    lengths = [ops.maximum(_length("cosine_similarity", x, 2, dim, True), eps) for x in (a, b)]
    product = ops.mul(ops.div(a, lengths[0]), ops.div(b, lengths[1]))
    return ops.cast(ops.sum(product, dim), dtype)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The p-norm of x1 - x2 + eps along the last dim; the shapes broadcast."""
    a, b, dtype = _common(x1, x2)
    gap = ops.add(ops.sub(a, b), eps)
    return ops.cast(_length("pairwise_distance", gap, p, -1, keepdim), dtype)
