"""References and cases of convolutions, channels last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array


def numbers(value: Any, n: int) -> tuple[int, ...]:
    """One number per spatial dim."""
    found = (value,) if isinstance(value, int) else tuple(value)
    return found * n if len(found) == 1 else found


def pads(padding: Any, n: int) -> list[tuple[int, int]]:
    found = numbers(padding, n)
    return list(zip(found[:n], found[-n:], strict=True))


def steps(start: int, count: int, step: int) -> slice:
    return slice(start, start + (count - 1) * step + 1, step)


def places(kernel: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return iter(np.ndindex(*kernel))


def in_groups(x: Array, groups: int) -> Array:
    """The last dim cut into groups: [..., groups, C / groups]."""
    return x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)


def _batched(function: Callable[..., Array]) -> Callable[..., Array]:
    """Runs a function of [N, spatial..., C] over [spatial..., C] too."""

    def either(x: Array, w: Array, *more: Any) -> Array:
        if x.ndim == w.ndim:
            return function(x, w, *more)
        return function(x[None], w, *more)[0]

    return either


def _tap(w: Array, k: tuple[int, ...]) -> Array:
    """One place of a kernel [groups, rows, K..., columns]."""
    where = (slice(None), slice(None), *k)
    return w[where]


@_batched
def convolve(
    x: Array, w: Array, b: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Array:
    n = w.ndim - 2
    strides, dilations = numbers(stride, n), numbers(dilation, n)
    x = np.pad(x, [(0, 0), *pads(padding, n), (0, 0)])
    kernel = w.shape[1:-1]
    counts = [
        (x.shape[1 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(n)
    ]
    x = in_groups(x, groups)
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    total: Any = 0
    for k in places(kernel):
        seen = (slice(None), *(steps(k[i] * dilations[i], counts[i], strides[i]) for i in range(n)))
        part = x[seen]
        total = total + np.einsum("...gc,goc->...go", part, _tap(w, k))
    total = total.reshape(*total.shape[:-2], total.shape[-2] * total.shape[-1])
    return total if b is None else total + b


@_batched
def convolve_transposed(
    x: Array,
    w: Array,
    b: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Array:
    n = w.ndim - 2
    strides, dilations, extra = (numbers(v, n) for v in (stride, dilation, output_padding))
    kernel = w.shape[1:-1]
    counts = x.shape[1:-1]
    reach = [
        (counts[i] - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1 + extra[i]
        for i in range(n)
    ]
    made = groups * w.shape[-1]
    result = np.zeros((x.shape[0], *reach, made), x.dtype)
    grouped = in_groups(x, groups)
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    for k in places(kernel):
        part = np.einsum("...gc,gco->...go", grouped, _tap(w, k))
        at = (
            slice(None),
            *(steps(k[i] * dilations[i], counts[i], strides[i]) for i in range(n)),
        )
        result[at] += part.reshape(*part.shape[:-2], made)
    cut = [
        slice(before, size - after)
        for (before, after), size in zip(pads(padding, n), reach, strict=True)
    ]
    kept = (slice(None), *cut)
    result = result[kept]
    return result if b is None else result + b


def _sizes(function: Callable[..., Array]) -> Callable[..., Array]:
    """The sum of the sizes of the terms."""

    def size(x: Array, w: Array, b: Any, *more: Any) -> Array:
        return function(np.abs(x), np.abs(w), None if b is None else np.abs(b), *more)

    return size


SIZES = {1: (11,), 2: (7, 6), 3: (4, 5, 3)}


def _cases(n: int) -> Callable[[Make], None]:
    def build(make: Make) -> None:
        def weight(o: int, k: int, c: int, dtype: str = "float32", layout: str = "plain") -> Any:
            return make.normal((o, *(k,) * n, c), dtype, layout)

        size = SIZES[n]
        for dtype in ("float32", "bfloat16", "float16", "float64", "int64", "int32"):
            x = make.normal((2, *size, 5), dtype)
            make.case(dtype, x, weight(7, 3, 5, dtype), make.normal((7,), dtype))
        x = make.normal((2, *size, 6))
        make.case("padded", x, weight(4, 3, 6), None, 1, 1)
        make.case("strided", x, weight(40, 3, 6), make.normal((40,)), 2, 1)
        make.case("dilated", x, weight(5, 2, 6), None, 1, 2, 2)
        make.case("groups", x, weight(6, 3, 2), make.normal((6,)), 1, 1, 1, 3)
        make.case("one-place", x, weight(33, 1, 6))
        make.case("uneven-pads", x, weight(3, 2, 6), None, 1, (0,) * n + (1,) * n)
        make.case("each-dim", x, weight(3, 2, 6), None, (2, 1, 1)[:n], (1, 0, 1)[:n], (1, 2, 1)[:n])
        make.case("no-batch", make.normal((*size, 6)), weight(4, 3, 6))
        make.case("empty-batch", make.normal((0, *size, 6)), weight(4, 3, 6))
        turned = make.normal((2, *size, 6), "float32", "transposed")
        make.case("views", turned, weight(4, 2, 6, layout="stepped"))
        deep = make.normal((1, *size, 37))
        make.case("depthwise", deep, weight(37, 3, 1), make.normal((37,)), 1, 1, 1, 37)
        make.case("depthwise-two", deep, weight(74, 3, 1), None, 2, 1, 1, 37)
        narrow = make.normal((2, *size, 20), "bfloat16")
        make.case("depthwise-bf16", narrow, weight(20, 3, 1, "bfloat16"), None, 1, 1, 1, 20)

    return build


def _transposed_cases(n: int) -> Callable[[Make], None]:
    def build(make: Make) -> None:
        def weight(c: int, k: int, o: int, dtype: str = "float32") -> Any:
            return make.normal((c, *(k,) * n, o), dtype)

        size = tuple(max(2, extent // 2) for extent in SIZES[n])
        for dtype in ("float32", "bfloat16", "float16", "float64", "int64", "int32"):
            x = make.normal((2, *size, 5), dtype)
            make.case(dtype, x, weight(5, 3, 7, dtype), make.normal((7,), dtype), 2, 1)
        x = make.normal((2, *size, 6))
        make.case("plain", x, weight(6, 2, 4))
        make.case("output-padding", x, weight(6, 3, 40), make.normal((40,)), 3, 1, 2)
        make.case("dilated", x, weight(6, 2, 3), None, 2, 0, 0, 1, 3)
        make.case("gaps", x, weight(6, 2, 3), make.normal((3,)), 4)
        make.case("groups", x, weight(6, 3, 2), make.normal((6,)), 2, 0, 0, 3)
        make.case("each-dim", x, weight(6, 2, 3), None, (2, 1, 3)[:n], (1, 0, 0)[:n])
        make.case("no-batch", make.normal((*size, 6)), weight(6, 3, 4))
        make.case("empty-batch", make.normal((0, *size, 6)), weight(6, 3, 4))
        deep = make.normal((1, *size, 20))
        make.case("depthwise", deep, weight(20, 3, 1), make.normal((20,)), 2, 1, 1, 20)
        make.case("depthwise-two", deep, weight(20, 2, 2), None, 1, 0, 0, 20)

    return build


for _n in (1, 2, 3):
    _x = f"crt.arange(4 ** {_n}, dtype=crt.float32).reshape(1, *[4] * {_n}, 1)"
    _w = f"crt.ones(1, *[2] * {_n}, 1)"
    # A sum of up to 333 terms, one rounding each: eps/2 of the sum so far.
    operator(
        f"conv{_n}d",
        convolve,
        _cases(_n),
        float32=(2, 16),
        narrow=(1, 0.01),
        magnitude=_sizes(convolve),
        example=f"x = {_x}\ncrt.conv{_n}d(x, {_w}, stride=2).reshape(-1)",
    )
    operator(
        f"conv_transpose{_n}d",
        convolve_transposed,
        _transposed_cases(_n),
        float32=(2, 16),
        narrow=(1, 0.01),
        magnitude=_sizes(convolve_transposed),
        example=f"crt.conv_transpose{_n}d(crt.ones(1, *[2] * {_n}, 1), {_w}).reshape(-1)",
    )
