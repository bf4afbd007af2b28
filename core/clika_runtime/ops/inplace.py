"""In-place forms as free functions: the result is written into the first argument's bytes."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import InvalidArgumentError


def _write(name: str, input: Any, result: Any) -> Any:
    if tuple(result.shape) != tuple(input.shape):
        raise InvalidArgumentError(
            f"{name}: the result has shape {list(result.shape)} and does not fit into input of "
            f"{list(input.shape)}"
        )
    return ops.copy_(input, result)


def add_(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """input += alpha * other, in place; returns input."""
    return _write("add_", input, ops.add(input, other, alpha=alpha))


def sub_(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """input -= alpha * other, in place; returns input."""
    return _write("sub_", input, ops.sub(input, other, alpha=alpha))


def mul_(input: Any, other: Any) -> Any:
    """input *= other, in place; returns input."""
    return _write("mul_", input, ops.mul(input, other))


def div_(input: Any, other: Any, *, rounding_mode: str = "none") -> Any:
    """input /= other, in place; returns input."""
    return _write("div_", input, ops.div(input, other, rounding_mode=rounding_mode))


def relu_(input: Any) -> Any:
    """input = max(input, 0), in place; returns input."""
    return _write("relu_", input, ops.relu(input))


def clamp_(input: Any, min: Any = None, max: Any = None) -> Any:
    """input = min(max(input, min), max), in place; returns input."""
    return _write("clamp_", input, ops.clamp(input, min, max))
