"""Images of another size or geometry, channels last."""

from __future__ import annotations

from math import floor
from typing import Any

from ._promotion import FLOATS, NUMBERS
from ._shapes import fail, known, same, text
from ._windows import LIMIT
from .record import Meta, op, static, tensor

_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area")
_RANK = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_BYTES = frozenset(("uint8", "int8"))


def _scaled(name: str, sizes: tuple[Any, ...], scales: tuple[float, ...]) -> list[Any]:
    """floor(size * scale) for each dim."""
    result: list[Any] = []
    for size, factor in zip(sizes, scales, strict=True):
        if not 0 < factor <= LIMIT:
            fail(name, f"scale {factor} must be a positive number")
        if type(size) is int:
            result.append(floor(size * factor))
        elif factor == int(factor):
            result.append(size * int(factor))
        else:
            fail(name, f"scale {factor} of the symbolic size {size}: give the size itself")
    return result


def _checked(name: str, sizes: Any) -> None:
    for size in sizes:
        if type(size) is int and not 1 <= size <= LIMIT:
            fail(name, f"the result would have the sizes {text(sizes)}; each must be at least 1")


def _infer_interpolate(
    input: Meta,
    size: tuple[int, ...] | None,
    scale_factor: tuple[float, ...] | None,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> Meta:
    name = "interpolate"
    if not 3 <= input.ndim <= 5:
        fail(name, f"input {text(input.shape)} must be [N, spatial..., C] with 1 to 3 spatial dims")
    n = input.ndim - 2
    if _RANK.get(mode, n) != n:
        fail(
            name,
            f"mode '{mode}' takes {_RANK[mode]} spatial dims, input {text(input.shape)} has {n}",
        )
    if (size is None) == (scale_factor is None):
        fail(name, "give either size or scale_factor")
    if align_corners and mode in ("nearest", "nearest-exact", "area"):
        fail(name, f"align_corners does not go with mode '{mode}'")
    if antialias and mode not in ("bilinear", "bicubic"):
        fail(name, f"antialias goes with modes 'bilinear' and 'bicubic', got '{mode}'")
    if recompute_scale_factor and size is not None:
        fail(name, "recompute_scale_factor goes with scale_factor, not with size")
    given: Any = size if size is not None else scale_factor
    if isinstance(given, (int, float)):
        given = (given,)
    if len(given) == 1:
        given = given * n
    if len(given) != n:
        fail(name, f"{list(given)} must be one number or {n}, one for each spatial dim")
    sizes = input.shape[1:-1]
    if any(known(extent, 0) for extent in (*sizes, input.shape[-1])):
        fail(name, f"input {text(input.shape)} is empty in a dim other than the batch")
    result = list(given) if size is not None else _scaled(name, sizes, given)
    _checked(name, result)
    return Meta((input.shape[0], *result, input.shape[-1]), input.dtype)


op(
    "interpolate",
    doc="""
    Resamples the spatial dims of input [N, spatial..., C] to `size`, or to floor(L * scale_factor):
    each result is a weighted sum of the inputs about its place.

    Position i of the result lies at (i + 0.5) * s - 0.5 of the input, where s is 1 / scale_factor,
    or L / size with a `size` or with `recompute_scale_factor`; with `align_corners` at i * (L - 1)
    / (size - 1). "nearest" takes floor(i * s), "nearest-exact" floor((i + 0.5) * s). "linear",
    "bilinear" and "trilinear" weigh the two neighbours along each dim, "bicubic" the four by
    Keys' kernel with a = -0.75; places outside repeat the border. "area" averages as
    `adaptive_avg_pool2d` does. `antialias` widens the kernel by s where the image shrinks, as
    Pillow does (bicubic with a = -0.5). Bytes are rounded after each axis, the last one first.
    """,
    args=[
        tensor("input", FLOATS | _BYTES),
        static("size", "ints", None),
        static("scale_factor", "floats", None),
        static("mode", "str", "nearest", modes=_MODES),
        static("align_corners", "bool", None),
        static("recompute_scale_factor", "bool", None),
        static("antialias", "bool", False),
    ],
    infer=_infer_interpolate,
    method=False,
    source="Keys, Cubic convolution interpolation for digital image processing, IEEE TASSP 1981",
)


_TRANSFORMS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)


