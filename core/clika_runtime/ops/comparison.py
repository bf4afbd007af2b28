"""Comparisons. The operands are compared in their common dtype; the result is bool."""

from __future__ import annotations

from .. import dtypes, ops
from ._promotion import ALL, to_float
from ._rules import binary, unary

binary("eq", "input == other; NaN equals nothing.", result=dtypes.bool, commutative=True)
binary("ne", "input != other; true where either is NaN.", result=dtypes.bool, commutative=True)
binary("lt", "input < other; false where either is NaN.", result=dtypes.bool)
binary("le", "input <= other; false where either is NaN.", result=dtypes.bool)
binary(
    "gt",
    "input > other; false where either is NaN.",
    result=dtypes.bool,
    compose=lambda input, other: ops.lt(other, input),
)
binary(
    "ge",
    "input >= other; false where either is NaN.",
    result=dtypes.bool,
    compose=lambda input, other: ops.le(other, input),
)
unary(
    "isnan",
    "True where x is NaN.",
    ALL,
    result=dtypes.bool,
    compose=lambda input: ops.ne(input, input),
)
unary(
    "isinf",
    "True where x is inf or -inf.",
    ALL,
    result=dtypes.bool,
    compose=lambda input: ops.eq(ops.abs(ops.cast(input, to_float(input.dtype))), float("inf")),
)
