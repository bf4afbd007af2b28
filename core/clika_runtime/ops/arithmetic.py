"""Arithmetic of two operands, with broadcasting and PyTorch's type promotion."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import NUMBERS, to_float
from ._rules import binary, common
from ._shapes import broadcast
from .record import ELEMENTWISE, Meta, op, scalar, static, tensor

_ALPHA = "The scalar `alpha` multiplies `other`; over integers it must be an integer."


def _div_dtype(input: Meta, other: Meta, rounding_mode: str | None) -> Any:
    dtype = common("div", NUMBERS | {"bool"}, input, other)
    return (
        to_float(dtype) if rounding_mode in (None, "none") else common("div", NUMBERS, input, other)
    )


def _div(input: Meta, other: Meta, rounding_mode: str | None) -> Meta:
    shape = broadcast("div", input.shape, other.shape)
    return Meta(shape, _div_dtype(input, other, rounding_mode))


binary(
    "add",
    f"input + alpha * other. {_ALPHA}\n\nOver bool it is the logical or.",
    commutative=True,
    extra=[scalar("alpha", "number", 1, keyword_only=True)],
)
binary(
    "sub",
    f"input - alpha * other. {_ALPHA}",
    NUMBERS,
    extra=[scalar("alpha", "number", 1, keyword_only=True)],
)
binary("mul", "input * other.\n\nOver bool it is the logical and.", commutative=True)
op(
    "div",
    doc="""
    input / other, rounded by `rounding_mode`: `none` divides truly (integers give float32), `trunc`
    rounds the quotient towards zero, `floor` downwards; both keep integers.

    A floating-point division by zero gives inf or NaN; of integers, by zero, is an error of the
    kernel.
    """,
    args=[
        tensor("input", number=True),
        tensor("other", number=True),
        static("rounding_mode", "str", "none", modes=("none", "trunc", "floor"), keyword_only=True),
    ],
    infer=_div,
    promote=_div_dtype,
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
    "floor_divide",
    "floor(input / other), in the common dtype.",
    NUMBERS,
    compose=lambda input, other: ops.div(input, other, rounding_mode="floor"),
)
