"""Distances of vectors: Python functions over operators. The 16-bit dtypes are computed in float32
and rounded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._functions import of_tensors
from ._promotion import result_type, to_float
from ._shapes import fail, known, same, text
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


@of_tensors
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm of x1[.., i, :] - x2[.., j, :] for all rows i and j: [..., P, R].

    x1 is [..., P, M] and x2 [..., R, M]; batches broadcast. p is at least 0: 0 counts the entries
    that differ, infinity gives the largest difference. Differences are taken before they are
    squared, whatever `compute_mode` says, so that near points keep their distance.

    Example: ``ops.cdist(crt.tensor([[0.0, 0.0]]), crt.tensor([[3.0, 4.0]]))`` is ``[[5]]``.
    """
    if x1.ndim < 2 or x2.ndim < 2 or not same(x1.shape[-1], x2.shape[-1]):
        fail(
            "cdist",
            f"x1 and x2 must be [..., P, M] and [..., R, M], got {text(x1.shape)} and "
            f"{text(x2.shape)}",
        )
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not p >= 0:
        fail("cdist", f"p must be a number of at least 0, got {p!r}")
    a, b, dtype = _common(x1, x2)
    apart = ops.sub(ops.unsqueeze(a, -2), ops.unsqueeze(b, -3))
    if known(x1.shape[-1], 0):
        return ops.zeros(*apart.shape[:-1], dtype=dtype, device=x1.device)
    return ops.cast(ops.vector_norm(apart, p, -1), dtype)
