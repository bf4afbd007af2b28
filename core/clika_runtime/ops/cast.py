"""The operator ``cast``, behind ``Tensor.to(dtype)``."""

from __future__ import annotations

from typing import Any

from .record import ELEMENTWISE, Meta, op, static, tensor


def _infer(input: Meta, dtype: Any) -> Meta:
    return Meta(input.shape, dtype)


op(
    "cast",
    doc="""
    x in another dtype: rounded to the nearest value, halves to even, where the target is a
    floating-point dtype; towards zero where it is an integer; x != 0 where it is bool.

    A value outside the target integer's range, NaN included, gives an unspecified integer.
    """,
    args=[tensor("input"), static("dtype", "dtype")],
    infer=_infer,
    traits={ELEMENTWISE},
    method=False,
)
