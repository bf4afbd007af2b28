"""The operator ``copy_``."""

from __future__ import annotations

from typing import Any

from ._shapes import broadcast, convertible, fail, text
from .record import Meta, op, tensor


def _infer(input: Meta, source: Meta) -> Meta:
    if broadcast("copy_", input.shape, source.shape) != tuple(input.shape):
        fail("copy_", f"a source {text(source.shape)} does not fit into {text(input.shape)}")
    convertible("copy_", source, input)
    return Meta(input.shape, input.dtype)


def _promote(input: Meta, source: Meta) -> tuple[Any, Any]:
    return None, input.dtype


op(
    "copy_",
    doc="""
    Writes source into input, in place; returns input.

    The source broadcasts to input's shape and is converted to its dtype. Views of input see the
    change.
    """,
    args=[tensor("input"), tensor("source", number=True)],
    infer=_infer,
    promote=_promote,
    mutates=0,
)
