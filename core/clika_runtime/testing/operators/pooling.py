"""References and cases of pooling, channels last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array
from .convolution import SIZES, numbers

Ranges = list[list[list[int]]]  # for each dim and each of its results: the places of the window


def _slide(
    sizes: tuple[int, ...],
    kernel: Any,
    stride: Any,
    padding: Any = 0,
    dilation: Any = 1,
    ceil: bool = False,
) -> tuple[Ranges, list[list[int]]]:
    """The places of each window, and how many count as its own, with padding."""
    n = len(sizes)
    kernels, step, pad = numbers(kernel, n), numbers(dilation, n), numbers(padding, n)
    strides = kernels if not stride else numbers(stride, n)
    windows: Ranges = []
    counts = []
    for i, size in enumerate(sizes):
        room = size + 2 * pad[i] - step[i] * (kernels[i] - 1) - 1
        count = (room + (strides[i] - 1 if ceil else 0)) // strides[i] + 1
        if ceil and (count - 1) * strides[i] >= size + pad[i]:
            count -= 1
        starts = [o * strides[i] - pad[i] for o in range(count)]
        reach = [[start + k * step[i] for k in range(kernels[i])] for start in starts]
        windows.append([[p for p in places if 0 <= p < size] for places in reach])
        counts.append([sum(p < size + pad[i] for p in places) for places in reach])
    return windows, counts


def _adapt(sizes: tuple[int, ...], wanted: Any) -> Ranges:
    found = []
    for size, out in zip(sizes, numbers(wanted, len(sizes)), strict=True):
        out = size if out == -1 else out
        found.append([list(range(i * size // out, -(-(i + 1) * size // out))) for i in range(out)])
    return found


def _fold(n: int, x: Array, windows: Ranges, fold: Callable[..., Any]) -> list[Array]:
    """fold(values [places, C], flat places, index of the result) for each window of x [N, ...] or
    [...]; its results, each as an array."""
    images = x if x.ndim == n + 2 else x[None]
    channels = x.shape[-1]
    counts = tuple(len(dim) for dim in windows)
    flat = images.reshape(len(images), int(np.prod(images.shape[1:-1])), channels)
    made: list[Any] = []
    for image in flat:
        rows = []
        for at in np.ndindex(*counts):
            grid = np.meshgrid(*(windows[d][i] for d, i in enumerate(at)), indexing="ij")
            places = np.ravel_multi_index(
                tuple(np.asarray(g, int).ravel() for g in grid), images.shape[1:-1]
            )
            rows.append(fold(image[places], places, at))
        made.append(rows)
    columns = len(made[0][0]) if made else 2
    shape = (len(images), *counts, channels)
    found = [
        np.asarray([[row[c] for row in rows] for rows in made]).reshape(shape)
        for c in range(columns)
    ]
    return found if x.ndim == n + 2 else [result[0] for result in found]


def _largest(values: Array, places: Array, _: Any) -> tuple[Array, Array]:
    at = np.argmax(values, 0)  # the first one; NaN counts as the largest
    return np.take_along_axis(values, at[None], 0)[0], places[at]


def _pair(found: list[Array], indices: bool) -> Any:
    return (found[0], found[1].astype(np.int64)) if indices else found[0]


def _max_pool(n: int) -> Callable[..., Any]:
    def pool(
        x: Array, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: bool
    ) -> Any:
        sizes = x.shape[-n - 1 : -1]
        windows, _ = _slide(sizes, kernel, stride, padding, dilation, ceil)
        return _pair(_fold(n, x, windows, _largest), indices)

    return pool


def _divide(total: Array, by: int) -> Array:
    if total.dtype.kind == "f":
        return total / by
    return np.sign(total) * np.sign(by) * (np.abs(total) // abs(by))


def _avg_pool(n: int) -> Callable[..., Any]:
    def pool(
        x: Array,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil: bool,
        count_pads: bool,
        divisor: int | None = None,
    ) -> Array:
        windows, counts = _slide(x.shape[-n - 1 : -1], kernel, stride, padding, 1, ceil)

        def mean(values: Array, _: Array, at: tuple[int, ...]) -> tuple[Array]:
            inside = len(values)
            whole = int(np.prod([counts[d][i] for d, i in enumerate(at)]))
            return (_divide(values.sum(0), divisor or (whole if count_pads else inside)),)

        return _fold(n, x, windows, mean)[0]

    return pool


def _lp_pool(n: int) -> Callable[..., Any]:
    def pool(x: Array, p: float, kernel: Any, stride: Any, ceil: bool) -> Array:
        windows, _ = _slide(x.shape[-n - 1 : -1], kernel, stride, ceil=ceil)
        whole = int(np.prod(numbers(kernel, n)))

        def power(values: Array, *_: Any) -> tuple[Array]:
            return ((np.power(values, p).sum(0) * whole / len(values)) ** (1 / p),)

        return _fold(n, x, windows, power)[0]

    return pool


def _adaptive_avg(n: int) -> Callable[..., Any]:
    def pool(x: Array, size: Any) -> Array:
        windows = _adapt(x.shape[-n - 1 : -1], size)
        return _fold(n, x, windows, lambda values, *_: (values.mean(0),))[0]

    return pool


def _adaptive_max(n: int) -> Callable[..., Any]:
    def pool(x: Array, size: Any, indices: bool) -> Any:
        return _pair(_fold(n, x, _adapt(x.shape[-n - 1 : -1], size), _largest), indices)

    return pool


def _unpool(n: int) -> Callable[..., Any]:
    def unpool(x: Array, at: Array, kernel: Any, stride: Any, padding: Any, size: Any) -> Array:
        kernels, pad = numbers(kernel, n), numbers(padding, n)
        strides = kernels if not stride else numbers(stride, n)
        sizes = x.shape[-n - 1 : -1]
        if size is None:
            size = [(sizes[i] - 1) * strides[i] - 2 * pad[i] + kernels[i] for i in range(n)]
        elif len(size) == x.ndim:
            size = size[-n - 1 : -1]
        channels = x.shape[-1]
        values = x.reshape(-1, int(np.prod(sizes)), channels)
        places = at.reshape(values.shape)
        result = np.zeros((len(values), int(np.prod(size)), channels), x.dtype)
        np.put_along_axis(result, places, values, 1)
        return result.reshape(*x.shape[: -n - 1], *size, channels)

    return unpool


# ---------------------------------------------------------------- cases
_ALL = ("float32", "bfloat16", "float16", "float64", "int64", "int32")


def _max_cases(n: int) -> Callable[[Make], None]:
    def build(make: Make) -> None:
        for dtype in _ALL:
            x = make.normal((2, *SIZES[n], 5), dtype)
            make.case(dtype, x, 2)
            make.case(f"{dtype}-indices", x, 3, 2, 1, 1, False, True)
        x = make.normal((2, *SIZES[n], 3))
        make.case("ceil", x, 3, 2, 0, 1, True)
        make.case("ceil-pads", x, 2, 3, 1, 1, True, True)
        make.case("dilated", x, 2, 1, 1, 2, False, True)
        make.case("each-dim", x, (2, 3, 1)[:n], (1, 2, 2)[:n], (1, 0, 0)[:n])
        make.case("no-batch", make.normal((*SIZES[n], 130)), 2)
        make.case("empty-batch", make.normal((0, *SIZES[n], 3)), 2)
        values = make.rng.choice([-np.inf, np.inf, 1.0, 2.0], (1, *SIZES[n], 4))
        values.reshape(-1)[7] = np.nan
        make.case("special", make.operand(values, "float32"), 2, 1, 0, 1, False, False)
        make.case("views", make.normal((2, *SIZES[n], 3), "float32", "transposed"), 2)

    return build


def _avg_cases(n: int) -> Callable[[Make], None]:
    def build(make: Make) -> None:
        for dtype in _ALL:
            make.case(dtype, make.normal((2, *SIZES[n], 5), dtype), 2)
        x = make.normal((2, *SIZES[n], 3))
        make.case("padded", x, 3, 2, 1)
        make.case("inside", x, 3, 2, 1, False, False)
        make.case("ceil", x, 3, 2, 0, True)
        make.case("ceil-pads", x, 3, 2, 1, True, False)
        make.case("each-dim", x, (2, 3, 1)[:n], (1, 2, 2)[:n], (1, 0, 0)[:n])
        make.case("no-batch", make.normal((*SIZES[n], 130)), 2)
        make.case("empty-batch", make.normal((0, *SIZES[n], 3)), 2)
        if n > 1:
            make.case("divisor", x, 2, 1, 0, False, True, 3)
            make.case("negative", make.normal((2, *SIZES[n], 3), "int64"), 2, 1, 0, False, True, -1)

    return build


def _lp_cases(n: int) -> Callable[[Make], None]:
    def build(make: Make) -> None:
        for dtype in ("float32", "bfloat16", "float16", "float64"):
            make.case(dtype, make.uniform(0.1, 2, (2, *SIZES[n], 5), dtype), 2.0, 2)
        x = make.uniform(0.1, 2, (2, *SIZES[n], 3))
        make.case("three", x, 3, 2, 1)
        make.case("half", x, 0.5, 2, 1)
        make.case("one", x, 1, 2, 1)
        make.case("ceil", x, 2.0, 3, 2, True)
        make.case("no-batch", make.uniform(0.1, 2, (*SIZES[n], 130)), 2.0, 2)

    return build


def _adaptive_cases(n: int, indices: bool) -> Callable[[Make], None]:
    def build(make: Make) -> None:
        dtypes = _ALL if indices else ("float32", "bfloat16", "float16", "float64")
        for dtype in dtypes:
            make.case(dtype, make.normal((2, *SIZES[n], 5), dtype), 2)
        x = make.normal((2, *SIZES[n], 3))
        make.case("up", x, 7)
        make.case("one", x, 1)
        make.case("each-dim", x, (3, -1, 2)[:n])
        make.case("no-batch", make.normal((*SIZES[n], 130)), 2)
        make.case("empty-batch", make.normal((0, *SIZES[n], 3)), 2)
        if indices:
            make.case("indices", x, 2, True)

    return build


def _unpool_cases(n: int) -> Callable[[Make], None]:
    def build(make: Make) -> None:
        small = (3, 2, 2)[:n]
        large = tuple(2 * size for size in small)

        def places(batch: tuple[int, ...], dtype: str = "int64", sizes: Any = large) -> Any:
            count = int(np.prod(sizes))
            shape = (*batch, *small, 4)
            picked = [
                make.rng.permutation(count)[: int(np.prod(small))]
                for _ in range(4 * int(np.prod(batch)))
            ]
            values = np.asarray(picked).reshape(*batch, 4, *small)
            return make.operand(np.moveaxis(values, len(batch), -1).reshape(shape), dtype)

        for dtype in _ALL:
            make.case(dtype, make.normal((2, *small, 4), dtype), places((2,)), 2)
        x = make.normal((2, *small, 4))
        make.case("int32-places", x, places((2,), "int32"), 2)
        wide = tuple(2 * size + 1 for size in small)
        make.case("size", x, places((2,), sizes=wide), 2, None, 0, wide)
        make.case("whole-size", x, places((2,), sizes=wide), 2, None, 0, (2, *wide, 4))
        make.case("no-batch", make.normal((*small, 4)), places(()), 2)

    return build


_X = "crt.arange(16, dtype=crt.float32).reshape(1, *{shape}, 1)"
_SHAPES = {1: "[16]", 2: "[4, 4]", 3: "[2, 2, 4]"}

for _n in (1, 2, 3):
    _x = f"x = {_X.format(shape=_SHAPES[_n])}\n"
    operator(
        f"max_pool{_n}d",
        _max_pool(_n),
        _max_cases(_n),
        float32=(0, 0),
        narrow=(0, 0),
        example=f"{_x}crt.max_pool{_n}d(x, 2).reshape(-1)",
    )
    operator(
        f"avg_pool{_n}d",
        _avg_pool(_n),
        _avg_cases(_n),
        float32=(2, 8),
        narrow=(1, 0.01),
        example=f"{_x}crt.avg_pool{_n}d(x, 2).reshape(-1)",
    )
    operator(
        f"lp_pool{_n}d",
        _lp_pool(_n),
        _lp_cases(_n),
        float32=(16, 0),
        narrow=(1, 0.01),
        example=f"{_x}crt.lp_pool{_n}d(x, 2, 2).reshape(-1)",
    )
    operator(
        f"adaptive_avg_pool{_n}d",
        _adaptive_avg(_n),
        _adaptive_cases(_n, False),
        float32=(2, 8),
        narrow=(1, 0.01),
        example=f"{_x}crt.adaptive_avg_pool{_n}d(x, 2).reshape(-1)",
    )
    operator(
        f"adaptive_max_pool{_n}d",
        _adaptive_max(_n),
        _adaptive_cases(_n, True),
        float32=(0, 0),
        narrow=(0, 0),
        example=f"{_x}crt.adaptive_max_pool{_n}d(x, 2).reshape(-1)",
    )
    operator(
        f"max_unpool{_n}d",
        _unpool(_n),
        _unpool_cases(_n),
        float32=(0, 0),
        narrow=(0, 0),
        example=(
            f"{_x}values, indices = crt.max_pool{_n}d(x, 2, return_indices=True)\n"
            f"crt.max_unpool{_n}d(values, indices, 2).reshape(-1)"
        ),
    )