def _infer_resize(
    input: Meta,
    sizes: tuple[int, ...] | None,
    scales: tuple[float, ...] | None,
    axes: tuple[int, ...] | None,
    mode: str,
    coordinate_transformation_mode: str,
    nearest_mode: str,
    keep_aspect_ratio_policy: str,
    cubic_coeff_a: float,
    exclude_outside: bool,
    antialias: bool,
    roi: tuple[float, ...] | None,
    extrapolation_value: float,
) -> Meta:
    name = "resize"
    if axes is None:
        over = list(range(input.ndim))
    else:
        over = [axis + input.ndim if axis < 0 else axis for axis in axes]
    if any(not 0 <= axis < input.ndim for axis in over) or len(set(over)) != len(over):
        fail(name, f"axes {axes} must be distinct dims of input {text(input.shape)}")
    if (sizes is None) == (scales is None):
        fail(name, "give either sizes or scales")
    if coordinate_transformation_mode == "tf_crop_and_resize" and (
        roi is None or len(roi) != 2 * len(over)
    ):
        fail(name, f"tf_crop_and_resize needs a roi of {2 * len(over)} numbers: starts, then ends")
    given: Any = sizes if sizes is not None else scales
    if len(given) != len(over):
        fail(name, f"{list(given)} must have one number for each of the axes {over}")
    extents = tuple(input.shape[axis] for axis in over)
    result: list[Any]
    if sizes is None:
        result = _scaled(name, extents, given)
    elif keep_aspect_ratio_policy == "stretch":
        result = list(sizes)
    else:
        if any(type(extent) is not int or extent < 1 for extent in extents):
            fail(name, f"the aspect ratio of {text(extents)} is not known; give the sizes")
        ratios = [size / extent for size, extent in zip(sizes, extents, strict=True)]
        ratio = min(ratios) if keep_aspect_ratio_policy == "not_larger" else max(ratios)
        result = [floor(ratio * extent + 0.5) for extent in extents]
    _checked(name, result)
    shape = list(input.shape)
    for axis, made in zip(over, result, strict=True):
        if known(shape[axis], 0):
            fail(name, f"input {text(input.shape)} is empty along axis {axis}")
        shape[axis] = made
    return Meta(tuple(shape), input.dtype)


