"""Twins of convolutions, pooling, resampling, normalizations, attention and embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime import ops
from tests.oracles.opinfo import Twin, channels_last, entries

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _spatial(name: str, **how: Any) -> dict[str, Any]:
    """The twins of an operator over 1, 2 and 3 spatial dims."""
    return {
        f"nn.functional.{name}{n}d": channels_last(getattr(ops, f"{name}{n}d"), spatial=n, **how)
        for n in (1, 2, 3)
    }


def _from_float32(
    call: Callable[..., Any],
    name: str,
    pick: Callable[[Any], Any] = lambda result: result,
    absolute: float = 1e-5,
) -> Twin:
    """In bfloat16 torch rounds places, weights and sums on the way; here they are float32. So the
    results are compared to torch's float32 result of the same numbers, rounded once. The
    tolerances are those of `tests.oracles.opinfo`, in float32 with that absolute one."""

    def compare(got: Any, want: Any, sample: Any) -> None:
        import torch

        def wide(value: Any) -> Any:
            short = isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16
            return value.float() if short else value

        want = pick(want)
        if want.dtype is torch.bfloat16:
            given = [wide(value) for value in (sample.input, *sample.args)]
            options = {key: wide(value) for key, value in sample.kwargs.items()}
            want = pick(entries()[name].op(*given, **options)).to(torch.bfloat16)
        assert got.shape == want.shape and got.dtype == want.dtype
        near = {torch.float32: (1.3e-6, absolute), torch.bfloat16: (1.6e-2, absolute)}
        rtol, atol = near.get(want.dtype, (0.0, 0.0))
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)

    return Twin(call, compare=compare)


def _convolutions() -> dict[str, Any]:
    """Up to a hundred terms of up to 81 are added up: half an ulp of their sum is 3e-4."""
    found = {}
    for n in (1, 2, 3):
        for kind, layout in (("conv", "oi"), ("conv_transpose", "io")):
            name = f"nn.functional.{kind}{n}d"
            call = channels_last(getattr(ops, f"{kind}{n}d"), spatial=n, weight=layout)
            found[name] = _from_float32(call, name, absolute=3e-4)
    return found


# ---------------------------------------------------------------- windows
def _unpool(n: int) -> Callable[..., Any]:
    call = channels_last(getattr(ops, f"max_unpool{n}d"), spatial=n, tensors=2)

    def unpool(x: Any, indices: Any, *args: Any, output_size: Any = None, **options: Any) -> Any:
        size = None if output_size is None else tuple(output_size)[-n:]
        return call(x, indices, *args, output_size=size, **options)

    return unpool


def _unfold(x: Any, *args: Any, **options: Any) -> Any:
    """torch's columns [N, C * K, L] are our rows [N, L, C * K]."""
    rows = ops.im2col(ops.movedim(x, -3, -1), *args, **options)
    return ops.transpose(rows, -1, -2)


