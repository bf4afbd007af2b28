"""The operator ``topk``."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._promotion import ALL
from ._shapes import dim as front
from ._shapes import fail
from .record import Meta, op, static, tensor


def _infer(input: Meta, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Meta, Meta]:
    at = front("topk", dim, input.ndim)
    size = input.shape[at] if input.ndim else 1
    if k < (input.ndim == 0) or (type(size) is int and k > size):
        fail("topk", f"k {k} must be between 0 and the size {size} of dim {at}")
    shape = (*input.shape[:at], k, *input.shape[at + 1 :]) if input.ndim else ()
    return Meta(shape, input.dtype), Meta(shape, dtypes.int64)


def _compose(input: Any, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Any, Any]:
    values, indices = ops.sort(input, dim, largest)
    if len(input.shape) == 0:
        return values, indices
    return ops.narrow(values, dim, 0, k), ops.narrow(indices, dim, 0, k)


op(
    "topk",
    doc="""
    The k largest (or smallest) values along `dim` and their int64 indices, best first.

    Both results have size k along `dim` and input's other dims. Among equal values the lower index
    comes first. NaN counts as larger than every number. `sorted` is accepted; the result is sorted
    either way.
    """,
    args=[
        tensor("input", ALL),
        static("k", "int"),
        static("dim", "int", -1, aliases=("dims",)),
        static("largest", "bool", True),
        static("sorted", "bool", True),
    ],
    infer=_infer,
    outputs=2,
    compose=_compose,
)
