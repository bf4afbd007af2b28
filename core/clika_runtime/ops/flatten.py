"""The operator ``flatten``."""

from __future__ import annotations

from .. import ops
from ._shapes import dim, fail, product, view_strides
from .record import VIEW, Meta, View, op, static, tensor


def _infer(input: Meta, start_dim: int, end_dim: int) -> Meta | View:
    first = dim("flatten", start_dim, input.ndim, name="start_dim")
    last = dim("flatten", end_dim, input.ndim, name="end_dim")
    if first > last:
        fail("flatten", f"start_dim {start_dim} comes after end_dim {end_dim}")
    shape = input.shape
    target = (*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :])
    strides = view_strides(input, target)
    if strides is None:
        return Meta(target, input.dtype)
    return View(target, strides)


op(
    "flatten",
    doc="""
    input with the dims from start_dim to end_dim joined into one.

    A view where the strides allow, else a copy; a 0-d tensor becomes [1].
    """,
    args=[tensor("input"), static("start_dim", "int", 0), static("end_dim", "int", -1)],
    infer=_infer,
    traits={VIEW},
    compose=lambda input, start_dim, end_dim: ops.flatten(ops.copy(input), start_dim, end_dim),
)
