"""The operator ``argmax``."""

from __future__ import annotations

from .. import dtypes
from ._promotion import NUMBERS
from ._shapes import dims, fail, known, reduced
from .record import REDUCTION, Meta, op, static, tensor


def _infer(input: Meta, dim: int | None, keepdim: bool) -> Meta:
    over = dims("argmax", None if dim is None else (dim,), input.ndim)
    for i in over:
        if input.ndim and known(input.shape[i], 0):
            fail("argmax", f"dim {i} has size 0, and there is no largest element")
    return Meta(reduced("argmax", input.shape, over, keepdim), dtypes.int64)


op(
    "argmax",
    doc="""
    The int64 index of the largest element along `dim`; of the flattened tensor where dim is None.

    The first one among equal elements; a NaN counts as the largest, the first NaN wins.
    """,
    args=[
        tensor("input", NUMBERS),
        static("dim", "int", None, aliases=("dims",)),
        static("keepdim", "bool", False),
    ],
    infer=_infer,
    traits={REDUCTION},
)
