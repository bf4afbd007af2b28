"""The operator ``unsqueeze``."""

from __future__ import annotations

from ._shapes import dim as front
from ._shapes import product, strides_of
from .record import VIEW, Meta, View, op, static, tensor


def _infer(input: Meta, dim: int) -> View:
    at = front("unsqueeze", dim, input.ndim, extra=1)
    strides = strides_of(input)
    step = product((input.shape[at], strides[at])) if at < input.ndim else 1
    return View(
        (*input.shape[:at], 1, *input.shape[at:]),
        (*strides[:at], step, *strides[at:]),
    )


op(
    "unsqueeze",
    doc="A view of input with a dim of size 1 put in before `dim`; -1 puts it at the end.",
    args=[tensor("input"), static("dim", "int", aliases=("dims",))],
    infer=_infer,
    traits={VIEW},
)
