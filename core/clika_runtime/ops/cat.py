"""The operator ``cat``."""

from __future__ import annotations

from typing import Any

from ._promotion import result_type
from ._shapes import dim as front
from ._shapes import fail, known, same, text
from .record import Meta, op, static, tensor


def _promote(tensors: list[Meta], dim: int) -> Any:
    return result_type(*tensors)


def _nothing(meta: Meta) -> bool:
    """A tensor of shape [0] joins with anything and adds nothing."""
    return meta.ndim == 1 and known(meta.shape[0], 0)


def _infer(tensors: list[Meta], dim: int) -> Meta:
    if not tensors:
        fail("cat", "expected at least one tensor, got an empty list")
    lead = next((i for i, meta in enumerate(tensors) if not _nothing(meta)), 0)
    first = tensors[lead]
    if first.ndim == 0:
        fail("cat", "0-d tensors cannot be joined; use stack")
    at = front("cat", dim, first.ndim)
    total: Any = 0
    for i, meta in enumerate(tensors):
        if _nothing(meta):
            continue
        others = [d for d in range(first.ndim) if d != at]
        if meta.ndim != first.ndim or not all(same(first.shape[d], meta.shape[d]) for d in others):
            fail(
                "cat",
                f"tensor {i} has shape {text(meta.shape)}, tensor {lead} {text(first.shape)}: they "
                f"must agree in all dims but {at}",
            )
        total = meta.shape[at] if i == lead else total + meta.shape[at]
    return Meta((*first.shape[:at], total, *first.shape[at + 1 :]), result_type(*tensors))


op(
    "cat",
    doc="""
    The tensors joined along an existing dim, in their common dtype.

    They agree in all other dims; one of shape [0] adds nothing to tensors of any rank.
    """,
    args=[tensor("tensors", sequence=True), static("dim", "int", 0, aliases=("dims",))],
    infer=_infer,
    promote=_promote,
    method=False,
)
