"""The operator ``transpose``."""

from __future__ import annotations

from ._shapes import dim, strides_of
from .record import VIEW, Meta, View, op, static, tensor


def _infer(input: Meta, dim0: int, dim1: int) -> View:
    a = dim("transpose", dim0, input.ndim, name="dim0")
    b = dim("transpose", dim1, input.ndim, name="dim1")
    shape = list(input.shape)
    strides = list(strides_of(input))
    if a != b:
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
    return View(tuple(shape), tuple(strides))


op(
    "transpose",
    doc="A view of input with two dims swapped.",
    args=[tensor("input"), static("dim0", "int"), static("dim1", "int")],
    infer=_infer,
    traits={VIEW},
)
