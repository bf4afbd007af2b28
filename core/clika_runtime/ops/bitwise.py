"""Operations on the bits of integers; over bool they are the logical ones."""

from __future__ import annotations

from ._promotion import BOOL, INTS
from ._rules import binary, unary

_BITS = INTS | BOOL

unary("bitwise_not", "All bits of x inverted; over bool the logical not.", _BITS)
binary("bitwise_and", "The bits set in both operands.", _BITS, commutative=True)
binary("bitwise_or", "The bits set in either operand.", _BITS, commutative=True)
binary("bitwise_xor", "The bits set in exactly one operand.", _BITS, commutative=True)
binary(
    "bitwise_left_shift",
    "input * 2^other in the bits of the dtype; 0 where other is negative or all bits and more.",
    INTS,
)
binary(
    "bitwise_right_shift",
    """
    floor(input / 2^other).

    Where other is negative or all bits and more, everything is shifted out: 0, or -1 below 0.
    """,
    INTS,
)
