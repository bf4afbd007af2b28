"""Affine quantization: real = (code - zero_point) * scale."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ._promotion import ALL, FLOATS, INTS
from ._shapes import dim as front
from ._shapes import fail, same, text
from .record import ELEMENTWISE, Meta, op, scalar, static, tensor

CODES = frozenset(("uint8", "int8", "uint16", "int16", "int32"))
_LINEAR = (
    "ONNX operators QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, https://onnx.ai"
)


def _entered(input: Meta, scale: Any, zero_point: Any, *_: Any) -> tuple[Any, Any, Any]:
    """Scales enter a kernel as floats of the real numbers' precision, zero points as int64."""
    wide = dtypes.float64 if input.dtype is dtypes.float64 else dtypes.float32
    return None, wide, dtypes.int64


def _decoded(
    input: Meta, scale: Meta, zero_point: Meta | None, axis: int, block_size: int, dtype: Any
) -> tuple[Any, Any, Any]:
    """The same of codes, whose real numbers have the dtype of the scale, or that of the result."""
    wide = dtypes.float64 in (scale.dtype, dtype)
    return None, dtypes.float64 if wide else dtypes.float32, dtypes.int64


def _code(name: str, dtype: Any) -> Any:
    if dtype.name not in CODES:
        fail(name, f"dtype must be one of {', '.join(sorted(CODES))}, got {dtype.name}")
    return dtype


def _along(name: str, input: Meta, axis: int, scale: Meta, zero_point: Meta | None) -> None:
    """scale is one number, or [size of axis]; zero_point has its shape."""
    if scale.ndim > 1 or (scale.ndim == 1 and not input.ndim):
        fail(name, f"scale {text(scale.shape)} must be one number or one for each place on an axis")
    if scale.ndim == 1:
        at = front(name, axis, input.ndim, name="axis")
        if not same(scale.shape[0], input.shape[at]) and not same(scale.shape[0], 1):
            fail(
                name,
                f"scale {text(scale.shape)} must be [{input.shape[at]}], the size of axis {axis} "
                f"of input {text(input.shape)}",
            )
    _same_shape(name, scale, zero_point)


def _same_shape(name: str, scale: Meta, zero_point: Meta | None) -> None:
    if zero_point is None:
        return
    if zero_point.ndim != scale.ndim or not all(map(same, zero_point.shape, scale.shape)):
        fail(
            name,
            f"zero_point {text(zero_point.shape)} must have the shape of scale {text(scale.shape)}",
        )


def _blocks(name: str, input: Meta, axis: int, block_size: int, scale: Meta) -> None:
    """scale has the shape of input, with ceil(size / block_size) along the axis."""
    at = front(name, axis, input.ndim, name="axis")
    wanted = list(input.shape)
    wanted[at] = (wanted[at] + (block_size - 1)) // block_size
    if scale.ndim != input.ndim or not all(map(same, scale.shape, wanted)):
        fail(
            name,
            f"scale {text(scale.shape)} must be {text(wanted)} for input {text(input.shape)} in "
            f"blocks of {block_size} along axis {axis}",
        )


def _placed(
    name: str, input: Meta, scale: Meta, zero_point: Meta | None, axis: int, block_size: int
) -> None:
    if block_size < 0:
        fail(name, f"block_size {block_size} must be 0 (no blocks) or positive")
    if block_size == 0:
        _along(name, input, axis, scale, zero_point)
    else:
        _blocks(name, input, axis, block_size, scale)
        _same_shape(name, scale, zero_point)


def _infer_quantize(
    input: Meta, scale: Meta, zero_point: Meta | None, axis: int, block_size: int, dtype: Any
) -> Meta:
    name = "quantize_linear"
    if dtype is None:
        dtype = dtypes.uint8 if zero_point is None else zero_point.dtype
    elif zero_point is not None and zero_point.dtype is not dtype:
        fail(name, f"zero_point has dtype {zero_point.dtype.name}, the result {dtype.name}")
    _placed(name, input, scale, zero_point, axis, block_size)
    return Meta(input.shape, _code(name, dtype))


