"""Normalizations over batches, instances and groups of channels, channels last; over neighbouring
channels; and to unit length."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ._norms import check_channels, several
from ._promotion import FLOATS, INTS
from ._shapes import dim as front
from ._shapes import fail, text
from .record import Meta, op, scalar, static, tensor


def _entered(input: Meta, *others: Any) -> tuple[Any, ...]:
    """Numbers of the channels enter in float64 beside a float64 input, else in a shorter dtype."""
    wide = input.dtype is dtypes.float64
    entering: list[Any] = [None]
    for other in others:
        if other is None:  # an absent tensor
            entering.append(None)
        elif isinstance(other, Meta):
            short = None if other.dtype is not dtypes.float64 else dtypes.float32
            entering.append(dtypes.float64 if wide else short)
    return tuple(entering)


_FLOAT = [tensor(name, FLOATS, optional=True) for name in ("weight", "bias")]
_STATISTICS = [tensor(name, FLOATS, optional=True) for name in ("running_mean", "running_var")]


def _infer_batch(
    input: Meta,
    running_mean: Meta | None,
    running_var: Meta | None,
    weight: Meta | None,
    bias: Meta | None,
    training: bool,
    momentum: Any,
    eps: Any,
) -> Meta:
    name = "batch_norm"
    check_channels(
        name,
        input,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    if training:
        several(name, input, input.shape[:-1])
    elif running_mean is None or running_var is None:
        fail(name, "running_mean and running_var are needed where training is False")
    return Meta(input.shape, input.dtype)


op(
    "batch_norm",
    doc="""
    (x - mean) / sqrt(var + eps) * weight + bias with one mean and variance for each channel.

    input [N, ..., C]; running_mean, running_var, weight and bias [C], the last two optional. With
    `training` mean and variance are those of the batch itself; the running ones are only read,
    so that `momentum` has no effect. Computed in float32 (float64 in its own precision), rounded
    once.
    """,
    args=[
        tensor("input", FLOATS),
        *_STATISTICS,
        *_FLOAT,
        static("training", "bool", False),
        scalar("momentum", "float", 0.1),
        scalar("eps", "float", 1e-5),
    ],
    infer=_infer_batch,
    promote=_entered,
    method=False,
    source="Ioffe and Szegedy, Batch Normalization, arXiv:1502.03167",
)


def _infer_instance(
    input: Meta,
    running_mean: Meta | None,
    running_var: Meta | None,
    weight: Meta | None,
    bias: Meta | None,
    use_input_stats: bool,
    momentum: Any,
    eps: Any,
) -> Meta:
    name = "instance_norm"
    check_channels(
        name,
        input,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    if use_input_stats:
        several(name, input, input.shape[1:-1])
    elif running_mean is None or running_var is None:
        fail(name, "running_mean and running_var are needed where use_input_stats is False")
    return Meta(input.shape, input.dtype)


op(
    "instance_norm",
    doc="""
    (x - mean) / sqrt(var + eps) * weight + bias with mean and variance over the spatial dims, for
    each channel of each item of the batch.

    input [N, spatial..., C]; weight and bias [C] or None. Without `use_input_stats` running_mean
    and running_var [C] stand for them; they are only read, so that `momentum` has no effect.
    Computed in float32 (float64 in its own precision), rounded once.
    """,
    args=[
        tensor("input", FLOATS),
        *_STATISTICS,
        *_FLOAT,
        static("use_input_stats", "bool", True),
        scalar("momentum", "float", 0.1),
        scalar("eps", "float", 1e-5),
    ],
    infer=_infer_instance,
    promote=_entered,
    method=False,
    source="Ulyanov, Vedaldi and Lempitsky, Instance Normalization, arXiv:1607.08022",
)


def _infer_group(
    input: Meta, num_groups: int, weight: Meta | None, bias: Meta | None, eps: Any
) -> Meta:
    name = "group_norm"
    check_channels(name, input, weight=weight, bias=bias)
    channels = input.shape[-1]
    if num_groups < 1 or (type(channels) is int and channels % num_groups):
        fail(
            name,
            f"num_groups {num_groups} must divide the {channels} channels of input "
            f"{text(input.shape)}",
        )
    return Meta(input.shape, input.dtype)


op(
    "group_norm",
    doc="""
    (x - mean) / sqrt(var + eps) * weight + bias with mean and variance over the spatial dims and
    the channels of a group, for each item of the batch.

    input [N, spatial..., C] with C / num_groups neighbouring channels to a group; weight and bias
    [C] or None. Computed in float32 (float64 in its own precision), rounded once.
    """,
    args=[
        tensor("input", FLOATS),
        static("num_groups", "int"),
        *_FLOAT,
        scalar("eps", "float", 1e-5),
    ],
    infer=_infer_group,
    promote=_entered,
    method=False,
    source="Wu and He, Group Normalization, arXiv:1803.08494",
)


def _infer_response(input: Meta, size: int, alpha: Any, beta: Any, k: Any) -> Meta:
    if input.ndim < 3:
        fail("local_response_norm", f"input {text(input.shape)} must be [N, spatial..., C]")
    if not 1 <= size <= 1 << 31:
        fail("local_response_norm", f"size {size} must be at least 1")
    return Meta(input.shape, input.dtype if input.dtype.kind == "f" else dtypes.float32)


op(
    "local_response_norm",
    doc="""
    x / (k + alpha * mean(x^2 of the neighbouring channels))^beta.

    input [N, spatial..., C]. The neighbours of channel c are the `size` channels from c - size // 2
    on; those outside count as 0. Integers give float32, and their mean is rounded down.
    """,
    args=[
        tensor("input", FLOATS | INTS),
        static("size", "int"),
        scalar("alpha", "float", 1e-4),
        scalar("beta", "float", 0.75),
        scalar("k", "float", 1.0),
    ],
    infer=_infer_response,
    method=False,
    source="Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional "
    "Neural Networks, 2012",
)


def _infer_normalize(input: Meta, p: Any, dim: int, eps: Any) -> Meta:
    front("normalize", dim, input.ndim)
    return Meta(input.shape, input.dtype)


op(
    "normalize",
    doc="""
    x / max(||x||_p, eps) with ||x||_p = (sum over dim of |x|^p)^(1/p).

    p may be inf (the largest |x|), -inf (the smallest) and 0 (how many are not 0). The norm is
    computed in float32 (float64 in its own precision).
    """,
    args=[
        tensor("input", FLOATS),
        scalar("p", "float", 2.0),
        static("dim", "int", 1, aliases=("dims",)),
        scalar("eps", "float", 1e-12),
    ],
    infer=_infer_normalize,
    method=False,
)
