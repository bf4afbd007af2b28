"""References and cases of resampling, channels last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array
from .convolution import numbers


def _keys(x: float, a: float) -> float:
    """Keys' cubic kernel."""
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    if x < 2:
        return a * (x**3 - 5 * x**2 + 8 * x - 4)
    return 0.0


def _triangle(x: float) -> float:
    return max(0.0, 1 - abs(x))


def _apply(x: Array, axis: int, matrix: Array) -> Array:
    """The matrix [out, in] along an axis."""
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)


def _clip(i: int, size: int) -> int:
    return min(max(i, 0), size - 1)


def _matrix(size: int, out: int, mode: str, ratio: float, align: bool, antialias: bool) -> Array:
    """How much input j weighs in result i of `interpolate`."""
    m = np.zeros((out, size))
    for i in range(out):
        if mode in ("nearest", "nearest-exact"):
            shift = 0.5 if mode == "nearest-exact" else 0.0
            m[i, _clip(math.floor((i + shift) * ratio + 1e-9), size)] = 1
        elif mode == "area":
            window = range(i * size // out, -(-(i + 1) * size // out))
            m[i, window] = 1 / len(window)
        elif antialias:
            stretch = max(1.0, ratio)
            center = ratio * (i + 0.5)
            reach = stretch * (2 if mode == "bicubic" else 1)
            low = max(int(center - reach + 0.5), 0)
            for j in range(low, min(int(center + reach + 0.5), size)):
                d = (j + 0.5 - center) / stretch
                m[i, j] = _keys(d, -0.5) if mode == "bicubic" else _triangle(d)
            m[i] /= m[i].sum()
        else:
            place = i * ratio if align else (i + 0.5) * ratio - 0.5
            if mode == "bicubic":
                for j in range(math.floor(place) - 1, math.floor(place) + 3):
                    m[i, _clip(j, size)] += _keys(place - j, -0.75)
            else:
                place = max(0.0, place)
                for j in (math.floor(place), math.floor(place) + 1):
                    m[i, _clip(j, size)] += _triangle(place - j)
    return m


def _interpolate(
    x: Array,
    size: Any,
    scale_factor: Any,
    mode: str,
    align: bool | None,
    recompute: bool | None,
    antialias: bool,
) -> Array:
    n = x.ndim - 2
    factors = None if scale_factor is None else [float(f) for f in np.ravel(scale_factor)] * n
    whole = x.dtype.kind in "iu" and not mode.startswith("nearest")
    limit = np.iinfo(x.dtype) if whole else None
    x = x.astype(np.float64)
    for d in reversed(range(n)):
        extent = x.shape[1 + d]
        if factors is None:
            out = numbers(size, n)[d]
        else:
            out = math.floor(extent * factors[d])
        ratio = extent / out if factors is None or recompute else 1 / factors[d]
        if align:
            ratio = (extent - 1) / (out - 1) if out > 1 else 0.0
        x = _apply(x, 1 + d, _matrix(extent, out, mode, ratio, bool(align), antialias))
        if limit is not None:  # bytes after each axis
            x = np.clip(np.floor(x + 0.5), limit.min, limit.max)
    return x


def _interpolate_cases(make: Make) -> None:
    images = {1: (2, 6, 3), 2: (2, 6, 5, 3), 3: (1, 4, 5, 3, 2)}
    for dtype in ("float32", "bfloat16", "float16", "float64", "uint8", "int8"):
        make.case(f"{dtype}-nearest", make.normal(images[2], dtype), (4, 8))
        x = make.normal(images[2], dtype) if dtype != "uint8" else make.integers(
            0, 255, images[2], dtype
        )  # fmt: skip
        make.case(f"{dtype}-bilinear", x, (4, 8), None, "bilinear")
    for n, shape in images.items():
        x = make.normal(shape)
        linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[n]
        for mode in ("nearest", "nearest-exact", "area", linear):
            make.case(f"{n}d-{mode}-down", x, 3, None, mode)
            make.case(f"{n}d-{mode}-up", x, 7, None, mode)
            make.case(f"{n}d-{mode}-factor", x, None, 1.7, mode)
        make.case(f"{n}d-aligned", x, 4, None, linear, True)
        make.case(f"{n}d-one", x, 1, None, linear, True)
    x = make.normal(images[2])
    make.case("recomputed", x, None, 1.7, "bilinear", None, True)
    make.case("factors", x, None, (0.6, 2.3), "bilinear", False)
    make.case("twice", x, None, 2.0, "nearest")
    make.case("bicubic", x, (9, 4), None, "bicubic")
    make.case("bicubic-aligned", x, (9, 4), None, "bicubic", True)
    for mode in ("bilinear", "bicubic"):
        make.case(f"{mode}-antialias", x, (2, 9), None, mode, False, None, True)
        make.case(f"{mode}-antialias-factor", x, None, (0.4, 0.7), mode, False, None, True)
    make.case("wide", make.normal((1, 3, 3, 300)), 5, None, "bilinear")
    make.case("same", x, (6, 5), None, "bilinear")
    make.case("empty", make.normal((0, 4, 4, 2)), 3)
    make.case("views", make.normal((2, 4, 5, 3), "float32", "transposed"), 3, None, "bilinear")


# Two taps per axis, each a product and a sum in float32, of up to three axes; cubic weights sum up
# to 1.7 per axis.
operator(
    "interpolate",
    _interpolate,
    _interpolate_cases,
    float32=(4, 8),
    narrow=(1, 0.01),
    example=(
        "x = crt.tensor([0.0, 1.0, 2.0, 3.0]).reshape(1, 4, 1)\n"
        'crt.interpolate(x, 6, mode="linear").reshape(-1)'
    ),
)


# ---------------------------------------------------------------- resize
def _place(
    i: int, size: int, out: int, scale: float, transform: str, region: tuple[float, float]
) -> float:
    made = scale * size
    if transform == "half_pixel_symmetric":
        return size / 2 * (1 - out / made) + (i + 0.5) / scale - 0.5
    if transform == "pytorch_half_pixel":
        return (i + 0.5) / scale - 0.5 if out > 1 else 0.0
    if transform == "align_corners":
        return 0.0 if made == 1 else i * (size - 1) / (made - 1)
    if transform == "asymmetric":
        return i / scale
    if transform == "tf_crop_and_resize":
        start, end = region
        if out == 1:
            return 0.5 * (start + end) * (size - 1)
        return start * (size - 1) + i * (end - start) * (size - 1) / (made - 1)
    return (i + 0.5) / scale - 0.5


_ROUND = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
}


