"""``max`` and ``min``: the largest and smallest value, alone, with positions, or of two tensors."""

from __future__ import annotations

from typing import Any

from .. import ops


def _pick(
    value: Any, position: Any, pairwise: Any, input: Any, dim: Any, keepdim: bool, other: Any
) -> Any:
    if hasattr(dim, "dtype"):  # max(input, other)
        dim, other = None, dim
    if other is not None:
        return pairwise(input, other)
    if dim is None:
        return value(input)
    indices = position(input, dim, True)
    values = ops.gather(input, dim, indices) if len(input.shape) else input
    if not keepdim and len(input.shape):
        values, indices = ops.squeeze(values, dim), ops.squeeze(indices, dim)
    return values, indices


def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with `dim`, the pair (values, int64 indices) along it; with another
    tensor, ``maximum(input, other)``.

    The first one among equal elements; NaN counts as the largest. See `amax` and `argmax`.

    Example: ``values, indices = x.max(-1)``.
    """
    return _pick(ops.amax, ops.argmax, ops.maximum, input, dim, keepdim, other)


def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; with `dim`, the pair (values, int64 indices) along it; with another
    tensor, ``minimum(input, other)``.

    The first one among equal elements; NaN counts as the smallest. See `amin` and `argmin`.

    Example: ``values, indices = x.min(0, keepdim=True)``.
    """
    return _pick(ops.amin, ops.argmin, ops.minimum, input, dim, keepdim, other)
