"""The operator ``gather``."""

from __future__ import annotations

from .. import dtypes
from ._promotion import INDEX, INTS
from ._shapes import dim as front
from ._shapes import fail, known, text
from .record import Meta, op, static, tensor


def _infer(input: Meta, dim: int, index: Meta) -> Meta:
    at = front("gather", dim, input.ndim)
    if any(known(size, 0) for size in index.shape):
        return Meta(index.shape, input.dtype)
    if max(input.ndim, 1) != max(index.ndim, 1):
        fail(
            "gather",
            f"index {text(index.shape)} must have as many dims as input {text(input.shape)}",
        )
    for i, (size, wanted) in enumerate(zip(input.shape, index.shape, strict=False)):
        if i != at and type(size) is int and type(wanted) is int and wanted > size:
            fail(
                "gather",
                f"index {text(index.shape)} is larger than input {text(input.shape)} at dim {i}, "
                f"which is not the gathered dim {at}",
            )
    return Meta(index.shape, input.dtype)


op(
    "gather",
    doc="""
    Picks entries along `dim`: for dim 1 of a matrix, result[i, j] = input[i, index[i, j]].

    The result has index's shape. An index outside 0 .. size-1 is an error of the kernel.
    """,
    args=[tensor("input"), static("dim", "int"), tensor("index", INTS)],
    infer=_infer,
    promote=lambda input, dim, index: (
        None,
        None if index.dtype.name in INDEX else dtypes.int64,
    ),
)
