"""Short forms: Python functions over elementwise operators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import ops
from ..errors import InvalidArgumentError
from ._functions import of_tensors

if TYPE_CHECKING:
    from .._native._core import Tensor


@of_tensors
def positive(input: Tensor) -> Tensor:
    """The tensor itself; bool has no sign and is refused."""
    if input.dtype.kind == "b":
        raise InvalidArgumentError("positive: input has dtype bool, which has no sign")
    return input


@of_tensors
def real(input: Tensor) -> Tensor:
    """The tensor itself: every dtype here is a real one."""
    return input


@of_tensors
def conj(input: Tensor) -> Tensor:
    """The tensor itself: real numbers are their own conjugates."""
    return input


@of_tensors
def angle(input: Tensor) -> Tensor:
    """pi where input is below 0, else 0; NaN stays NaN."""
    turned = ops.where(ops.lt(input, 0), math.pi, 0.0)
    if input.dtype.kind != "f":
        return turned
    return ops.where(ops.isnan(input), input, ops.cast(turned, input.dtype))


@of_tensors
def rsub(input: Tensor, other: Tensor | float, alpha: float = 1) -> Tensor:
    """other - alpha * input.

    Example: ``ops.rsub(ops.full((2,), 3.0), 10)`` is ``[7., 7.]``.
    """
    return ops.sub(other, input, alpha=alpha)


@of_tensors
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """max(input, min); `min` is a number or a tensor that broadcasts. NaN stays NaN."""
    return ops.maximum(input, min)


@of_tensors
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """min(input, max); `max` is a number or a tensor that broadcasts. NaN stays NaN."""
    return ops.minimum(input, max)


@of_tensors
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and equal elements; NaN equals nothing.

    Example: ``ops.equal(x, x)`` is True unless x holds a NaN.
    """
    if tuple(input.shape) != tuple(other.shape):
        return False
    return bool(ops.all(ops.eq(input, other)).item())


@of_tensors
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close as `isclose` says."""
    return bool(ops.all(ops.isclose(input, other, rtol, atol, equal_nan)).item())


@of_tensors
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """leaky_relu with the slope (lower + upper) / 2: what a randomized slope is at inference.

    Source: Xu et al., Empirical Evaluation of Rectified Activations, arXiv:1505.00853. Raises
    `InvalidArgumentError` for ``training=True``: slopes are drawn in training only.
    """
    if training:
        raise InvalidArgumentError(
            "rrelu: training=True draws slopes; this is an inference runtime"
        )
    if lower > upper:
        raise InvalidArgumentError(f"rrelu: lower {lower} must not be above upper {upper}")
    return ops.leaky_relu(input, (lower + upper) / 2)


@of_tensors
def softmin(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """softmax(-input) along `dim`; with `dtype`, of the input in that dtype."""
    return ops.softmax(ops.neg(input if dtype is None else ops.cast(input, dtype)), dim)
