"""Tensors between our layout, channels last, and PyTorch's, channels first."""

from __future__ import annotations

from typing import Any


def first(x: Any) -> Any:
    """[N, spatial..., C] as [N, C, spatial...]."""
    return x.movedim(-1, 1)


def last(x: Any) -> Any:
    """[N, C, spatial...] as [N, spatial..., C]."""
    return x.movedim(1, -1)


def images(x: Any, n: int) -> Any:
    """[N, spatial..., C] or [spatial..., C] with n spatial dims, channels first."""
    return x.movedim(-1, x.ndim - n - 1)


def back(x: Any, n: int) -> Any:
    """The inverse of `images`."""
    return x.movedim(x.ndim - n - 1, -1)