op(
    "quantize_linear",
    doc="""
    round(x / scale) + zero_point, halves to the even code, clamped to the range of the dtype.

    `scale` and `zero_point` (None: 0) are one number, or [L] along `axis`; with a `block_size` they
    have the shape of input with one entry for each block along `axis`. `dtype` is that of
    zero_point, or uint8, unless given. NaN gives the zero point.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("scale", FLOATS),
        tensor("zero_point", CODES, optional=True),
        static("axis", "int", 1),
        static("block_size", "int", 0),
        static("dtype", "dtype", None),
    ],
    infer=_infer_quantize,
    promote=_entered,
    method=False,
    source=_LINEAR,
)


def _infer_dequantize(
    input: Meta, scale: Meta, zero_point: Meta | None, axis: int, block_size: int, dtype: Any
) -> Meta:
    name = "dequantize_linear"
    if zero_point is not None and zero_point.dtype is not input.dtype:
        fail(name, f"zero_point has dtype {zero_point.dtype.name}, input {input.dtype.name}")
    if dtype is not None and dtype.name not in FLOATS:
        fail(name, f"dtype must be one of {', '.join(sorted(FLOATS))}, got {dtype.name}")
    _placed(name, input, scale, zero_point, axis, block_size)
    return Meta(input.shape, scale.dtype if dtype is None else dtype)


op(
    "dequantize_linear",
    doc="""
    (x - zero_point) * scale, in the dtype of scale unless `dtype` is given.

    `scale` and `zero_point` (None: 0) are one number, or [L] along `axis`; with a `block_size` they
    have the shape of input with one entry for each block along `axis`.
    """,
    args=[
        tensor("input", CODES),
        tensor("scale", FLOATS),
        tensor("zero_point", CODES, optional=True),
        static("axis", "int", 1),
        static("block_size", "int", 0),
        static("dtype", "dtype", None),
    ],
    infer=_infer_dequantize,
    promote=_decoded,
    method=False,
    source=_LINEAR,
)


def _infer_dynamic(input: Meta) -> tuple[Meta, Meta, Meta]:
    return Meta(input.shape, dtypes.uint8), Meta((), dtypes.float32), Meta((), dtypes.uint8)


op(
    "dynamic_quantize_linear",
    doc="""
    uint8 codes with the scale and zero point that fit the range of input: (codes, scale,
    zero_point).

    scale = (max(x, 0) - min(x, 0)) / 255, zero_point = round(-min(x, 0) / scale), both 0-d. An
    input of zeros only, or an empty one, has scale 1 and zero point 0.
    """,
    args=[tensor("input", frozenset(("float32",)))],
    infer=_infer_dynamic,
    outputs=3,
    method=False,
    source=_LINEAR,
)


def _infer_per_tensor(input: Meta, scale: Any, zero_point: Any, dtype: Any) -> Meta:
    return Meta(input.shape, _code("quantize_per_tensor", dtype))


op(
    "quantize_per_tensor",
    doc="""
    round(x / scale) + zero_point with one scale and zero point, clamped to the range of `dtype`.

    Halves go to the even code. The result holds the plain codes: `dequantize_linear` reads them.
    """,
    args=[
        tensor("input", FLOATS),
        scalar("scale", "float"),
        scalar("zero_point", "int"),
        static("dtype", "dtype"),
    ],
    infer=_infer_per_tensor,
    traits={ELEMENTWISE},
    method=False,
)


def _infer_per_channel(input: Meta, scales: Meta, zero_points: Meta, axis: int, dtype: Any) -> Meta:
    name = "quantize_per_channel"
    _channels(name, input, scales, zero_points, axis)
    return Meta(input.shape, _code(name, dtype))


def _channels(name: str, input: Meta, scales: Meta, zero_points: Meta, axis: int) -> None:
    at = front(name, axis, input.ndim, name="axis")
    if scales.ndim != 1 or not input.ndim or not same(scales.shape[0], input.shape[at]):
        fail(
            name,
            f"scales {text(scales.shape)} must be one for each place on axis {axis} of input "
            f"{text(input.shape)}",
        )
    _same_shape(name, scales, zero_points)


op(
    "quantize_per_channel",
    doc="""
    round(x / scale) + zero_point with a scale and zero point for each place on `axis`, clamped to
    the range of `dtype`.

    scales and zero_points are [L]. Halves go to the even code. The result holds the plain codes.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("scales", FLOATS),
        tensor("zero_points", INTS),
        static("axis", "int"),
        static("dtype", "dtype"),
    ],
    infer=_infer_per_channel,
    promote=_entered,
    method=False,
)


def _range(name: str, low: int, high: int) -> None:
    if low > high or abs(low) > 1 << 31 or abs(high) > 1 << 31:
        fail(name, f"quant_min {low} must not be above quant_max {high}, both within 32 bits")


def _infer_fake_tensor(
    input: Meta, scale: Meta, zero_point: Meta, quant_min: int, quant_max: int
) -> Meta:
    name = "fake_quantize_per_tensor_affine"
    _range(name, quant_min, quant_max)
    for what, meta in (("scale", scale), ("zero_point", zero_point)):
        if meta.ndim > 1 or (meta.ndim == 1 and not same(meta.shape[0], 1)):
            fail(name, f"{what} {text(meta.shape)} must be one number")
    return Meta(input.shape, input.dtype)


_FAKE = """
    (clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale: the input as
    it would be after quantization"""

op(
    "fake_quantize_per_tensor_affine",
    doc=f"""{_FAKE}, with one scale and zero point.

    Halves go to the even code. scale and zero_point are numbers, or tensors of one.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("scale", ALL, number=True),
        tensor("zero_point", ALL, number=True),
        static("quant_min", "int"),
        static("quant_max", "int"),
    ],
    infer=_infer_fake_tensor,
    promote=_entered,
    traits={ELEMENTWISE},
    method=False,
)


def _infer_fake_channel(
    input: Meta, scale: Meta, zero_point: Meta, axis: int, quant_min: int, quant_max: int
) -> Meta:
    name = "fake_quantize_per_channel_affine"
    _range(name, quant_min, quant_max)
    _channels(name, input, scale, zero_point, axis)
    return Meta(input.shape, input.dtype)


op(
    "fake_quantize_per_channel_affine",
    doc=f"""{_FAKE}, with a scale and zero point for each place on `axis`.

    Halves go to the even code. scale and zero_point are [L].
    """,
    args=[
        tensor("input", FLOATS),
        tensor("scale", FLOATS),
        tensor("zero_point", INTS | FLOATS),
        static("axis", "int"),
        static("quant_min", "int"),
        static("quant_max", "int"),
    ],
    infer=_infer_fake_channel,
    promote=_entered,
    method=False,
    source="Jacob et al., Quantization and Training of Neural Networks for Efficient "
    "Integer-Arithmetic-Only Inference, arXiv:1712.05877",
)
