"""The operator ``narrow``."""

from __future__ import annotations

from typing import Any

from ._shapes import dim as front
from ._shapes import fail, product, strides_of
from .record import VIEW, Meta, View, op, static, tensor


def _infer(input: Meta, dim: int, start: Any, length: Any) -> View:
    if input.ndim == 0:
        fail("narrow", "input has no dims; a 0-d tensor cannot be narrowed")
    at = front("narrow", dim, input.ndim)
    size = input.shape[at]
    if type(start) is int and start < 0:
        start = size + start
    if type(size) is int and type(start) is int and type(length) is int:
        if not (0 <= start and 0 <= length and start + length <= size):
            fail(
                "narrow",
                f"start {start} and length {length} do not fit into dim {at} of size {size}",
            )
    strides = strides_of(input)
    return View(
        (*input.shape[:at], length, *input.shape[at + 1 :]),
        strides,
        product((start, strides[at])),
    )


op(
    "narrow",
    doc="A view of the `length` entries of input from `start` on along `dim`.",
    args=[
        tensor("input"),
        static("dim", "int"),
        static("start", "int"),
        static("length", "int"),
    ],
    infer=_infer,
    traits={VIEW},
)
