"""The operator ``softmax``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import FLOATS
from ._shapes import dim as front
from .record import Meta, op, static, tensor


def _infer(input: Meta, dim: int) -> Meta:
    front("softmax", dim, input.ndim)
    return Meta(input.shape, input.dtype)


def _compose(input: Any, dim: int) -> Any:
    raised = ops.exp(ops.sub(input, ops.amax(input, dim, True)))
    return ops.div(raised, ops.sum(raised, dim, True))


op(
    "softmax",
    doc="""
    e^(x - max(x)) / sum(e^(x - max(x))) along `dim`.

    Computed in float32 for the 16-bit dtypes.
    """,
    args=[tensor("input", FLOATS), static("dim", "int", -1, aliases=("dims",))],
    infer=_infer,
    compose=_compose,
)
