"""In-place forms as free functions: ``add_(x, y)`` is ``x.add_(y)``. The result is written into the
bytes of `input`, which keeps its shape and dtype, and is returned."""

from __future__ import annotations

from typing import Any


def add_(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """input += alpha * other, in place."""
    return input.add_(other, alpha=alpha)


def sub_(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """input -= alpha * other, in place."""
    return input.sub_(other, alpha=alpha)


def mul_(input: Any, other: Any) -> Any:
    """input *= other, in place."""
    return input.mul_(other)


def div_(input: Any, other: Any, *, rounding_mode: str = "none") -> Any:
    """input /= other, in place."""
    return input.div_(other, rounding_mode=rounding_mode)


def relu_(input: Any) -> Any:
    """input = max(input, 0), in place."""
    return input.relu_()


def clamp_(input: Any, min: Any = None, max: Any = None) -> Any:
    """input = min(max(input, min), max), in place."""
    return input.clamp_(min, max)
