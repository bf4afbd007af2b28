"""The operator ``stack``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import result_type
from ._shapes import dim as front
from ._shapes import fail, same, text
from .record import Meta, op, static, tensor


def _promote(tensors: list[Meta], dim: int) -> Any:
    return result_type(*tensors)


def _infer(tensors: list[Meta], dim: int) -> Meta:
    if not tensors:
        fail("stack", "expected at least one tensor, got an empty list")
    first = tensors[0]
    for i, meta in enumerate(tensors):
        if meta.ndim != first.ndim or not all(map(same, first.shape, meta.shape)):
            fail(
                "stack",
                f"tensor {i} has shape {text(meta.shape)}, tensor 0 {text(first.shape)}: all must "
                "have the same",
            )
    at = front("stack", dim, first.ndim, extra=1)
    return Meta((*first.shape[:at], len(tensors), *first.shape[at:]), result_type(*tensors))


def _compose(tensors: list[Any], dim: int) -> Any:
    return ops.cat([ops.unsqueeze(one, dim) for one in tensors], dim)


op(
    "stack",
    doc="The tensors, all of one shape, joined along a new dim, in their common dtype.",
    args=[tensor("tensors", sequence=True), static("dim", "int", 0, aliases=("dims",))],
    infer=_infer,
    promote=_promote,
    compose=_compose,
    method=False,
)
