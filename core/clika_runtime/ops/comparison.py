"""Comparisons. The operands are compared in their common dtype; the result is bool."""

from __future__ import annotations

from .. import dtypes, ops
from ._promotion import ALL, to_float
from ._rules import binary, common, unary
from .record import Meta, op, scalar, static, tensor

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
unary("isfinite", "True where x is neither an infinity nor NaN.", ALL, result=dtypes.bool)
unary("isposinf", "True where x is inf.", ALL, result=dtypes.bool)
unary("isneginf", "True where x is -inf.", ALL, result=dtypes.bool)
unary("isreal", "True everywhere: every dtype here is a real one.", ALL, result=dtypes.bool)
unary("signbit", "True where x is negative, -0.0 too.", ALL, result=dtypes.bool)
binary(
    "isclose",
    """
    |input - other| <= atol + |rtol * other|; infinities are close to themselves.

    With `equal_nan`, NaN is close to NaN.
    """,
    result=dtypes.bool,
    extra=[
        scalar("rtol", "float", 1e-5),
        scalar("atol", "float", 1e-8),
        static("equal_nan", "bool", False),
    ],
)


def _isin(elements: Meta, test_elements: Meta, assume_unique: bool, invert: bool) -> Meta:
    common("isin", ALL, elements, test_elements)
    return Meta(elements.shape, dtypes.bool)


op(
    "isin",
    doc="""
    True where an element is equal to one of test_elements; with `invert`, where it is not.

    `assume_unique` promises that neither has duplicates; the result does not depend on it.
    """,
    args=[
        tensor("elements", ALL, number=True),
        tensor("test_elements", ALL, number=True),
        static("assume_unique", "bool", False, keyword_only=True),
        static("invert", "bool", False, keyword_only=True),
    ],
    infer=_isin,
    promote=lambda elements, test_elements, *_: common("isin", ALL, elements, test_elements),
    method=False,
)
