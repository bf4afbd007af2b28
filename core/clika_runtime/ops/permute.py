"""The operator ``permute``."""

from __future__ import annotations

from ._shapes import dims, fail, strides_of
from .record import VIEW, Meta, View, op, static, tensor


def _infer(input: Meta, dims_: tuple[int, ...]) -> View:
    if len(dims_) != input.ndim:
        fail("permute", f"dims {list(dims_)} must name each of the {input.ndim} dims of input once")
    order = dims("permute", dims_, input.ndim, name="dims")
    strides = strides_of(input)
    return View(tuple(input.shape[i] for i in order), tuple(strides[i] for i in order))


op(
    "permute",
    doc="A view of input with its dims in another order: dim i of it is dim dims[i] of input.",
    args=[tensor("input"), static("dims", "ints", aliases=("dim",), variadic=True)],
    infer=_infer,
    traits={VIEW},
)
