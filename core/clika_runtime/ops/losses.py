"""Losses of torch.nn.functional: Python functions over operators, for measuring models. `reduction`
is ``"none"``, ``"mean"`` or ``"sum"``. float16 and bfloat16 are computed in float32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import ops
from ..errors import InvalidArgumentError
from ._functions import of_tensors
from ._promotion import result_type
from ._shapes import fail, text
from .distances import _wide, cosine_similarity, pairwise_distance
from .record import Meta, static

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native._core import Tensor

_REDUCTION = static("reduction", "str", "mean", modes=("none", "mean", "sum"))


def _reduce(values: Any, reduction: str, dtype: Any, weight: Any = None) -> Any:
    """The values themselves, their sum, or their mean, over the total of `weight` if given."""
    _REDUCTION.mode_index(reduction)
    if reduction == "sum":
        values = ops.sum(values)
    elif reduction == "mean":
        values = ops.mean(values) if weight is None else ops.div(ops.sum(values), ops.sum(weight))
    return ops.cast(values, dtype)


def _common(*tensors: Tensor) -> Any:
    return result_type(*(Meta(tuple(x.shape), x.dtype) for x in tensors))


def _floats(name: str, *tensors: Tensor) -> Any:
    """The common dtype of tensors, which must be a floating-point one."""
    dtype = _common(*tensors)
    if dtype.kind != "f":
        fail(name, f"operands of dtype {dtype.name} are refused; convert one with .to(float32)")
    return dtype


def _pair(name: str, input: Any, target: Any) -> tuple[Any, Any, Any]:
    dtype = _floats(name, input, target)
    return _wide(ops.cast(input, dtype)), _wide(ops.cast(target, dtype)), dtype


@of_tensors
def mse_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """weight * (input - target)^2; the mean is over the weights, if there are any."""
    x, y, dtype = _pair("mse_loss", input, target)
    return _weighted(ops.square(ops.sub(x, y)), weight, reduction, dtype)


@of_tensors
def l1_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """weight * |input - target|; the mean is over the weights, if there are any."""
    x, y, dtype = _pair("l1_loss", input, target)
    return _weighted(ops.abs(ops.sub(x, y)), weight, reduction, dtype)


def _weighted(values: Any, weight: Any, reduction: str, dtype: Any) -> Any:
    if weight is None:
        return _reduce(values, reduction, dtype)
    weight = ops.expand(_wide(weight), values.shape)
    return _reduce(ops.mul(values, weight), reduction, dtype, weight)


@of_tensors
def smooth_l1_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| is below beta, else d - beta / 2."""
    if beta < 0:
        fail("smooth_l1_loss", f"beta must be >= 0, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction)
    x, y, dtype = _pair("smooth_l1_loss", input, target)
    gap = ops.abs(ops.sub(x, y))
    near = ops.mul(ops.square(gap), 0.5 / beta)
    return _reduce(ops.where(ops.lt(gap, beta), near, ops.sub(gap, 0.5 * beta)), reduction, dtype)


@of_tensors
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d^2 / 2 where d = |input - target| is at most delta, else delta (d - delta / 2)."""
    if not delta > 0:
        fail("huber_loss", f"delta must be > 0, got {delta}")
    x, y, dtype = _pair("huber_loss", input, target)
    gap = ops.abs(ops.sub(x, y))
    far = ops.mul(ops.sub(gap, 0.5 * delta), delta)
    values = ops.where(ops.le(gap, delta), ops.mul(ops.square(gap), 0.5), far)
    return _weighted(values, weight, reduction, dtype)


@of_tensors
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-weight * (target ln(input) + (1 - target) ln(1 - input)), logarithms at least -100."""
    x, y, dtype = _pair("binary_cross_entropy", input, target)
    yes = ops.mul(ops.maximum(ops.log(x), -100.0), y)
    no = ops.mul(ops.maximum(ops.log1p(ops.neg(x)), -100.0), ops.sub(1.0, y))
    values = ops.neg(ops.add(yes, no))
    return _reduce(
        values if weight is None else ops.mul(values, _wide(weight)),
        reduction,
        dtype,
    )


@of_tensors
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), without overflow; `pos_weight` weighs the target."""
    x, y, dtype = _pair("binary_cross_entropy_with_logits", input, target)
    slope: Any = (
        1.0 if pos_weight is None else ops.add(ops.mul(ops.sub(_wide(pos_weight), 1.0), y), 1.0)
    )
    values = ops.sub(ops.mul(ops.sub(1.0, y), x), ops.mul(ops.logsigmoid(x), slope))
    return _reduce(
        values if weight is None else ops.mul(values, _wide(weight)),
        reduction,
        dtype,
    )


@of_tensors
def kl_div(
    input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """target (ln(target) - input) for log-probabilities `input`; with `log_target`, the target is
    a logarithm too. ``reduction="batchmean"`` is the sum over the size of dim 0."""
    x, y, dtype = _pair("kl_div", input, target)
    if log_target:
        values = ops.mul(ops.exp(y), ops.sub(y, x))
    else:
        values = ops.sub(ops.xlogy(y, y), ops.mul(y, x))
    if reduction == "batchmean":
        total = ops.sum(values)
        rows = int(input.shape[0]) if len(input.shape) else 1
        return ops.cast(ops.div(total, rows), dtype)
    return _reduce(values, reduction, dtype)


@of_tensors
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """e^input - target * input, or input - target ln(input + eps) without `log_input`. `full` adds
    Stirling's approximation of ln(target!) where the target is above 1."""
    dtype = _common(input, target)
    whole = dtype.kind != "f"
    x, y = (value if whole else _wide(ops.cast(value, dtype)) for value in (input, target))
    if log_input:
        values = ops.sub(ops.exp(x), ops.mul(y, x))
    else:
        values = ops.sub(x, ops.mul(y, ops.log(ops.add(x, eps))))
    if full:
        stirling = ops.add(
            ops.sub(ops.mul(y, ops.log(y)), y), ops.mul(ops.log(ops.mul(y, 2 * math.pi)), 0.5)
        )
        values = ops.add(values, ops.masked_fill(stirling, ops.le(y, 1), 0.0))
    return _reduce(values, reduction, values.dtype if whole else dtype)


