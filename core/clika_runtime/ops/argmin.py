"""The operator ``argmin``."""

from __future__ import annotations

from .. import dtypes
from ._promotion import NUMBERS
from ._shapes import dims, fail, known, reduced
from .record import REDUCTION, Meta, op, static, tensor


def _infer(input: Meta, dim: int | None, keepdim: bool) -> Meta:
    over = dims("argmin", None if dim is None else (dim,), input.ndim)
    for i in over:
        if input.ndim and known(input.shape[i], 0):
            fail("argmin", f"dim {i} has size 0, and there is no smallest element")
    return Meta(reduced("argmin", input.shape, over, keepdim), dtypes.int64)


op(
    "argmin",
    doc="""
    The int64 index of the smallest element along `dim`; of the flattened tensor where dim is None.

    The first one among equal elements; a NaN counts as the smallest, the first NaN wins.
    """,
    args=[
        tensor("input", NUMBERS),
        static("dim", "int", None, aliases=("dims",)),
        static("keepdim", "bool", False),
    ],
    infer=_infer,
    traits={REDUCTION},
)
