"""The operator ``reshape``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._shapes import resolve_reshape, view_strides
from .record import VIEW, Meta, View, op, static, tensor


def _infer(input: Meta, shape: tuple[Any, ...]) -> Meta | View:
    target = resolve_reshape("reshape", input.shape, shape)
    strides = view_strides(input, target)
    if strides is None:
        return Meta(target, input.dtype)
    return View(target, strides)


op(
    "reshape",
    doc="""
    The elements of input, in row-major order, under another shape.

    One size may be -1 and is worked out. The result shares input's bytes where its strides allow,
    else it is a copy.
    """,
    args=[tensor("input"), static("shape", "ints", aliases=("size",), variadic=True)],
    infer=_infer,
    traits={VIEW},
    compose=lambda input, shape: ops.reshape(ops.copy(input), shape),
)
