"""The operator ``expand``."""

from __future__ import annotations

from typing import Any

from ._shapes import fail, known, same, strides_of, text
from .record import VIEW, Meta, View, op, static, tensor


def _infer(input: Meta, shape: tuple[Any, ...]) -> View:
    new = len(shape) - input.ndim
    if new < 0:
        fail("expand", f"shape {text(shape)} has fewer dims than input {text(input.shape)}")
    sizes: list[Any] = []
    strides: list[Any] = []
    for i, size in enumerate(shape):
        old = input.shape[i - new] if i >= new else 1
        if known(size, -1):
            if i < new:
                fail("expand", f"-1 at dim {i} of shape {text(shape)} names no dim of input")
            size = old
        if type(size) is int and size < 0:
            fail("expand", f"shape {text(shape)} has a negative size; only -1 keeps a dim")
        keep = i >= new and same(size, old)
        if not keep and not known(old, 1):
            fail(
                "expand",
                f"cannot expand {text(input.shape)} to {text(shape)}: dim {i} has size {old}, and "
                f"only size 1 can become {size}",
            )
        sizes.append(size)
        strides.append(strides_of(input)[i - new] if keep else 0)
    return View(tuple(sizes), tuple(strides))


op(
    "expand",
    doc="""
    A view of input with dims of size 1 repeated to the given sizes, by stride 0.

    -1 keeps a dim's size; new dims are put in front.
    """,
    args=[tensor("input"), static("shape", "ints", aliases=("size",), variadic=True)],
    infer=_infer,
    traits={VIEW},
)
