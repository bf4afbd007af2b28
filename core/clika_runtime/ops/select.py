"""The operator ``select``."""

from __future__ import annotations

from typing import Any

from ._shapes import dim as front
from ._shapes import fail, product, strides_of
from .record import VIEW, Meta, View, op, static, tensor


def _infer(input: Meta, dim: int, index: Any) -> View:
    if input.ndim == 0:
        fail("select", "input has no dims; a 0-d tensor has nothing to select from")
    at = front("select", dim, input.ndim)
    size = input.shape[at]
    if type(index) is int:
        if type(size) is int and not -size <= index < size:
            fail("select", f"index {index} is out of range for dim {at} of size {size}")
        index = size + index if index < 0 else index
    strides = strides_of(input)
    return View(
        (*input.shape[:at], *input.shape[at + 1 :]),
        (*strides[:at], *strides[at + 1 :]),
        product((index, strides[at])),
    )


op(
    "select",
    doc="A view of the entry `index` of input along `dim`, without that dim.",
    args=[tensor("input"), static("dim", "int"), static("index", "int")],
    infer=_infer,
    traits={VIEW},
)
