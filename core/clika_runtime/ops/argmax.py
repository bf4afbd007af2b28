"""The operator ``argmax``."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ._promotion import ALL, INDEX
from ._shapes import dims, fail, known, reduced
from .record import REDUCTION, Meta, op, static, tensor


def declare_position(name: str, word: str) -> None:
    """Declares ``name(input, dim, keepdim, index_dtype=)``."""

    def infer(input: Meta, dim: int | None, keepdim: bool, index_dtype: Any) -> Meta:
        over = dims(name, None if dim is None else (dim,), input.ndim)
        for i in over:
            if input.ndim and known(input.shape[i], 0):
                fail(name, f"dim {i} has size 0, and there is no {word} element")
        dtype = dtypes.int64 if index_dtype is None else index_dtype
        if dtype.name not in INDEX:
            fail(name, f"index_dtype must be int32 or int64, got {dtype.name}")
        return Meta(reduced(name, input.shape, over, keepdim), dtype)

    op(
        name,
        doc=f"""
        The index of the {word} element along `dim`; of the flattened tensor where dim is None.

        The first one among equal elements; a NaN counts as the {word}, the first NaN wins. The
        indices are int64, or int32 if `index_dtype` says so.
        """,
        args=[
            tensor("input", ALL),
            static("dim", "int", None, aliases=("dims",)),
            static("keepdim", "bool", False),
            static("index_dtype", "dtype", None, keyword_only=True),
        ],
        infer=infer,
        traits={REDUCTION},
    )


declare_position("argmax", "largest")
