"""Counts of values: bins and histograms."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ._promotion import BOOL, FLOATS, INTS
from ._shapes import fail, same, text
from .record import Meta, op, scalar, static, tensor


def _infer_bincount(input: Meta, weights: Meta | None, minlength: int) -> Meta:
    name = "bincount"
    if input.ndim != 1:
        fail(name, f"input must be a vector, got shape {text(input.shape)}")
    if minlength < 0:
        fail(name, f"minlength {minlength} must be 0 or more")
    if weights is None:
        return Meta((None,), dtypes.int64)
    if weights.ndim != 1 or not same(weights.shape[0], input.shape[0]):
        fail(name, f"weights {text(weights.shape)} must have the shape of input")
    return Meta((None,), _weighed(weights))


def _weighed(weights: Meta | None) -> Any:
    if weights is None:
        return None
    return weights.dtype if weights.dtype is dtypes.float32 else dtypes.float64


op(
    "bincount",
    doc="""
    How often each number occurs in a vector of integers >= 0: result[v] is the count of v, int64.

    With `weights` it is the sum of the weights where input is v, float32 for float32 weights, else
    float64. The result has one element more than the largest number, and at least `minlength`; its
    size depends on the data: the call cannot be recorded. A negative number is an error of the
    kernel.
    """,
    args=[
        tensor("input", INTS | BOOL),
        tensor("weights", FLOATS | INTS | BOOL, optional=True),
        static("minlength", "int", 0),
    ],
    infer=_infer_bincount,
    promote=lambda input, weights, minlength: (dtypes.int64, _weighed(weights)),
)


def _infer_histc(input: Meta, bins: int, low: Any, high: Any) -> Meta:
    if bins < 1:
        fail("histc", f"bins {bins} must be 1 or more")
    return Meta((bins,), input.dtype)


op(
    "histc",
    doc="""
    How many elements lie in each of `bins` bins of equal width from `min` to `max`, in input's
    dtype.

    An element x counts for bin floor((x - min) bins / (max - min)), one that is max for the last;
    those outside, and NaN, do not count. Where min and max are equal, they are the smallest and
    the largest element, and where those are equal, 1 less and 1 more.
    """,
    args=[
        tensor("input", FLOATS),
        static("bins", "int", 100),
        scalar("min", "float", 0.0),
        scalar("max", "float", 0.0),
    ],
    infer=_infer_histc,
)


def _infer_histogram(
    input: Meta, bins: Meta, weight: Meta | None, range: Any, density: bool
) -> tuple[Meta, Meta]:
    name = "histogram"
    if not bins.weak and (bins.ndim != 1 or bins.dtype is not input.dtype):
        fail(
            name,
            f"bins must be a number, or a vector of edges in input's dtype {input.dtype.name}, got "
            f"{bins.dtype.name}{text(bins.shape)}",
        )
    if bins.weak and bins.dtype is not dtypes.int64:
        fail(name, "bins must be a whole number or a vector of edges")
    if range is not None and len(range) != 2:
        fail(name, f"range must be the two ends, got {list(range)}")
    if range is not None and not bins.weak:
        fail(name, "range goes with a number of bins, not with edges")
    if weight is not None:
        fits = weight.ndim == input.ndim and all(map(same, weight.shape, input.shape))
        if not fits or weight.dtype is not input.dtype:
            fail(
                name,
                f"weight {weight.dtype.name}{text(weight.shape)} must have dtype and shape of "
                f"input {input.dtype.name}{text(input.shape)}",
            )
    if bins.weak:
        return Meta((None,), input.dtype), Meta((None,), input.dtype)
    edges = bins.shape[0]
    if type(edges) is int and edges < 2:
        fail(name, f"bins {text(bins.shape)} must hold two edges or more")
    return Meta((edges - 1,), input.dtype), Meta((edges,), input.dtype)


op(
    "histogram",
    doc="""
    The pair (counts, edges): how many elements lie between neighbouring edges of bins.

    `bins` is a vector of ascending edges, or a number of bins of equal width over `range`, by
    default from the smallest to the largest element (one half less and more where they are equal; 0
    and 1 for no elements). A bin has its left edge, the last one both. With `weight` elements count
    for their weights; with `density` the counts are divided by their sum and by the bins' widths.
    With a number of bins the call cannot be recorded.
    """,
    args=[
        tensor("input", frozenset(("float32", "float64"))),
        tensor("bins", frozenset(("float32", "float64", "int64")), number=True),
        tensor("weight", frozenset(("float32", "float64")), optional=True),
        static("range", "floats", None, keyword_only=True),
        static("density", "bool", False, keyword_only=True),
    ],
    infer=_infer_histogram,
    outputs=2,
)
