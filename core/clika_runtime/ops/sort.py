"""The operator ``sort``."""

from __future__ import annotations

from .. import dtypes
from ._promotion import ALL
from ._shapes import dim as front
from .record import Meta, op, static, tensor


def _infer(input: Meta, dim: int, descending: bool, stable: bool) -> tuple[Meta, Meta]:
    front("sort", dim, input.ndim)
    return Meta(input.shape, input.dtype), Meta(input.shape, dtypes.int64)


op(
    "sort",
    doc="""
    input sorted along `dim`, and the int64 indices that do it: values = gather(input, dim,
    indices).

    Equal values keep their order whether `stable` is asked for or not. NaN counts as larger than
    every number.
    """,
    args=[
        tensor("input", ALL),
        static("dim", "int", -1, aliases=("dims",)),
        static("descending", "bool", False),
        static("stable", "bool", False, keyword_only=True),
    ],
    infer=_infer,
    outputs=2,
)
