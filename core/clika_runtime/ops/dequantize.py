"""The operator ``dequantize``."""

from __future__ import annotations

from typing import Any

from ._promotion import DEFAULT_FLOAT, FLOATS
from ._shapes import fail
from .record import Meta, op, static, tensor


def _infer(weight: Meta, dtype: Any) -> Meta:
    dtype = DEFAULT_FLOAT if dtype is None else dtype
    if dtype.name not in FLOATS:
        fail("dequantize", f"dtype must be one of {', '.join(sorted(FLOATS))}, got {dtype.name}")
    return Meta(weight.shape, dtype)


op(
    "dequantize",
    doc="""
    The numbers that a packed weight [N, K] stands for, as a dense row-major tensor.

    A dense weight is converted to `dtype`.
    """,
    args=[tensor("weight", FLOATS, packed=True), static("dtype", "dtype", DEFAULT_FLOAT)],
    infer=_infer,
)
