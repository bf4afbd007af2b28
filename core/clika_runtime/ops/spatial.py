"""Operators that move pixels between the spatial dims and the channels, channels last."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import ALL
from ._shapes import fail, known, product, text
from ._windows import LIMIT, each, slid
from .record import Meta, op, scalar, static, tensor


# ---------------------------------------------------------------- shuffles
def _divided(name: str, size: Any, by: int, what: str, input: Meta) -> Any:
    if type(size) is int and size % by:
        fail(name, f"{what} of input {text(input.shape)} must be divisible by {by}")
    return size // by


def _factor(name: str, what: str, value: int) -> int:
    if not 1 <= value <= 1 << 20:
        fail(name, f"{what} {value} must be at least 1, at most 2^20")
    return value


def _image(name: str, input: Meta) -> tuple[Any, ...]:
    if input.ndim < 3:
        fail(name, f"input {text(input.shape)} must be [..., H, W, C]")
    return tuple(input.shape[-3:])


def _infer_shuffle(input: Meta, upscale_factor: int) -> Meta:
    name = "pixel_shuffle"
    r = _factor(name, "upscale_factor", upscale_factor)
    h, w, c = _image(name, input)
    c = _divided(name, c, r * r, "the channels", input)
    return Meta((*input.shape[:-3], h * r, w * r, c), input.dtype)


def _shuffle(input: Any, upscale_factor: int) -> Any:
    r = upscale_factor
    *batch, h, w, c = input.shape
    c //= r * r
    b = product(batch)
    x = ops.permute(ops.reshape(input, (b, h, w, c, r, r)), (0, 1, 4, 2, 5, 3))
    return ops.reshape(x, (*batch, h * r, w * r, c))


def _infer_unshuffle(input: Meta, downscale_factor: int) -> Meta:
    name = "pixel_unshuffle"
    r = _factor(name, "downscale_factor", downscale_factor)
    h, w, c = _image(name, input)
    h = _divided(name, h, r, "the height", input)
    w = _divided(name, w, r, "the width", input)
    return Meta((*input.shape[:-3], h, w, c * (r * r)), input.dtype)


def _unshuffle(input: Any, downscale_factor: int) -> Any:
    r = downscale_factor
    *batch, h, w, c = input.shape
    b = product(batch)
    x = ops.permute(ops.reshape(input, (b, h // r, r, w // r, r, c)), (0, 1, 3, 5, 2, 4))
    return ops.reshape(x, (*batch, h // r, w // r, c * r * r))


def _infer_channels(input: Meta, groups: int) -> Meta:
    if input.ndim < 3:
        fail("channel_shuffle", f"input {text(input.shape)} must be [N, spatial..., C]")
    groups = _factor("channel_shuffle", "groups", groups)
    _divided("channel_shuffle", input.shape[-1], groups, "the channels", input)
    return Meta(input.shape, input.dtype)


def _channels(input: Any, groups: int) -> Any:
    *rest, c = input.shape
    x = ops.reshape(input, (product(rest), groups, c // groups))
    return ops.reshape(ops.transpose(x, 1, 2), tuple(input.shape))


op(
    "pixel_shuffle",
    doc="""
    Channels become pixels: result[.., h * r + i, w * r + j, c] = input[.., h, w, (c * r + i) * r +
    j] with r = upscale_factor.

    input [..., H, W, C * r^2], the result [..., H * r, W * r, C].
    """,
    args=[tensor("input", ALL), static("upscale_factor", "int")],
    infer=_infer_shuffle,
    compose=_shuffle,
    method=False,
    source="Shi et al., Real-Time Single Image and Video Super-Resolution, arXiv:1609.05158",
)
op(
    "pixel_unshuffle",
    doc="""
    Pixels become channels: result[.., h, w, (c * r + i) * r + j] = input[.., h * r + i, w * r + j,
    c] with r = downscale_factor; the inverse of `pixel_shuffle`.

    input [..., H, W, C], the result [..., H / r, W / r, C * r^2].
    """,
    args=[tensor("input", ALL), static("downscale_factor", "int")],
    infer=_infer_unshuffle,
    compose=_unshuffle,
    method=False,
)
op(
    "channel_shuffle",
    doc="""
    Channels of `groups` are dealt out in turn: result[.., c * groups + g] = input[.., g * (C /
    groups) + c].

    input [N, spatial..., C].
    """,
    args=[tensor("input", ALL), static("groups", "int")],
    infer=_infer_channels,
    compose=_channels,
    method=False,
    source="Zhang et al., ShuffleNet, arXiv:1707.01083",
)


# ---------------------------------------------------------------- windows as columns
def _windows(
    name: str, sizes: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Any, int]:
    """How many windows there are, and the positions of one."""
    n = len(sizes)
    kernels = each(name, "kernel_size", kernel_size, n, 1)
    steps = each(name, "dilation", dilation, n, 1)
    pads = each(name, "padding", padding, n, 0)
    strides = each(name, "stride", stride, n, 1)
    counts = [
        slid(name, size, kernels[i], strides[i], 2 * pads[i], steps[i])
        for i, size in enumerate(sizes)
    ]
    return product(counts), product(kernels)


def _infer_im2col(
    input: Meta,
    kernel_size: tuple[int, ...],
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Meta:
    n = 2 if len(kernel_size) == 1 else len(kernel_size)
    if not 1 <= n <= 3 or input.ndim not in (n + 1, n + 2):
        fail(
            "im2col",
            f"input {text(input.shape)} must be [N, spatial..., C] or [spatial..., C] with one "
            f"spatial dim for each of kernel_size {list(kernel_size)}",
        )
    sizes = input.shape[-n - 1 : -1]
    count, positions = _windows("im2col", sizes, kernel_size, dilation, padding, stride)
    return Meta((*input.shape[: -n - 1], count, input.shape[-1] * positions), input.dtype)


def _infer_col2im(
    input: Meta,
    output_size: tuple[int, ...],
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Meta:
    n = len(output_size)
    if n == 1:
        output_size = output_size * 2
        n = 2
    if n > 3 or input.ndim not in (2, 3):
        fail(
            "col2im",
            f"input {text(input.shape)} must be [N, L, C * positions] or [L, C * positions], and "
            f"output_size {list(output_size)} at most 3 sizes",
        )
    if any(not 1 <= size <= LIMIT for size in output_size):
        fail("col2im", f"output_size {list(output_size)} must be sizes of at least 1")
    count, positions = _windows("col2im", output_size, kernel_size, dilation, padding, stride)
    if type(input.shape[-2]) is int and input.shape[-2] != count:
        fail(
            "col2im",
            f"input {text(input.shape)} must have {count} windows for output_size "
            f"{list(output_size)}, its dim -2 is {input.shape[-2]}",
        )
    channels = _divided("col2im", input.shape[-1], positions, "the last dim", input)
    if known(channels, 0):
        fail("col2im", f"input {text(input.shape)} has no channels")
    return Meta((*input.shape[:-2], *output_size, channels), input.dtype)


_WINDOW = [
    static("kernel_size", "ints"),
    static("dilation", "ints", 1),
    static("padding", "ints", 0),
    static("stride", "ints", 1),
]

op(
    "im2col",
    doc="""
    The windows of a convolution as rows: result[n, l, c * K + k] = input[n, position k of window l,
    c], 0 where that lies in the padding.

    input [N, spatial..., C] or [spatial..., C], the result [N, L, C * K] with L windows of K
    positions, both counted row by row. PyTorch's `nn.functional.unfold`, channels last. A single
    `kernel_size` means two spatial dims.
    """,
    args=[tensor("input", ALL), *_WINDOW],
    infer=_infer_im2col,
    method=False,
)
op(
    "col2im",
    doc="""
    The sum of windows: result[n, p, c] = sum of input[n, l, c * K + k] over all windows l whose
    position k is p.

    input [N, L, C * K] or [L, C * K], the result [N, *output_size, C]. PyTorch's
    `nn.functional.fold`, channels last.
    """,
    args=[tensor("input", ALL), static("output_size", "ints"), *_WINDOW],
    infer=_infer_col2im,
    method=False,
)


# ---------------------------------------------------------------- padding
_PAD_MODES = ("constant", "reflect", "replicate", "circular")


def _infer_pad(input: Meta, pad: tuple[int, ...], mode: str, value: Any) -> Meta:
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        fail(
            "pad",
            f"pad {list(pad)} must be pairs (before, after), from the last dim on, for at most the "
            f"{input.ndim} dims of input {text(input.shape)}",
        )
    shape = list(input.shape)
    for i in range(len(pad) // 2):
        before, after = pad[2 * i : 2 * i + 2]
        if abs(before) > LIMIT or abs(after) > LIMIT:
            fail("pad", f"pad {list(pad)} is too large")
        at = input.ndim - 1 - i
        size = shape[at]
        shape[at] = size + (before + after)
        if type(size) is not int:
            continue
        if shape[at] < 0:
            fail("pad", f"pad {list(pad)} leaves {shape[at]} of dim {at} of {text(input.shape)}")
        if mode == "constant" or shape[at] == 0:
            continue
        kept = size + min(before, 0) + min(after, 0)
        most = size - 1 if mode == "reflect" else kept if mode == "circular" else LIMIT
        if size == 0 or max(before, after) > most:
            fail(
                "pad",
                f"mode '{mode}' can pad dim {at} of input {text(input.shape)} by at most "
                f"{max(most, 0) if size else 0}, pad is {list(pad)}",
            )
    return Meta(tuple(shape), input.dtype)


op(
    "pad",
    doc="""
    Adds elements before and after: `pad` has a pair (before, after) for the last dim, then for the
    one before it, and so on; negative numbers take elements away.

    "constant" adds `value`, "reflect" mirrors without the border itself (as NumPy's reflect),
    "replicate" repeats the border, "circular" goes on from the other side of what is kept.
    """,
    args=[
        tensor("input", ALL),
        static("pad", "ints"),
        static("mode", "str", "constant", modes=_PAD_MODES),
        scalar("value", "number", None),
    ],
    infer=_infer_pad,
    method=False,
)