@of_tensors
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """ln(1 + e^(-target * input)) for targets -1 and 1."""
    x, y, dtype = _pair("soft_margin_loss", input, target)
    return _reduce(ops.neg(ops.logsigmoid(ops.mul(x, y))), reduction, dtype)


@of_tensors
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, -target (input1 - input2) + margin) for targets -1 and 1."""
    gap = ops.mul(ops.neg(target), ops.sub(input1, input2))
    gap = ops.add(gap, float(margin))  # integers become float32
    return _reduce(ops.maximum(gap, 0.0), reduction, gap.dtype)


@of_tensors
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1."""
    x, y, dtype = _pair("hinge_embedding_loss", input, target)
    far = ops.where(ops.ne(y, 1), ops.maximum(ops.sub(margin, x), 0.0), 0.0)
    near = ops.where(ops.ne(y, -1), x, 0.0)
    return _reduce(ops.add(far, near), reduction, dtype)


@of_tensors
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos(input1, input2) where the target is 1, max(0, cos - margin) where it is -1. The last
    dim holds the vectors."""
    cosine = cosine_similarity(input1, input2, dim=-1)
    dtype = cosine.dtype
    cosine = _wide(cosine)
    near = ops.where(ops.eq(target, 1), ops.sub(1.0, cosine), 0.0)
    far = ops.where(ops.eq(target, -1), ops.maximum(ops.sub(cosine, margin), 0.0), 0.0)
    return _reduce(ops.add(near, far), reduction, dtype)


def _triplets(near: Any, far: Any, swapped: Any, margin: float, reduction: str) -> Any:
    if margin <= 0:
        raise InvalidArgumentError(f"triplet_margin_loss: margin must be > 0, got {margin}")
    if swapped is not None:
        far = ops.minimum(far, swapped)
    dtype = near.dtype
    gap = ops.add(ops.sub(_wide(near), _wide(far)), margin)
    return _reduce(ops.maximum(gap, 0.0), reduction, dtype)


@of_tensors
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin) in the p-norm of the last dim.
    With `swap`, the negative's distance is the smaller one of those to anchor and positive."""
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    swapped = pairwise_distance(positive, negative, p, eps) if swap else None
    return _triplets(near, far, swapped, margin, reduction)


@of_tensors
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with a distance function of one's own; by default `pairwise_distance`."""
    distance = pairwise_distance if distance_function is None else distance_function
    swapped = distance(positive, negative) if swap else None
    return _triplets(
        distance(anchor, positive), distance(anchor, negative), swapped, margin, reduction
    )


