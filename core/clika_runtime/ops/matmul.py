"""The operator ``matmul``."""

from __future__ import annotations

from ._promotion import NUMBERS
from ._shapes import broadcast, fail, same, text
from .record import Meta, op, tensor


def _infer(input: Meta, other: Meta) -> Meta:
    a, b = input.shape, other.shape
    if not a or not b:
        fail("matmul", f"both operands need at least one dim, got {text(a)} and {text(b)}")
    at = max(len(b) - 2, 0)
    if not same(a[-1], b[at]):
        # The wording of this sentence is part of the documented interface.
        fail(
            "ops::matmul",
            f"cannot contract a {text(a)} with b {text(b)}: a's last dim ({a[-1]}) must equal b's "
            f"dim {at} ({b[at]})",
        )
    if input.dtype is not other.dtype:
        fail(
            "matmul",
            f"operands must have one dtype, got {input.dtype.name} and {other.dtype.name}; convert "
            "one with .to()",
        )
    batch = broadcast("matmul", a[:-2], b[:-2])
    rows = (a[-2],) if len(a) > 1 else ()
    columns = (b[-1],) if len(b) > 1 else ()
    return Meta((*batch, *rows, *columns), input.dtype)


op(
    "matmul",
    doc="""
    The matrix product: result[.., i, j] = sum over k of input[.., i, k] * other[.., k, j].

    A 1-D operand is a row on the left and a column on the right, and its dim is left out of the
    result: [M, K] and [K, N] give [M, N], [K] and [K] a number. Leading dims broadcast. Both
    operands have one dtype; sums are kept in float32 for the 16-bit dtypes.
    """,
    args=[tensor("input", NUMBERS), tensor("other", NUMBERS)],
    infer=_infer,
)