# ---------------------------------------------------------------- resampling
def _antialiased(
    x: Any,
    output_size: Any = None,
    align_corners: bool = False,
    scale_factors: Any = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Any:
    """Sizes with scales of their own, which `interpolate` does not take, are given as the scales
    where those make the same size."""
    call = channels_last(ops.interpolate)
    if output_size is not None and scales_h is None:
        return call(x, tuple(output_size), None, "bilinear", align_corners, None, True)
    if output_size is not None and align_corners:  # the scales do not count
        return call(x, tuple(output_size), None, "bilinear", True, None, True)
    factors = scale_factors if output_size is None else (scales_h, scales_w)
    made = call(x, None, factors, "bilinear", align_corners, None, True)
    return made if output_size is None else made[:, :, : output_size[0], : output_size[1]]


def _grid(x: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Any:
    call = channels_last(ops.grid_sample)
    return call(x, grid, _MODES[mode], _PADDINGS[padding], align_corners)


# ---------------------------------------------------------------- normalizations
def _batch_norm(x: Any, mean: Any, var: Any, *args: Any, **options: Any) -> Any:
    """Without a channel dim torch has [N] with no channels at all."""
    if x.ndim == 1:
        return x
    return channels_last(ops.batch_norm)(x, mean, var, *args, **options)


def _response_norm(x: Any, *args: Any, **options: Any) -> Any:
    """An empty input comes back as it is, integers too."""
    if x.numel() == 0:
        return x
    return channels_last(ops.local_response_norm)(x, *args, **options)


def _native_batch_norm(x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    """The result alone: what is saved beside it serves training."""
    mean, var, training, _, eps = rest if len(rest) == 5 else (None, None, *rest)
    return channels_last(ops.batch_norm)(x, mean, var, weight, bias, training, 0.1, eps)


def _batch_norm_with_update(x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    mean, var, _, eps = rest
    return channels_last(ops.batch_norm)(x, mean, var, weight, bias, True, 0.1, eps)


def _native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return ops.layer_norm(x, shape, weight, bias, eps)


def _native_group_norm(x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    groups, eps = rest[-2:]
    return channels_last(ops.group_norm)(x, groups, weight, bias, eps)


def _first_result(call: Callable[..., Any], name: str) -> Twin:
    return _from_float32(call, name, lambda result: result[0])


# ---------------------------------------------------------------- attention and embeddings
def _attention(query: Any, key: Any, value: Any, dropout_p: float = 0.0, **options: Any) -> Any:
    return ops.scaled_dot_product_attention(query, key, value, **options)


def _unless_dropped(got: Any, want: Any, sample: Any) -> None:
    """torch draws what it drops at random: then shape and dtype are compared alone."""
    import torch

    assert got.shape == want.shape and got.dtype == want.dtype
    if sample.kwargs.get("dropout_p", 0.0) != 0.0:
        return
    # Scores reach 230, where an ulp is 1.5e-5: that is the relative error of a weight. In bfloat16
    # torch rounds the weights.
    near = {torch.float32: (1e-4, 1e-4), torch.bfloat16: (1.6e-2, 1e-2)}[want.dtype]
    torch.testing.assert_close(got, want, rtol=near[0], atol=near[1], equal_nan=True)


def _heads(*args: Any, training: bool = False, **options: Any) -> Any:
    return ops.multi_head_attention_forward(*args[:9], 0.0, *args[10:], **options)


def _heads_unless_dropped(got: Any, want: Any, sample: Any) -> None:
    import torch

    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        if not sample.kwargs["training"]:
            # Products of terms of up to 81 feed products: relative to the largest, not to each.
            near = {torch.float32: 1e-5, torch.bfloat16: 3e-2}[other.dtype]
            size = float(other.float().abs().max())
            torch.testing.assert_close(one, other, rtol=near, atol=near * size, equal_nan=True)


def _embedding(
    weight: Any, ids: Any, sparse: bool = False, scale_grad_by_freq: bool = False, **options: Any
) -> Any:
    """What says how gradients are stored and scaled has no meaning here."""
    return ops.embedding(weight, ids, **options)


def _embedding_bag(
    weight: Any, ids: Any, sparse: bool = False, scale_grad_by_freq: bool = False, **options: Any
) -> Any:
    return ops.embedding_bag(weight, ids, **options)


TWINS: dict[str, Any] = {
    **_convolutions(),
    **_spatial("max_pool"),
    **_spatial("avg_pool"),
    **{name: _from_float32(call, name) for name, call in _spatial("adaptive_avg_pool").items()},
    **_spatial("adaptive_max_pool"),
    **{f"nn.functional.max_unpool{n}d": _unpool(n) for n in (1, 2, 3)},
    "nn.functional.unfold": _unfold,
    "constant_pad_nd": lambda x, pad, value=0: ops.pad(x, pad, "constant", value),
    "nn.functional.pixel_shuffle": channels_last(ops.pixel_shuffle, spatial=2),
    "nn.functional.pixel_unshuffle": channels_last(ops.pixel_unshuffle, spatial=2),
    "nn.functional.channel_shuffle": channels_last(ops.channel_shuffle),
    **{
        f"nn.functional.interpolate.{mode}": _from_float32(
            channels_last(ops.interpolate), f"nn.functional.interpolate.{mode}"
        )
        for mode in ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear")
    },
    "nn.functional.interpolate.area": _from_float32(
        channels_last(ops.interpolate), "nn.functional.interpolate.area"
    ),
    "nn.functional.upsample_nearest": channels_last(ops.upsample_nearest),
    "nn.functional.upsample_bilinear": _from_float32(
        channels_last(ops.upsample_bilinear), "nn.functional.upsample_bilinear"
    ),
    # torch finds the places of the taps in float32: an error of an ulp of 20 in their weights.
    "_upsample_bilinear2d_aa": Twin(_antialiased, close={"float32": (1e-5, 5e-5)}),
    "nn.functional.grid_sample": _from_float32(
        channels_last(ops.grid_sample), "nn.functional.grid_sample"
    ),
    "grid_sampler_2d": _from_float32(_grid, "grid_sampler_2d"),
    "grid_sampler_3d": _from_float32(_grid, "grid_sampler_3d"),
    "nn.functional.batch_norm": _from_float32(_batch_norm, "nn.functional.batch_norm"),
    "nn.functional.instance_norm": _from_float32(
        channels_last(ops.instance_norm), "nn.functional.instance_norm"
    ),
    "nn.functional.group_norm": _from_float32(
        channels_last(ops.group_norm), "nn.functional.group_norm"
    ),
    "nn.functional.local_response_norm": _from_float32(
        _response_norm, "nn.functional.local_response_norm"
    ),
    "nn.functional.layer_norm": _from_float32(ops.layer_norm, "nn.functional.layer_norm"),
    "nn.functional.rms_norm": _from_float32(ops.rms_norm, "nn.functional.rms_norm"),
    "nn.functional.normalize": _from_float32(ops.normalize, "nn.functional.normalize"),
    "nn.functional.bilinear": _from_float32(ops.bilinear, "nn.functional.bilinear"),
    "native_batch_norm": _first_result(_native_batch_norm, "native_batch_norm"),
    "_native_batch_norm_legit": _first_result(_native_batch_norm, "_native_batch_norm_legit"),
    "_batch_norm_with_update": _first_result(_batch_norm_with_update, "_batch_norm_with_update"),
    "native_layer_norm": _first_result(_native_layer_norm, "native_layer_norm"),
    "native_group_norm": _first_result(_native_group_norm, "native_group_norm"),
    "nn.functional.multi_head_attention_forward": Twin(_heads, compare=_heads_unless_dropped),
    "nn.functional.scaled_dot_product_attention": Twin(_attention, compare=_unless_dropped),
    "nn.functional.embedding": _from_float32(_embedding, "nn.functional.embedding"),
    # torch writes rows of a limited norm back into the bfloat16 table before it adds them up.
    "nn.functional.embedding_bag": Twin(_embedding_bag, close={"bfloat16": (1.6e-2, 2e-2)}),
}
