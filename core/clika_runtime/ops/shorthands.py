"""Short forms: Python functions over elementwise operators."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..errors import InvalidArgumentError
from ._rules import check_tensors


def positive(input: Any) -> Any:
    """The tensor itself; bool has no sign and is refused."""
    check_tensors("positive", input=input)
    if input.dtype.kind == "b":
        raise InvalidArgumentError("positive: input has dtype bool, which has no sign")
    return input


def real(input: Any) -> Any:
    """The tensor itself: every dtype here is a real one."""
    check_tensors("real", input=input)
    return input


def conj(input: Any) -> Any:
    """The tensor itself: real numbers are their own conjugates."""
    check_tensors("conj", input=input)
    return input


def angle(input: Any) -> Any:
    """pi where input is below 0, else 0; NaN stays NaN."""
    check_tensors("angle", input=input)
    turned = ops.where(ops.lt(input, 0), math.pi, 0.0)
    if input.dtype.kind != "f":
        return turned
    return ops.where(ops.isnan(input), input, ops.cast(turned, input.dtype))


def rsub(input: Any, other: Any, alpha: float = 1) -> Any:
    """other - alpha * input.

    Example: ``ops.rsub(ops.full((2,), 3.0), 10)`` is ``[7., 7.]``.
    """
    return ops.sub(other, input, alpha=alpha)


def clamp_min(input: Any, min: Any) -> Any:
    """max(input, min); `min` is a number or a tensor that broadcasts. NaN stays NaN."""
    return ops.maximum(input, min)


def clamp_max(input: Any, max: Any) -> Any:
    """min(input, max); `max` is a number or a tensor that broadcasts. NaN stays NaN."""
    return ops.minimum(input, max)


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and equal elements; NaN equals nothing.

    Example: ``ops.equal(x, x)`` is True unless x holds a NaN.
    """
    check_tensors("equal", input=input, other=other)
    if tuple(input.shape) != tuple(other.shape):
        return False
    return bool(ops.all(ops.eq(input, other)).item())


def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close as `isclose` says."""
    return bool(ops.all(ops.isclose(input, other, rtol, atol, equal_nan)).item())


def rrelu(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """leaky_relu with the slope (lower + upper) / 2: what a randomized slope is at inference.

    Source: Xu et al., Empirical Evaluation of Rectified Activations, arXiv:1505.00853. Raises
    `InvalidArgumentError` for ``training=True``: slopes are drawn in training only.
    """
    check_tensors("rrelu", input=input)
    if training:
        raise InvalidArgumentError(
            "rrelu: training=True draws slopes; this is an inference runtime"
        )
    if lower > upper:
        raise InvalidArgumentError(f"rrelu: lower {lower} must not be above upper {upper}")
    return ops.leaky_relu(input, (lower + upper) / 2)


def softmin(input: Any, dim: int = -1, dtype: Any = None) -> Any:
    """softmax(-input) along `dim`; with `dtype`, of the input in that dtype."""
    check_tensors("softmin", input=input)
    return ops.softmax(ops.neg(input if dtype is None else ops.cast(input, dtype)), dim)
