"""The operator ``cat``."""

from __future__ import annotations

from typing import Any

from ._promotion import result_type
from ._shapes import dim as front
from ._shapes import fail, same, text
from .record import Meta, op, static, tensor


def _promote(tensors: list[Meta], dim: int) -> Any:
    return result_type(*tensors)


def _infer(tensors: list[Meta], dim: int) -> Meta:
    if not tensors:
        fail("cat", "expected at least one tensor, got an empty list")
    first = tensors[0]
    if first.ndim == 0:
        fail("cat", "0-d tensors cannot be joined; use stack")
    at = front("cat", dim, first.ndim)
    total: Any = 0
    for i, meta in enumerate(tensors):
        others = [d for d in range(first.ndim) if d != at]
        if meta.ndim != first.ndim or not all(same(first.shape[d], meta.shape[d]) for d in others):
            fail(
                "cat",
                f"tensor {i} has shape {text(meta.shape)}, tensor 0 {text(first.shape)}: they must "
                f"agree in all dims but {at}",
            )
        total = meta.shape[at] if i == 0 else total + meta.shape[at]
    return Meta((*first.shape[:at], total, *first.shape[at + 1 :]), result_type(*tensors))


op(
    "cat",
    doc="The tensors joined along an existing dim, in their common dtype.",
    args=[tensor("tensors", sequence=True), static("dim", "int", 0, aliases=("dims",))],
    infer=_infer,
    promote=_promote,
    method=False,
)