def _resize(
    x: Array,
    sizes: Any,
    scales: Any,
    axes: Any,
    mode: str,
    transform: str,
    nearest: str,
    policy: str,
    a: float,
    exclude: bool,
    antialias: bool,
    roi: Any,
    value: float,
) -> Array:
    over = list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in axes]
    kind, dtype = x.dtype.kind, x.dtype
    x = x.astype(np.float64)
    ratios = None
    if sizes is not None and policy != "stretch":
        found = [size / x.shape[axis] for size, axis in zip(sizes, over, strict=True)]
        ratios = (min if policy == "not_larger" else max)(found)
    outside = np.zeros((), bool)
    for k, axis in enumerate(over):
        size = x.shape[axis]
        if scales is not None:
            scale = scales[k]
            out = math.floor(size * scale)
        elif ratios is not None:
            scale, out = ratios, math.floor(ratios * size + 0.5)
        else:
            out = sizes[k]
            scale = out / size
        region = (0.0, 1.0) if roi is None else (roi[k], roi[len(over) + k])
        narrow = min(1.0, scale) if antialias else 1.0
        m = np.zeros((out, size))
        beyond = np.zeros(out, bool)
        for i in range(out):
            place = _place(i, size, out, scale, transform, region)
            beyond[i] = transform == "tf_crop_and_resize" and not 0 <= place <= size - 1
            if mode == "nearest":
                m[i, _clip(_ROUND[nearest](place), size)] = 1
                continue
            reach = math.ceil((2 if mode == "cubic" else 1) / narrow) + 1
            for j in range(math.floor(place) - reach, math.floor(place) + reach + 1):
                d = (place - j) * narrow
                w = _keys(d, a) if mode == "cubic" else _triangle(d)
                if not exclude or 0 <= j < size:
                    m[i, _clip(j, size)] += w
            if exclude or antialias:
                m[i] /= m[i].sum()
        x = _apply(x, axis, m)
        outside = outside | beyond.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    x = np.where(outside, value, x)
    if kind in "iu":
        limit = np.iinfo(dtype)
        x = np.clip(np.rint(x), limit.min, limit.max)
    return x