def _one_of(name: str, input: Any, target: Any) -> Any:
    """``target[..., None]`` as indices along the last dim of ``input``."""
    rows = tuple(input.shape[:-1])
    if tuple(target.shape) != rows and not (not rows and tuple(target.shape) == (1,)):
        fail(
            name,
            f"target {text(target.shape)} must have shape {text(rows)} for input "
            f"{text(input.shape)}",
        )
    return ops.reshape(target, (*rows, 1))


@of_tensors
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes i other than the target y of weight[y] max(0, margin - x[y] + x[i])^p,
    for input ``[N, C]`` or ``[C]`` and p 1 or 2."""
    if p not in (1, 2):
        fail("multi_margin_loss", f"p must be 1 or 2, got {p}")
    dtype = _floats("multi_margin_loss", input)
    x = _wide(input) if len(input.shape) else ops.reshape(_wide(input), (1,))
    index = _one_of("multi_margin_loss", x, target)
    gap = ops.maximum(ops.add(ops.sub(x, ops.gather(x, -1, index)), margin), 0.0)
    values = ops.square(gap) if p == 2 else gap
    if weight is not None:
        weights = ops.index_select(_wide(weight), 0, ops.reshape(index, (-1,)))
        values = ops.mul(values, ops.reshape(weights, index.shape))
    classes = ops.arange(int(x.shape[-1]), dtype=index.dtype)
    values = ops.masked_fill(values, ops.eq(classes, index), 0.0)
    return _reduce(ops.mean(values, -1), reduction, dtype)


@of_tensors
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The sum over labels y and classes i that are no label of max(0, 1 - (x[y] - x[i])), over the
    number of classes. The labels of a row are the entries of `target` before its first -1."""
    dtype = _floats("multilabel_margin_loss", input)
    if tuple(input.shape) != tuple(target.shape):
        fail(
            "multilabel_margin_loss",
            f"target {text(target.shape)} must have the shape {text(input.shape)} of input",
        )
    x = _wide(input)
    classes = int(x.shape[-1]) if len(x.shape) else 1
    x, target = (ops.reshape(value, (*input.shape[:-1], classes)) for value in (x, target))
    places = ops.arange(classes, dtype=target.dtype)
    ends = ops.where(ops.lt(target, 0), places, classes)
    valid = ops.lt(places, ops.amin(ends, -1, True))
    index = ops.where(valid, target, 0)
    hits = ops.eq(ops.unsqueeze(index, -1), places)
    hits = ops.logical_and(hits, ops.unsqueeze(valid, -1))  # [..., label, class]
    other = ops.logical_not(ops.any(hits, -2, True))
    gap = ops.sub(1.0, ops.sub(ops.unsqueeze(ops.gather(x, -1, index), -1), ops.unsqueeze(x, -2)))
    counted = ops.logical_and(ops.unsqueeze(valid, -1), other)
    values = ops.where(counted, ops.maximum(gap, 0.0), 0.0)
    values = ops.div(ops.sum(values, (-2, -1)), classes)
    return _reduce(values if len(input.shape) > 1 else ops.reshape(values, ()), reduction, dtype)


@of_tensors
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes of -weight (target ln(sigmoid(x)) + (1 - target) ln(sigmoid(-x)))."""
    x, y, dtype = _pair("multilabel_soft_margin_loss", input, target)
    yes = ops.mul(ops.logsigmoid(x), y)
    values = ops.neg(ops.add(yes, ops.mul(ops.logsigmoid(ops.neg(x)), ops.sub(1.0, y))))
    if weight is not None:
        values = ops.mul(values, _wide(weight))
    return _reduce(ops.mean(values, -1), reduction, dtype)


def _check_rank(name: str, input: Any) -> None:
    if len(input.shape) == 0:
        fail(name, "input has no dims; it is [C], [N, C] or [N, C, d...]")


def _classes_last(x: Any) -> Any:
    """``[N, C, d...]`` as ``[N, d..., C]``; ``[C]`` and ``[N, C]`` as they are."""
    return ops.movedim(x, 1, -1) if len(x.shape) > 2 else x


@of_tensors
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-weight[y] * input[y] for log-probabilities ``[C]``, ``[N, C]`` or ``[N, C, d...]`` and class
    numbers y; the mean is over the weights. A target of `ignore_index` counts for nothing."""
    dtype = _floats("nll_loss", input)
    _check_rank("nll_loss", input)
    x = _classes_last(_wide(input))
    index = _one_of("nll_loss", x, target)
    kept = ops.ne(index, ignore_index)
    safe = ops.where(kept, index, 0)
    chosen = ops.neg(ops.gather(x, -1, safe))
    if weight is None:
        weights = ops.cast(kept, x.dtype)
    else:
        picked = ops.index_select(_wide(weight), 0, ops.reshape(safe, (-1,)))
        weights = ops.where(kept, ops.reshape(picked, index.shape), 0.0)
    values = ops.where(kept, ops.mul(chosen, weights), 0.0)
    rows = tuple(target.shape) if reduction == "none" else (-1,)
    return _reduce(ops.reshape(values, rows), reduction, dtype, weights)


