"""Arithmetic of two operands, with broadcasting and PyTorch's type promotion."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._promotion import ALL, FLOATS, INTS, NUMBERS, to_float
from ._rules import binary, common, numbers_wide
from ._shapes import broadcast
from .record import ELEMENTWISE, Meta, op, scalar, static, tensor

_ALPHA = "The scalar `alpha` multiplies `other`; over integers it must be an integer."


def _div_dtype(input: Meta, other: Meta, rounding_mode: str | None) -> Any:
    dtype = common("div", NUMBERS | {"bool"}, input, other)
    return (
        to_float(dtype) if rounding_mode in (None, "none") else common("div", NUMBERS, input, other)
    )


def _div_entering(input: Meta, other: Meta, rounding_mode: str | None) -> Any:
    return numbers_wide(_div_dtype(input, other, rounding_mode), input, other)


def _div(input: Meta, other: Meta, rounding_mode: str | None) -> Meta:
    shape = broadcast("div", input.shape, other.shape)
    return Meta(shape, _div_dtype(input, other, rounding_mode))


binary(
    "add",
    f"input + alpha * other. {_ALPHA}\n\nOver bool it is the logical or.",
    commutative=True,
    wide=True,
    extra=[scalar("alpha", "number", 1, keyword_only=True)],
)
binary(
    "sub",
    f"input - alpha * other. {_ALPHA}",
    NUMBERS,
    wide=True,
    extra=[scalar("alpha", "number", 1, keyword_only=True)],
)
binary("mul", "input * other.\n\nOver bool it is the logical and.", commutative=True, wide=True)
op(
    "div",
    doc="""
    input / other, rounded by `rounding_mode`: `none` divides truly (integers give float32), `trunc`
    rounds the quotient towards zero, `floor` downwards; both keep integers.

    A floating-point division by zero gives inf or NaN; of integers, by zero, is an error of the
    kernel.
    """,
    args=[
        tensor("input", ALL, number=True),
        tensor("other", ALL, number=True),
        static("rounding_mode", "str", "none", modes=("none", "trunc", "floor"), keyword_only=True),
    ],
    infer=_div,
    promote=_div_entering,
    traits={ELEMENTWISE},
)
binary(
    "pow",
    """
    input ^ exponent.

    An integer to a negative integer power is 1 / input^-exponent rounded towards zero.
    """,
    NUMBERS,
    second="exponent",
)
binary("maximum", "The larger of input and other; NaN if either is NaN.", commutative=True)
binary("minimum", "The smaller of input and other; NaN if either is NaN.", commutative=True)
binary(
    "remainder",
    "input - other * floor(input / other): the remainder with the sign of other.",
    NUMBERS,
)
binary(
    "fmod",
    "input - other * trunc(input / other): the remainder with the sign of input.",
    NUMBERS,
)
binary(
    "floor_divide",
    "floor(input / other), in the common dtype.",
    NUMBERS,
    compose=lambda input, other: ops.div(input, other, rounding_mode="floor"),
)
binary(
    "fmax",
    "The larger of input and other; where one is NaN, the other one.",
    commutative=True,
)
binary(
    "fmin",
    "The smaller of input and other; where one is NaN, the other one.",
    commutative=True,
)
binary(
    "heaviside",
    "0 where input is below 0 or NaN, 1 above, and `values` where it is 0.",
    second="values",
)
binary("copysign", "|input| with the sign of other, that of -0.0 too.", compute=to_float)
binary("gcd", "The greatest common divisor of |input| and |other|; of 0 and 0 it is 0.", INTS)
binary("lcm", "The least common multiple of |input| and |other|; 0 where one is 0.", INTS)
binary("atan2", "The angle of the point (other, input) in [-pi, pi].", compute=to_float)
binary("hypot", "sqrt(input^2 + other^2), without overflow in between.", FLOATS, commutative=True)
binary("logaddexp", "ln(e^input + e^other).", FLOATS, commutative=True)
binary("logaddexp2", "The logarithm to base 2 of 2^input + 2^other.", FLOATS, commutative=True)
binary("nextafter", "The number of the dtype next to input in the direction of other.", FLOATS)
binary(
    "float_power",
    "input ^ exponent, computed and given in float64.",
    compute=lambda _: dtypes.float64,
    second="exponent",
)
binary("ldexp", "input * 2^other.", compute=to_float)
op(
    "frexp",
    doc="""
    The mantissa in [1/2, 1) and the exponent (int32) of x = mantissa * 2^exponent.

    0, infinities and NaN are their own mantissa, with exponent 0.
    """,
    args=[tensor("input", FLOATS)],
    infer=lambda input: (Meta(input.shape, input.dtype), Meta(input.shape, dtypes.int32)),
    traits={ELEMENTWISE},
    outputs=2,
)
