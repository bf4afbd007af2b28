"""Reductions over segments of a dim."""

from __future__ import annotations

from typing import Any

from ._promotion import FLOATS, INDEX
from ._shapes import dim as front
from ._shapes import fail, same, text
from .record import REDUCTION, Meta, op, scalar, static, tensor


def _infer(
    data: Meta,
    reduce: str,
    lengths: Meta | None,
    offsets: Meta | None,
    axis: int,
    initial: Any,
) -> Meta:
    name = "segment_reduce"
    if (lengths is None) == (offsets is None):
        fail(name, "give one of lengths and offsets")
    if data.ndim == 0:
        fail(name, "data must have at least one dim")
    at = front(name, axis, data.ndim, name="axis")
    what, cuts = ("lengths", lengths) if offsets is None else ("offsets", offsets)
    assert cuts is not None
    if cuts.ndim != at + 1 or not all(map(same, cuts.shape[:at], data.shape[:at])):
        fail(
            name,
            f"{what} {text(cuts.shape)} must have the dims of data {text(data.shape)} before axis "
            f"{at}, and one for the segments",
        )
    count = cuts.shape[at]
    if offsets is not None:
        if type(count) is int and count < 1:
            fail(name, "offsets must hold at least one number")
        count = count - 1
    return Meta((*data.shape[:at], count, *data.shape[at + 1 :]), data.dtype)


op(
    "segment_reduce",
    doc="""
    The "sum", "mean", "max", "min" or "prod" of each segment of data along `axis`.

    The segments lie one after the other: `lengths` says how long each is, or `offsets` where each
    begins and the last one ends; what is left over belongs to none. `initial` takes part in every
    segment; without it a segment of nothing gives 0, NaN, -inf, inf or 1. Segments that do not fit
    the dim are an error of the kernel.
    """,
    args=[
        tensor("data", FLOATS, aliases=("input",)),
        static("reduce", "str", "sum", modes=("sum", "mean", "max", "min", "prod")),
        tensor("lengths", INDEX, optional=True),
        tensor("offsets", INDEX, optional=True),
        static("axis", "int", 0, keyword_only=True, aliases=("dim",)),
        scalar("initial", "float", None, keyword_only=True),
    ],
    infer=_infer,
    traits={REDUCTION},
    method=False,
)