@of_tensors
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """nll_loss of log_softmax(input) over the classes (dim 1, or dim 0 of ``[C]``).

    A floating-point target of input's shape holds probabilities. `label_smoothing` s mixes the
    target with the uniform distribution: (1 - s) * target + s / C.
    """
    if not 0 <= label_smoothing <= 1:
        fail("cross_entropy", f"label_smoothing must be in [0, 1], got {label_smoothing}")
    dtype = _floats("cross_entropy", input)
    _check_rank("cross_entropy", input)
    x = ops.log_softmax(_wide(input), 1 if len(input.shape) > 1 else 0)
    classes = int(input.shape[1] if len(input.shape) > 1 else input.shape[0])
    if target.dtype.kind == "f":
        y = _classes_last(_wide(target))
        if label_smoothing:
            y = ops.add(ops.mul(y, 1 - label_smoothing), label_smoothing / classes)
        product = ops.mul(y, _classes_last(x))
        if weight is not None:
            product = ops.mul(product, _wide(weight))
        values = ops.neg(ops.sum(product, -1))
        if reduction == "mean":
            rows = max(math.prod(values.shape), 1)
            return ops.cast(ops.div(ops.sum(values), rows), dtype)
        return _reduce(values, reduction, dtype)
    hard = nll_loss(x, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return ops.cast(hard, dtype)
    rows_last = _classes_last(x)
    if weight is not None:
        rows_last = ops.mul(rows_last, _wide(weight))
    kept = ops.ne(target, ignore_index)
    smooth = ops.where(kept, ops.neg(ops.sum(rows_last, -1)), 0.0)
    if reduction == "mean":
        if weight is None:
            share: Any = ops.sum(ops.cast(kept, x.dtype))
        else:
            safe = ops.reshape(ops.where(kept, target, 0), (-1,))
            picked = ops.reshape(ops.index_select(_wide(weight), 0, safe), target.shape)
            share = ops.sum(ops.where(kept, picked, 0.0))
        smooth = ops.div(ops.sum(smooth), share)
    else:
        smooth = _reduce(smooth, reduction, x.dtype)
    mixed = ops.add(ops.mul(hard, 1 - label_smoothing), ops.mul(smooth, label_smoothing / classes))
    return ops.cast(mixed, dtype)


@of_tensors
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(ln(v) + (input - target)^2 / v) / 2 with v = max(var, eps), a tensor or a number; `full`
    adds ln(2 pi) / 2. A `var` without the last dim, or of size 1 there, is one for the row."""
    x, y, dtype = _pair("gaussian_nll_loss", input, target)
    if isinstance(var, (int, float)):
        if var < 0:
            fail("gaussian_nll_loss", f"var must be >= 0, got {var}")
        v = ops.full_like(x, var)
    else:
        v = _wide(var)
        if tuple(v.shape) == tuple(x.shape[:-1]) and tuple(v.shape) != tuple(x.shape):
            v = ops.unsqueeze(v, -1)
        if bool(ops.any(ops.lt(v, 0)).item()):
            fail("gaussian_nll_loss", "var has negative entries; a variance is >= 0")
    v = ops.maximum(v, eps)
    values = ops.mul(ops.add(ops.log(v), ops.div(ops.square(ops.sub(x, y)), v)), 0.5)
    if full:
        values = ops.add(values, 0.5 * math.log(2 * math.pi))
    return _reduce(values, reduction, dtype)
