"""Elementwise functions of one tensor. Where a function has no integer form, integers and bool are
computed as float32, as in PyTorch."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._promotion import ALL, FLOATS, NUMBERS, to_float
from ._rules import unary
from .record import ELEMENTWISE, Meta, op, scalar, static, tensor


def _square(input: Any) -> Any:
    if input.dtype.kind == "b":
        input = ops.cast(input, dtypes.int64)
    return ops.mul(input, input)


def _counted(input: Meta) -> Any:
    return dtypes.int64 if input.dtype.kind == "b" else input.dtype


def _sigmoid(input: Any) -> Any:
    # In float32: e^12 is beyond float16 already.
    wide = input if input.dtype is dtypes.float64 else ops.cast(input, dtypes.float32)
    result = ops.reciprocal(ops.add(ops.exp(ops.neg(wide)), 1.0))
    return ops.cast(result, to_float(input.dtype))


def _silu(input: Any) -> Any:
    return ops.mul(input, ops.sigmoid(input))


def _gelu(input: Any, approximate: str) -> Any:
    half = ops.mul(input, 0.5)
    if approximate == "tanh":
        cube = ops.mul(ops.mul(input, input), input)
        inner = ops.mul(ops.add(input, ops.mul(cube, 0.044715)), 0.7978845608028654)
        return ops.mul(half, ops.add(ops.tanh(inner), 1.0))
    return ops.mul(half, ops.add(ops.erf(ops.mul(input, 0.7071067811865476)), 1.0))


unary("neg", "-x, element by element.", NUMBERS)
unary("abs", "|x|, element by element. The smallest signed integer stays as it is.", NUMBERS)
unary("exp", "e^x, element by element.", ALL, floats=True)
unary(
    "log",
    "The natural logarithm ln(x), element by element; -inf at 0, NaN below.",
    ALL,
    floats=True,
)
unary("sqrt", "The square root of x, element by element; NaN below 0.", ALL, floats=True)
unary(
    "rsqrt",
    "1 / sqrt(x), element by element.",
    ALL,
    floats=True,
    compose=lambda input: ops.reciprocal(ops.sqrt(input)),
)
unary("sin", "sin(x) of x in radians, element by element.", ALL, floats=True)
unary("cos", "cos(x) of x in radians, element by element.", ALL, floats=True)
unary("tanh", "tanh(x), element by element.", ALL, floats=True)
unary(
    "sigmoid",
    "1 / (1 + e^-x), element by element.",
    ALL,
    floats=True,
    compose=_sigmoid,
)
unary(
    "silu",
    "x * sigmoid(x), element by element.",
    FLOATS,
    compose=_silu,
    source="Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv:1606.08415",
)
unary(
    "gelu",
    """
    x * Phi(x) with the normal distribution function Phi: x/2 * (1 + erf(x / sqrt(2))).

    With `approximate="tanh"`: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))).
    """,
    FLOATS,
    extra=[static("approximate", "str", "none", modes=("none", "tanh"))],
    compose=_gelu,
    source="Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv:1606.08415",
)
unary(
    "relu", "max(x, 0), element by element.", NUMBERS, compose=lambda input: ops.maximum(input, 0)
)
unary(
    "erf",
    "The error function 2/sqrt(pi) * integral of e^(-t^2) from 0 to x, element by element.",
    ALL,
    floats=True,
)
unary(
    "reciprocal",
    "1 / x, element by element.",
    ALL,
    floats=True,
    compose=lambda input: ops.div(1.0, input),
)
op(
    "square",
    doc="x * x, element by element; bool counts as int64.",
    args=[tensor("input", ALL)],
    infer=lambda input: Meta(input.shape, _counted(input)),
    promote=lambda input: _counted(input),
    traits={ELEMENTWISE},
    compose=_square,
)
unary("floor", "The largest integer not above x, element by element.", NUMBERS)
unary("ceil", "The smallest integer not below x, element by element.", NUMBERS)
unary("trunc", "The integer next to x towards zero, element by element.", NUMBERS)
unary("frac", "x - trunc(x), element by element: what is left, with the sign of x.", FLOATS)
unary(
    "round",
    """
    The integer nearest to x, halves to the even one, element by element.

    With `decimals` not 0, the nearest multiple of 10^-decimals; integers stay as they are.
    """,
    NUMBERS,
    extra=[static("decimals", "int", 0, keyword_only=True)],
)
unary("sign", "-1, 0 or 1 by the sign of x, element by element; NaN gives 0.", ALL)
unary("exp2", "2^x, element by element.", ALL, floats=True)
unary("expm1", "e^x - 1, element by element, exact near 0.", ALL, floats=True)
unary("log2", "The logarithm of x to base 2, element by element.", ALL, floats=True)
unary("log10", "The logarithm of x to base 10, element by element.", ALL, floats=True)
unary("log1p", "ln(1 + x), element by element, exact near 0.", ALL, floats=True)
unary("tan", "tan(x) of x in radians, element by element.", ALL, floats=True)
unary("asin", "The angle in [-pi/2, pi/2] whose sine is x; NaN beyond [-1, 1].", ALL, floats=True)
unary("acos", "The angle in [0, pi] whose cosine is x; NaN beyond [-1, 1].", ALL, floats=True)
unary("atan", "The angle in (-pi/2, pi/2) whose tangent is x.", ALL, floats=True)
unary("sinh", "(e^x - e^-x) / 2, element by element.", ALL, floats=True)
unary("cosh", "(e^x + e^-x) / 2, element by element.", ALL, floats=True)
unary("asinh", "The inverse of sinh: ln(x + sqrt(x^2 + 1)).", ALL, floats=True)
unary("acosh", "The inverse of cosh: ln(x + sqrt(x^2 - 1)); NaN below 1.", ALL, floats=True)
unary(
    "atanh", "The inverse of tanh: ln((1 + x) / (1 - x)) / 2; NaN beyond [-1, 1].", ALL, floats=True
)
unary("deg2rad", "x * pi / 180, element by element: degrees as radians.", ALL, floats=True)
unary("rad2deg", "x * 180 / pi, element by element: radians as degrees.", ALL, floats=True)
unary(
    "nan_to_num",
    """
    x with `nan` in the place of NaN, and `posinf` and `neginf` in that of the infinities.

    An absent `posinf` or `neginf` is the largest or the smallest finite number of the dtype.
    Integers and bool stay as they are.
    """,
    ALL,
    extra=[
        scalar("nan", "float", 0.0),
        scalar("posinf", "float", None),
        scalar("neginf", "float", None),
    ],
)