op(
    "resize",
    doc="""
    Resamples any dims of input to `sizes` or floor(L * scales): ONNX's Resize.

    `axes` are the dims that the numbers belong to, all by default. Position i of the result lies
    at a place x of the input by `coordinate_transformation_mode`, with the scale s = size / L:
    half_pixel (i + 0.5) / s - 0.5; half_pixel_symmetric the same about the middle;
    pytorch_half_pixel as half_pixel, 0 where the size is 1; align_corners i * (L - 1) / (size - 1);
    asymmetric i / s; tf_crop_and_resize within `roi` (starts, then ends, as fractions), with
    `extrapolation_value` outside of the input. "nearest" rounds x by `nearest_mode`, "linear"
    weighs two neighbours, "cubic" four (`cubic_coeff_a`); `exclude_outside` gives neighbours
    outside no weight instead of repeating the border. `antialias` widens the kernels where the
    image shrinks. `keep_aspect_ratio_policy` makes one ratio of all `sizes`.
    """,
    args=[
        tensor("input", NUMBERS),
        static("sizes", "ints", None),
        static("scales", "floats", None),
        static("axes", "ints", None),
        static("mode", "str", "nearest", modes=("nearest", "linear", "cubic")),
        static(
            "coordinate_transformation_mode",
            "str",
            "half_pixel",
            modes=_TRANSFORMS,
            keyword_only=True,
        ),
        static(
            "nearest_mode",
            "str",
            "round_prefer_floor",
            modes=("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
            keyword_only=True,
        ),
        static(
            "keep_aspect_ratio_policy",
            "str",
            "stretch",
            modes=("stretch", "not_larger", "not_smaller"),
            keyword_only=True,
        ),
        static("cubic_coeff_a", "float", -0.75, keyword_only=True),
        static("exclude_outside", "bool", False, keyword_only=True),
        static("antialias", "bool", False, keyword_only=True),
        static("roi", "floats", None, keyword_only=True),
        static("extrapolation_value", "float", 0.0, keyword_only=True),
    ],
    infer=_infer_resize,
    method=False,
    source="ONNX operator Resize, https://onnx.ai/onnx/operators/onnx__Resize.html",
)


def _infer_grid_sample(
    input: Meta, grid: Meta, mode: str, padding_mode: str, align_corners: bool | None
) -> Meta:
    name = "grid_sample"
    n = input.ndim - 2
    if n not in (2, 3):
        fail(name, f"input {text(input.shape)} must be [N, H, W, C] or [N, D, H, W, C]")
    if grid.ndim != input.ndim or not known(grid.shape[-1], n):
        fail(
            name,
            f"grid {text(grid.shape)} must be [N, sizes of the result..., {n}] for input "
            f"{text(input.shape)}",
        )
    if not same(grid.shape[0], input.shape[0]):
        fail(name, f"grid {text(grid.shape)} and input {text(input.shape)} must have one batch")
    if grid.dtype is not input.dtype:
        fail(
            name,
            f"grid has dtype {grid.dtype.name}, input {input.dtype.name}; convert one with .to()",
        )
    if mode == "bicubic" and n != 2:
        fail(name, f"mode 'bicubic' takes input [N, H, W, C], got {text(input.shape)}")
    if any(known(size, 0) for size in input.shape[1:-1]):
        fail(name, f"input {text(input.shape)} is empty in a spatial dim")
    return Meta((*grid.shape[:-1], input.shape[-1]), input.dtype)


op(
    "grid_sample",
    doc="""
    The values of input [N, H, W, C] at the places of grid [N, H', W', 2]: result[n, i, j] =
    input[n, y, x] with (x, y) = grid[n, i, j]; with three spatial dims (x, y, z).

    -1 and 1 are the outer edges of the image, with `align_corners` the middles of the outer pixels.
    Between pixels "bilinear" weighs the 4 (8) neighbours, "nearest" takes the nearest one (halves
    to even), "bicubic" weighs 16 by Keys' kernel with a = -0.75. Outside of the image "zeros" reads
    0, "border" the nearest pixel, "reflection" mirrors at the edges. The place of NaN is -1 for
    "border" and "reflection"; with "zeros" it lies outside.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("grid", FLOATS),
        static("mode", "str", "bilinear", modes=("bilinear", "nearest", "bicubic")),
        static("padding_mode", "str", "zeros", modes=("zeros", "border", "reflection")),
        static("align_corners", "bool", None),
    ],
    infer=_infer_grid_sample,
    method=False,
    source="Jaderberg et al., Spatial Transformer Networks, arXiv:1506.02025",
)


def _infer_affine_grid(theta: Meta, size: tuple[int, ...], align_corners: bool | None) -> Meta:
    name = "affine_grid"
    n = len(size) - 2
    if n not in (2, 3):
        fail(name, f"size {list(size)} must be [N, H, W, C] or [N, D, H, W, C]")
    if theta.ndim != 3 or not (known(theta.shape[1], n) and known(theta.shape[2], n + 1)):
        fail(name, f"theta {text(theta.shape)} must be [N, {n}, {n + 1}]")
    if not same(theta.shape[0], size[0]):
        fail(name, f"theta {text(theta.shape)} and size {list(size)} must have one batch")
    _checked(name, size[1:])
    return Meta((*size[:-1], n), theta.dtype)


op(
    "affine_grid",
    doc="""
    The grid for `grid_sample` of affine maps theta [N, 2, 3] (or [N, 3, 4]): result[n, i, j] =
    theta[n] . (x_j, y_i, 1), with x and y from -1 to 1.

    `size` is the shape of the image, [N, H, W, C] or [N, D, H, W, C]; the result is [N, H, W, 2] or
    [N, D, H, W, 3]. -1 and 1 are the outer edges, with `align_corners` the middles of the outer
    pixels.
    """,
    args=[
        tensor("theta", FLOATS),
        static("size", "ints"),
        static("align_corners", "bool", None),
    ],
    infer=_infer_affine_grid,
    method=False,
    source="Jaderberg et al., Spatial Transformer Networks, arXiv:1506.02025",
)
