"""The operator ``index_select``."""

from __future__ import annotations

from ._promotion import INDEX
from ._shapes import dim as front
from ._shapes import fail, text
from .record import Meta, op, static, tensor


def _infer(input: Meta, dim: int, index: Meta) -> Meta:
    at = front("index_select", dim, input.ndim)
    if index.ndim > 1:
        fail("index_select", f"index must have one dim, got shape {text(index.shape)}")
    if input.ndim == 0:
        return Meta((), input.dtype)
    count = index.shape[0] if index.ndim else 1
    return Meta((*input.shape[:at], count, *input.shape[at + 1 :]), input.dtype)


op(
    "index_select",
    doc="""
    The entries of input along `dim` that index names: result[.., i, ..] = input[.., index[i], ..].

    An index outside 0 .. size-1 is an error of the kernel.
    """,
    args=[tensor("input"), static("dim", "int"), tensor("index", INDEX, aliases=("indices",))],
    infer=_infer,
)
