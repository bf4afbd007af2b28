"""``max`` and ``min``: the largest and smallest value, alone or with positions."""

from __future__ import annotations

from typing import Any

from .. import ops


def _pick(value: Any, position: Any, input: Any, dim: int | None, keepdim: bool) -> Any:
    if dim is None:
        return value(input)
    indices = position(input, dim, True)
    values = ops.gather(input, dim, indices) if len(input.shape) else input
    if not keepdim and len(input.shape):
        values, indices = ops.squeeze(values, dim), ops.squeeze(indices, dim)
    return values, indices


def max(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The largest element; with `dim`, the pair (values, int64 indices) along it.

    The first one among equal elements; NaN counts as the largest. See `amax` and `argmax`.

    Example: ``values, indices = x.max(-1)``.
    """
    return _pick(ops.amax, ops.argmax, input, dim, keepdim)


def min(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest element; with `dim`, the pair (values, int64 indices) along it.

    The first one among equal elements; NaN counts as the smallest. See `amin` and `argmin`.

    Example: ``values, indices = x.min(0, keepdim=True)``.
    """
    return _pick(ops.amin, ops.argmin, input, dim, keepdim)
