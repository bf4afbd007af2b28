"""In-place forms as free functions: ``add_(x, y)`` is ``x.add_(y)``. The result is written into the
bytes of `input`, which keeps its shape and dtype, and is returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._functions import of_tensors

if TYPE_CHECKING:
    from .._native._core import Tensor


@of_tensors
def add_(input: Tensor, other: Tensor | float, *, alpha: float = 1) -> Tensor:
    """input += alpha * other, in place."""
    return input.add_(other, alpha=alpha)


@of_tensors
def sub_(input: Tensor, other: Tensor | float, *, alpha: float = 1) -> Tensor:
    """input -= alpha * other, in place."""
    return input.sub_(other, alpha=alpha)


@of_tensors
def mul_(input: Tensor, other: Tensor | float) -> Tensor:
    """input *= other, in place."""
    return input.mul_(other)


@of_tensors
def div_(input: Tensor, other: Tensor | float, *, rounding_mode: str = "none") -> Tensor:
    """input /= other, in place."""
    return input.div_(other, rounding_mode=rounding_mode)


@of_tensors
def relu_(input: Tensor) -> Tensor:
    """input = max(input, 0), in place."""
    return input.relu_()


@of_tensors
def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """input = min(max(input, min), max), in place."""
    return input.clamp_(min, max)
