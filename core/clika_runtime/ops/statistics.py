"""Covariance and correlation."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import FLOATS, INTS, promote_types, to_float
from ._shapes import fail, same, text
from .record import Meta, op, static, tensor


def _square(name: str, input: Meta) -> tuple[Any, ...]:
    if input.ndim > 2:
        fail(name, f"input must be a vector or [variables, observations], got {text(input.shape)}")
    one = input.ndim < 2 or same(input.shape[0], 1)
    return () if one else (input.shape[0], input.shape[0])


def _dtype(input: Any, aweights: Any = None) -> Any:
    dtype = to_float(input.dtype)
    return dtype if aweights is None else promote_types(dtype, to_float(aweights.dtype))


def _infer_cov(input: Meta, fweights: Meta | None, aweights: Meta | None, correction: int) -> Meta:
    shape = _square("cov", input)
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        count = input.shape[-1] if input.ndim else 1
        if weights.ndim > 1 or not same(weights.shape[0] if weights.ndim else 1, count):
            fail("cov", f"{name} {text(weights.shape)} must be [{count}], one per observation")
    return Meta(shape, _dtype(input, aweights))


def _cov(input: Any, fweights: Any, aweights: Any, correction: int) -> Any:
    x = ops.cast(input, _dtype(input, aweights))
    x = ops.reshape(x, (1, -1)) if len(x.shape) < 2 else x
    weights = fweights if aweights is None else aweights
    if fweights is not None and aweights is not None:
        weights = ops.mul(fweights, aweights)
    if weights is None:
        total: Any = x.shape[1]
        mean = ops.mean(x, 1, True)
        divisor: Any = total - correction
    else:
        weights = ops.cast(ops.reshape(weights, (-1,)), x.dtype)
        total = ops.sum(weights)
        mean = ops.div(ops.sum(ops.mul(x, weights), 1, True), total)
        if aweights is None or correction == 0:
            divisor = ops.sub(total, correction)
        else:
            share = ops.sum(ops.mul(weights, ops.cast(ops.reshape(aweights, (-1,)), x.dtype)))
            divisor = ops.sub(total, ops.div(ops.mul(share, correction), total))
    centred = ops.sub(x, mean)
    weighed = centred if weights is None else ops.mul(centred, weights)
    product = ops.matmul(weighed, ops.transpose(centred, 0, 1))
    if weights is None:
        result = ops.div(product, float(max(divisor, 0)) if type(divisor) is int else divisor)
    else:
        result = ops.div(product, ops.clamp(divisor, 0))
    return ops.reshape(result, ()) if same(x.shape[0], 1) else result


op(
    "cov",
    doc="""
    The covariance matrix of variables (the rows of input): sum w (x_i - mean_i) (x_j - mean_j) / d.

    One variable, a vector or a single row, gives its variance, 0-d. The weight w of an observation
    is that of `fweights` (how often it was made) times that of `aweights` (how much it counts); d
    is sum w - `correction` * sum(w aweights) / sum w, at least 0.
    """,
    args=[
        tensor("input", FLOATS | INTS),
        tensor("fweights", INTS, optional=True),
        tensor("aweights", FLOATS | INTS, optional=True),
        static("correction", "int", 1, keyword_only=True),
    ],
    infer=_infer_cov,
    compose=_cov,
)


def _corrcoef(input: Any) -> Any:
    covariance = ops.cov(input)
    if len(covariance.shape) == 0:
        return ops.div(covariance, covariance)
    spread = ops.sqrt(ops.diagonal(covariance))
    # Row and column one after the other: their product might overflow.
    result = ops.div(ops.div(covariance, ops.unsqueeze(spread, 1)), ops.unsqueeze(spread, 0))
    return ops.clamp(result, -1.0, 1.0)


op(
    "corrcoef",
    doc="""
    Pearson's correlation coefficients of variables (the rows of input): cov_ij / sqrt(cov_ii
    cov_jj).
    """,
    args=[tensor("input", FLOATS | INTS)],
    infer=lambda input: Meta(_square("corrcoef", input), _dtype(input)),
    compose=_corrcoef,
)
