"""References and cases of shuffles, windows as columns and padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array
from .convolution import numbers, places, steps

_ALL = ("float32", "bfloat16", "float16", "float64", "int64", "int32", "bool")


def _shuffle(x: Array, r: int) -> Array:
    *batch, h, w, c = x.shape
    c //= r * r
    x = x.reshape(-1, h, w, c, r, r).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(*batch, h * r, w * r, c)


def _unshuffle(x: Array, r: int) -> Array:
    *batch, h, w, c = x.shape
    x = x.reshape(-1, h // r, r, w // r, r, c).transpose(0, 1, 3, 5, 2, 4)
    return x.reshape(*batch, h // r, w // r, c * r * r)


def _shuffle_cases(make: Make) -> None:
    for dtype in _ALL:
        make.case(dtype, make.normal((2, 3, 2, 8), dtype), 2)
    make.case("three", make.normal((3, 2, 18)), 3)
    make.case("dims", make.normal((2, 1, 3, 2, 4)), 2)
    make.case("one", make.normal((1, 3, 2, 4)), 1)
    make.case("empty", make.normal((0, 3, 2, 4)), 2)


def _unshuffle_cases(make: Make) -> None:
    for dtype in _ALL:
        make.case(dtype, make.normal((2, 4, 6, 3), dtype), 2)
    make.case("three", make.normal((3, 6, 2)), 3)
    make.case("dims", make.normal((2, 1, 4, 2, 4)), 2)
    make.case("one", make.normal((1, 3, 2, 4)), 1)
    make.case("empty", make.normal((0, 4, 2, 4)), 2)


def _channels(x: Array, groups: int) -> Array:
    c = x.shape[-1]
    return x.reshape(-1, groups, c // groups).transpose(0, 2, 1).reshape(x.shape)


def _channels_cases(make: Make) -> None:
    for dtype in _ALL:
        make.case(dtype, make.normal((2, 3, 2, 6), dtype), 2)
    make.case("three", make.normal((2, 3, 6)), 3)
    make.case("volume", make.normal((2, 3, 2, 1, 6)), 6)
    make.case("one", make.normal((1, 3, 4)), 1)
    make.case("empty", make.normal((0, 3, 4)), 2)


_IMAGE = "x = crt.arange(8).reshape(1, 1, 2, 4)\n"
_EXACT: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}
operator(
    "pixel_shuffle",
    _shuffle,
    _shuffle_cases,
    **_EXACT,
    example=f"{_IMAGE}crt.pixel_shuffle(x, 2).reshape(2, 4)",
)
operator(
    "pixel_unshuffle",
    _unshuffle,
    _unshuffle_cases,
    **_EXACT,
    example="crt.pixel_unshuffle(crt.arange(8).reshape(1, 2, 4, 1), 2).reshape(2, 4)",
)
operator(
    "channel_shuffle",
    _channels,
    _channels_cases,
    **_EXACT,
    example=f"{_IMAGE}crt.channel_shuffle(x, 2).reshape(2, 4)",
)


# ---------------------------------------------------------------- windows as columns
def _counts(sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> list[int]:
    return [
        (sizes[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i in range(len(sizes))
    ]


def _im2col(x: Array, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    n = 2 if isinstance(kernel, int) or len(kernel) == 1 else len(kernel)
    kernel, dilation, padding, stride = (numbers(v, n) for v in (kernel, dilation, padding, stride))
    images = x if x.ndim == n + 2 else x[None]
    counts = _counts(images.shape[1:-1], kernel, dilation, padding, stride)
    spread = np.pad(images, [(0, 0), *((p, p) for p in padding), (0, 0)])
    parts = []
    for k in places(kernel):
        seen = (slice(None), *(steps(k[i] * dilation[i], counts[i], stride[i]) for i in range(n)))
        parts.append(spread[seen])
    row = x.shape[-1] * len(parts)
    result = np.stack(parts, -1).reshape(len(images), int(np.prod(counts)), row)
    return result if x.ndim == n + 2 else result[0]


def _col2im(x: Array, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    n = 2 if isinstance(size, int) or len(size) == 1 else len(size)
    size, kernel, dilation, padding, stride = (
        numbers(v, n) for v in (size, kernel, dilation, padding, stride)
    )
    rows = x if x.ndim == 3 else x[None]
    counts = _counts(size, kernel, dilation, padding, stride)
    count = int(np.prod(kernel))
    channels = rows.shape[-1] // count
    wide = x.astype(np.int64) if x.dtype.kind == "b" else x
    values = wide.reshape(len(rows), *counts, channels, count)
    spread = np.zeros(
        (len(rows), *(s + 2 * p for s, p in zip(size, padding, strict=True)), channels), wide.dtype
    )
    for k, at in enumerate(places(kernel)):
        where = tuple(steps(at[i] * dilation[i], counts[i], stride[i]) for i in range(n))
        place = (slice(None), *where)
        spread[place] += values[..., k]
    inner = tuple(slice(p, p + s) for s, p in zip(size, padding, strict=True))
    kept = (slice(None), *inner)
    result = spread[kept]
    return result if x.ndim == 3 else result[0]


def _im2col_cases(make: Make) -> None:
    for dtype in _ALL:
        make.case(dtype, make.normal((2, 5, 4, 3), dtype), 2)
    x = make.normal((2, 6, 5, 3))
    make.case("padded", x, 3, 1, 1, 2)
    make.case("each-dim", x, (3, 2), (1, 2), (0, 1), (2, 1))
    make.case("line", make.normal((1, 7, 3)), (1, 3))
    make.case("volume", make.normal((1, 3, 4, 3, 2)), (2, 2, 2))
    make.case("no-batch", make.normal((5, 4, 3)), 2)
    make.case("empty", make.normal((0, 5, 4, 3)), 2)


def _col2im_cases(make: Make) -> None:
    for dtype in _ALL:
        make.case(dtype, make.normal((2, 12, 12), dtype), (5, 4), 2)
    make.case("padded", make.normal((2, 9, 27)), (6, 5), 3, 1, 1, 2)
    make.case("each-dim", make.normal((1, 6, 12)), (5, 6), (3, 2), (2, 1), (1, 0), (1, 4))
    make.case("volume", make.normal((1, 2, 16)), (2, 2, 3), (2, 2, 2))
    make.case("no-batch", make.normal((12, 12)), (5, 4), 2)
    make.case("square", make.normal((1, 9, 8)), 4, 2)


operator(
    "im2col",
    _im2col,
    _im2col_cases,
    **_EXACT,
    example="crt.im2col(crt.arange(9).reshape(1, 3, 3, 1), 2)",
)
operator(
    "col2im",
    _col2im,
    _col2im_cases,
    float32=(2, 4),
    narrow=(1, 0.01),
    example="crt.col2im(crt.ones(1, 4, 4), (3, 3), 2).reshape(3, 3)",
)


# ---------------------------------------------------------------- padding
_NUMPY = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(x: Array, pad: Any, mode: str, value: Any) -> Array:
    widths = [(0, 0)] * x.ndim
    for i in range(len(pad) // 2):
        widths[x.ndim - 1 - i] = (pad[2 * i], pad[2 * i + 1])
    options: Any = {"constant_values": 0 if value is None else value} if mode == "constant" else {}
    if not pad:
        return x
    cut = tuple(slice(max(-a, 0), x.shape[d] - max(-b, 0)) for d, (a, b) in enumerate(widths))
    if mode == "circular":  # goes around what is kept
        x, cut = x[cut], ()
    how: Any = _NUMPY[mode]
    grown = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths], how, **options)
    if mode != "circular":
        ends = [(max(-a, 0), max(-b, 0)) for a, b in widths]
        cut = tuple(slice(a, grown.shape[d] - b) for d, (a, b) in enumerate(ends))
    return grown[cut]


def _pad_cases(make: Make) -> None:
    for dtype in _ALL:
        make.case(dtype, make.normal((3, 4), dtype), (1, 2))
        make.case(f"{dtype}-value", make.normal((3, 4), dtype), (0, 2, 1, 0), "constant", 3)
        for mode in ("reflect", "replicate", "circular"):
            make.case(f"{dtype}-{mode}", make.normal((3, 4), dtype), (2, 1, 1, 2), mode)
    x = make.normal((2, 3, 4, 5))
    make.case("all-dims", x, (1, 0, 0, 2, 1, 1, 2, 0), "constant", -1.5)
    make.case("outer", x, (0, 0, 0, 0, 2, 1))
    make.case("negative", x, (-1, -2, 1, -1))
    for mode in ("reflect", "replicate", "circular"):
        make.case(f"{mode}-deep", x, (4, 3, 2, 3, 1, 0), mode)
        make.case(f"{mode}-negative", x, (-1, 2, 1, -2), mode)
    make.case("nothing", x, ())
    make.case("from-empty", make.normal((0, 3)), (1, 1, 2, 0), "constant", 2.0)
    make.case("scalar", make.normal(()), ())
    make.case("views", make.normal((3, 4), "float32", "transposed"), (1, 2), "reflect")


operator(
    "pad",
    _pad,
    _pad_cases,
    **_EXACT,
    example='crt.pad(crt.arange(4), [2, 1], mode="reflect")',
)
