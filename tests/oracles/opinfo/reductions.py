"""Twins of reductions, order and search, indexing by place, and masked reductions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from clika_runtime import dtypes, ops

from . import Twin
from .elementwise import wider

LOWEST = {
    "bfloat16": -math.inf,
    "float16": -math.inf,
    "float32": -math.inf,
    "float64": -math.inf,
    "int64": -(2**63),
    "bool": 0,
}


# ---------------------------------------------------------------- order
def _same_picks(got: Any, want: Any, sample: Any) -> None:
    """Values agree, and each index names an element of that value: which one of several equal ones
    is torch's own business."""
    import torch

    values, indices = got
    expected, theirs = want
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
    assert indices.dtype == theirs.dtype and indices.shape == theirs.shape
    _names(sample, indices, theirs)


def _names(sample: Any, ours: Any, theirs: Any) -> None:
    """Both sets of indices name the same values of the sample along its dim."""
    import torch

    input = sample.input
    if input.ndim == 0:
        assert not ours.any()
        return
    dims = [value for value in sample.args if isinstance(value, int)]
    dim = sample.kwargs.get("dim", _dim_of(sample, dims))
    if ours.ndim < input.ndim:
        ours, theirs = ours.unsqueeze(dim), theirs.unsqueeze(dim)
    for_ours, for_theirs = input.gather(dim, ours), input.gather(dim, theirs)
    torch.testing.assert_close(for_ours, for_theirs, rtol=0, atol=0, equal_nan=True)


def _dim_of(sample: Any, numbers: list[Any]) -> int:
    """sort and mode have the dim first; topk and kthvalue have it after k."""
    first = 1 if sample.kind == "ranked" else 0
    return -1 if len(numbers) <= first else int(numbers[first])


class _Kind:
    """A sample that knows whether its first number is a rank."""

    def __init__(self, sample: Any, kind: str) -> None:
        self.input, self.args, self.kwargs, self.kind = (
            sample.input,
            sample.args,
            sample.kwargs,
            kind,
        )


def picks(call: Callable[..., Any], kind: str = "plain") -> Twin:
    return Twin(call, compare=lambda got, want, sample: _same_picks(got, want, _Kind(sample, kind)))


def _same_order(got: Any, want: Any, sample: Any) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape
    _names(_Kind(sample, "plain"), got, want)


def _same_bins(got: Any, want: Any, sample: Any) -> None:
    """Counts agree; in bfloat16, in whose arithmetic torch finds the bin, elements may be one bin
    off."""
    import torch

    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype == torch.float32:
        assert torch.equal(got, want)
        return
    moved = (got.double() - want.double()).cumsum(0)
    assert moved[-1] == 0
    assert moved.abs().sum() <= sample.input.numel()


# ---------------------------------------------------------------- segments
def segment_reduce(
    data: Any, reduce: str, *, unsafe: bool, axis: int, initial: Any, **cuts: Any
) -> Any:
    return ops.segment_reduce(data, reduce, axis=axis, initial=initial, **cuts)


# ---------------------------------------------------------------- masked reductions
def _filled(input: Any, mask: Any, fill: Any) -> Any:
    return input if mask is None else ops.where(mask, input, fill)


def _whole(dtype: Any, wanted: Any) -> Any:
    if wanted is not None:
        return wanted
    return dtype if dtype.kind == "f" else dtypes.int64


