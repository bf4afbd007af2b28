"""The operator ``bitcast``."""

from __future__ import annotations

from typing import Any

from ._shapes import fail
from .record import ELEMENTWISE, Meta, op, static, tensor


def _infer(input: Meta, dtype: Any) -> Meta:
    if dtype.bits != input.dtype.bits:
        fail(
            "bitcast",
            f"input has dtype {input.dtype.name}, {input.dtype.bits} bits wide, and {dtype.name} "
            f"has {dtype.bits}; cast() converts values",
        )
    return Meta(input.shape, dtype)


op(
    "bitcast",
    doc="""
    The bits of x read as another dtype of the same width: a copy, no value is converted.

    A bool counts as a byte of 0 or 1; any other byte becomes True. ONNX's `BitCast`.
    """,
    args=[tensor("input"), static("dtype", "dtype")],
    infer=_infer,
    traits={ELEMENTWISE},
    method=False,
)