_DEFAULTS = {
    "mode": "nearest",
    "transform": "half_pixel",
    "nearest": "round_prefer_floor",
    "policy": "stretch",
    "a": -0.75,
    "exclude": False,
    "antialias": False,
    "roi": None,
    "value": 0.0,
}


def _resize_cases(make: Make) -> None:
    def case(name: str, x: Any, sizes: Any = None, scales: Any = None, axes: Any = None,
             **options: Any) -> None:  # fmt: skip
        make.case(name, x, sizes, scales, axes, *{**_DEFAULTS, **options}.values())

    for dtype in ("float32", "bfloat16", "float16", "float64", "int32", "int64"):
        case(f"{dtype}-nearest", make.normal((2, 4, 5), dtype), (2, 6, 3))
    for dtype in ("float32", "bfloat16", "float64"):
        case(f"{dtype}-linear", make.normal((2, 4, 5), dtype), (2, 6, 3), mode="linear")
    x = make.normal((1, 4, 5, 2))
    for transform in (
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"
    ):  # fmt: skip
        for mode in ("linear", "cubic"):
            case(f"{transform}-{mode}", x, None, (0.6, 1.7), (1, 2), mode=mode,
                 transform=transform)  # fmt: skip
    for nearest in _ROUND:
        case(nearest, x, (7, 3), None, (1, 2), nearest=nearest)
        case(f"{nearest}-asymmetric", x, (8, 3), None, (1, -2), transform="asymmetric",
             nearest=nearest)  # fmt: skip
    case("one", x, (1, 1), None, (1, 2), mode="linear", transform="pytorch_half_pixel")
    for mode in ("linear", "cubic"):
        case(f"{mode}-excluded", x, (7, 3), None, (1, 2), mode=mode, exclude=True)
        case(f"{mode}-antialias", x, (2, 9), None, (1, 2), mode=mode, antialias=True)
    for policy in ("not_larger", "not_smaller"):
        case(policy, x, (7, 7), None, (1, 2), mode="linear", policy=policy)
    crop = {"transform": "tf_crop_and_resize", "roi": (0.2, -0.4, 0.9, 1.3), "value": 7.0}
    for mode in ("nearest", "linear"):
        case(f"crop-{mode}", x, (3, 6), None, (1, 2), mode=mode, **crop)
    case("crop-int32", make.normal((1, 4, 5), "int32"), (3, 6), None, (1, 2), **crop)
    case("crop-bfloat16", make.normal((1, 4, 5), "bfloat16"), (3, 6), None, (1, 2), **crop)
    case("a", x, (7, 3), None, (1, 2), mode="cubic", a=-0.5)
    case("same", x, (1, 4, 5, 2), mode="linear")
    case("empty", make.normal((0, 4)), (5,), None, (1,))


operator(
    "resize",
    _resize,
    _resize_cases,
    float32=(4, 8),
    narrow=(1, 0.01),
    example='crt.resize(crt.tensor([0.0, 1.0, 2.0, 3.0]), sizes=[6], mode="linear")',
)