def masked_sum(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    input = ops.cast(input, _whole(input.dtype, dtype))
    return ops.sum(_filled(input, mask, 0), dim, bool(keepdim))


def masked_prod(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    input = ops.cast(input, _whole(input.dtype, dtype))
    filled = _filled(input, mask, 1)
    if dim == ():  # torch multiplies over each dim that is named
        return filled
    return ops.prod(filled, dim, bool(keepdim))


def masked_extreme(reduce: Callable[..., Any], sign: int) -> Callable[..., Any]:
    def call(
        input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
    ) -> Any:
        input = input if dtype is None else ops.cast(input, dtype)
        lowest = LOWEST[input.dtype.name]
        fill = lowest if sign > 0 else -lowest if input.dtype.kind == "f" else 2**63 - 1
        return reduce(_filled(input, mask, fill), dim, bool(keepdim))

    return call


def masked_mean(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    dtype = input.dtype if dtype is None else dtype
    if dtype.kind != "f":
        dtype = dtypes.float32
    if mask is None:
        return ops.mean(input, dim, bool(keepdim), dtype=dtype)
    count = ops.sum(ops.expand(mask, input.shape), dim, bool(keepdim))
    return ops.div(ops.sum(_filled(input, mask, 0), dim, bool(keepdim), dtype=dtype), count)


def masked_median(
    input: Any, dim: int, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    if mask is None:
        return ops.median(input, dim, keepdim)[0]
    return ops.nanmedian(_filled(input, mask, math.nan), dim, keepdim)[0]


def masked_norm(
    input: Any,
    ord: Any = 2.0,
    dim: Any = None,
    *,
    keepdim: Any = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    fill = 0.0 if ord >= 0 else math.inf
    return ops.vector_norm(_filled(input, mask, fill), ord, dim, bool(keepdim), dtype=dtype)


def masked_var(
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    *,
    correction: Any = None,
    keepdim: Any = False,
    dtype: Any = None,
    mask: Any = None,
    root: bool = False,
) -> Any:
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    dtype = dtype or (input.dtype if input.dtype.kind == "f" else dtypes.float32)
    wide = dtypes.float32 if dtype in (dtypes.bfloat16, dtypes.float16) else dtype
    value = ops.cast(input, wide)
    whole = ops.ones(input.shape, dtype=dtypes.bool) if mask is None else mask
    whole = ops.expand(whole, input.shape)
    count = ops.sum(whole, dim, True)
    mean = ops.div(ops.sum(ops.where(whole, value, 0.0), dim, True), count)
    distance = ops.where(whole, ops.sub(value, mean), 0.0)
    total = ops.sum(ops.mul(distance, distance), dim, bool(keepdim))
    count = ops.sum(whole, dim, bool(keepdim))
    result = ops.div(total, ops.clamp(ops.sub(count, correction), 0))
    return ops.cast(ops.sqrt(result) if root else result, dtype)


def masked_std(*args: Any, **options: Any) -> Any:
    return masked_var(*args, **options, root=True)


def masked_argument(find: Callable[..., Any], sign: int) -> Callable[..., Any]:
    def call(input: Any, dim: Any = None, *, keepdim: Any = False, mask: Any = None) -> Any:
        lowest = LOWEST[input.dtype.name]
        fill = lowest if sign > 0 else -lowest if input.dtype.kind == "f" else 2**63 - 1
        return ops.cast(find(_filled(input, mask, fill), dim, bool(keepdim)), input.dtype)

    return call


def masked_along(function: Callable[..., Any], fill: Any) -> Callable[..., Any]:
    """A function along a dim with what is masked taken for `fill`."""

    def call(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
        input = input if dtype is None else ops.cast(input, dtype)
        return function(_filled(input, mask, fill), dim)

    return call


def masked_logsumexp(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    filled = _filled(input, mask, LOWEST[input.dtype.name])
    return ops.cast(ops.logsumexp(filled, dim, bool(keepdim)), dtype or input.dtype)


def masked_normalize(
    input: Any, ord: Any, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    norm = masked_norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return ops.div(_filled(input, mask, 0.0), ops.clamp(norm, min=eps))


def masked_logaddexp(input: Any, other: Any, *, input_mask: Any, other_mask: Any) -> Any:
    return ops.logaddexp(
        _filled(input, input_mask, -math.inf), _filled(other, other_mask, -math.inf)
    )


TWINS: dict[str, Any] = {
    "linalg.vector_norm": ops.vector_norm,
    # With a divisor of 0.06 that is a difference: float32 gives five digits.
    "cov": Twin(ops.cov, close={"float32": (3e-5, 1e-5)}),
    "sort": picks(ops.sort),
    "argsort": Twin(ops.argsort, compare=_same_order),
    "topk": picks(ops.topk, "ranked"),
    "kthvalue": picks(ops.kthvalue, "ranked"),
    "mode": picks(ops.mode),
    "histc": Twin(ops.histc, compare=_same_bins),
    # torch adds weights one after the other in float32, here they are added in float64.
    "histogram": Twin(ops.histogram, close={"float32": (1e-5, 1e-4)}),
    "log_softmax": wider("log_softmax", ops.log_softmax),
    "log_softmax.with_dtype": ops.log_softmax,
    # Differences of numbers to 9, which are rounded to 1/32, cancel.
    "gradient": Twin(ops.gradient, close={"bfloat16": (1.6e-2, 7e-2)}),
    "index_reduce.mean": wider("index_reduce.mean", ops.index_reduce),
    "_segment_reduce.lengths": wider("_segment_reduce.lengths", segment_reduce),
    "_segment_reduce.offsets": wider("_segment_reduce.offsets", segment_reduce),
    "masked.sum": masked_sum,
    "masked.prod": masked_prod,
    "masked.amax": masked_extreme(ops.amax, 1),
    "masked.amin": masked_extreme(ops.amin, -1),
    "masked.mean": masked_mean,
    "masked.median": masked_median,
    "masked.norm": masked_norm,
    # torch rounds the mean to bfloat16 before it takes it off
    "masked.var": Twin(masked_var, close={"bfloat16": (5e-2, 1e-3)}),
    "masked.std": Twin(masked_std, close={"bfloat16": (5e-2, 1e-3)}),
    "masked.argmax": masked_argument(ops.argmax, 1),
    "masked.argmin": masked_argument(ops.argmin, -1),
    "masked.cumsum": masked_along(ops.cumsum, 0),
    "masked.cumprod": masked_along(ops.cumprod, 1),
    "masked.softmax": masked_along(ops.softmax, -math.inf),
    "masked.log_softmax": wider("masked.log_softmax", masked_along(ops.log_softmax, -math.inf)),
    "masked.softmin": masked_along(ops.softmin, math.inf),
    "masked.normalize": masked_normalize,
    "masked.logsumexp": wider("masked.logsumexp", masked_logsumexp),
    "masked.logaddexp": masked_logaddexp,
}