# ---------------------------------------------------------------- grids
def _pixel(x: float, size: int, align: bool) -> float:
    if math.isnan(x):
        x = -1.0
    return (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2


def _reflected(x: float, size: int, align: bool) -> float:
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    span = high - low
    if span == 0:
        return 0.0
    x = abs(x - low)
    turns, rest = int(x // span), x % span
    return low + rest if turns % 2 == 0 else high - rest


def _padded(x: float, size: int, padding: str, align: bool) -> float:
    if padding == "reflection":
        x = _reflected(x, size, align)
    return x if padding == "zeros" else min(max(x, 0.0), size - 1.0)


def _grid_sample(x: Array, grid: Array, mode: str, padding: str, align: bool | None) -> Array:
    n = x.ndim - 2
    sizes = x.shape[1:-1]
    aligned = bool(align)
    result = np.zeros((*grid.shape[:-1], x.shape[-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        point = grid[at]
        place = [_pixel(float(point[n - 1 - d]), sizes[d], aligned) for d in range(n)]
        reach = {"nearest": (0,), "bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}[mode]
        if mode != "bicubic":
            place = [_padded(p, sizes[d], padding, aligned) for d, p in enumerate(place)]
        for step in np.ndindex(*(len(reach),) * n):
            weight = 1.0
            pixel = []
            for d in range(n):
                if mode == "nearest":
                    i: float = round(place[d])
                else:
                    i = math.floor(place[d]) + reach[step[d]]
                    far = place[d] - i
                    weight *= _keys(far, -0.75) if mode == "bicubic" else _triangle(far)
                if mode == "bicubic":
                    i = _padded(i, sizes[d], padding, aligned)
                pixel.append(int(i))
            if all(0 <= pixel[d] < sizes[d] for d in range(n)):
                where = (at[0], *pixel)
                result[at] += weight * x[where]
    return result


def _grid_cases(make: Make) -> None:
    image = (2, 4, 5, 3)
    for dtype in ("float32", "bfloat16", "float16", "float64"):
        make.case(dtype, make.normal(image, dtype), make.uniform(-1.5, 1.5, (2, 3, 2, 2), dtype))
    x, grid = make.normal(image), make.uniform(-2.5, 2.5, (2, 3, 4, 2))
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                make.case(f"{mode}-{padding}-{align}", x, grid, mode, padding, align)
    x, grid = make.normal((1, 3, 4, 2, 3)), make.uniform(-1.5, 1.5, (1, 2, 3, 2, 3))
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            make.case(f"3d-{mode}-{padding}", x, grid, mode, padding)
    odd = make.operand([[[[np.nan, 0.5], [9e9, -9e9], [-1.0, 1.0]]]], "float32")
    for padding in ("zeros", "border"):
        make.case(f"odd-{padding}", make.normal((1, 3, 3, 2)), odd, "bilinear", padding)
    make.case("empty", make.normal((0, 3, 3, 2)), make.normal((0, 2, 2, 2)))


# A place in float32 is off by an ulp of the image's size, which moves a weight by as much.
operator(
    "grid_sample",
    _grid_sample,
    _grid_cases,
    float32=(4, 64),
    narrow=(1, 1),
    example=(
        "x = crt.arange(9, dtype=crt.float32).reshape(1, 3, 3, 1)\n"
        "crt.grid_sample(x, crt.tensor([[[[0.0, 0.0], [1.0, 1.0]]]])).reshape(-1)"
    ),
)


def _affine_grid(theta: Array, size: tuple[int, ...], align: bool | None) -> Array:
    n = len(size) - 2

    def line(extent: int) -> Array:
        if extent == 1:
            return np.zeros(1)
        ends = np.linspace(-1, 1, extent)
        return ends if align else ends * (extent - 1) / extent

    axes = np.meshgrid(*(line(extent) for extent in size[1:-1]), indexing="ij")
    places = np.stack([*reversed(axes), np.ones(size[1:-1])], -1)
    return np.stack([places @ matrix.T for matrix in theta]).reshape(*size[:-1], n)


def _affine_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float16", "float64"):
        make.case(dtype, make.normal((2, 2, 3), dtype), (2, 3, 4, 5))
    make.case("aligned", make.normal((2, 2, 3)), (2, 3, 4, 5), True)
    make.case("3d", make.normal((1, 3, 4)), (1, 2, 3, 4, 5))
    make.case("one", make.normal((1, 2, 3)), (1, 1, 3, 5), True)


operator(
    "affine_grid",
    _affine_grid,
    _affine_cases,
    float32=(4, 4),
    narrow=(1, 0.01),
    example=(
        "theta = crt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])\n"
        "crt.affine_grid(theta, [1, 2, 2, 1])"
    ),
)
