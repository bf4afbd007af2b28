"""References and cases of affine quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from .._kit import Make, Operand, operator
from .._numpy import Array

_RANGES = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "uint16": (0, 65535),
    "int16": (-32768, 32767),
    "int32": (-(2**31), 2**31 - 1),
}


def _spread(value: Any, x: Array, axis: int, block: int = 0) -> Any:
    """Scales or zero points in a shape that goes with x."""
    value = np.asarray(0 if value is None else value)
    if block and value.ndim:
        return np.repeat(value, block, axis).take(range(x.shape[axis]), axis)
    if value.size == 1:
        return value.reshape(())
    return value.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def _codes(x: Array, scale: Any, zero: Any, low: int, high: int) -> Array:
    """The kernels divide in float32: the cases keep the quotients away from halves."""
    q = np.nan_to_num(np.rint(x / scale), nan=0.0, posinf=1e30, neginf=-1e30)
    return np.clip(q + zero, low, high)


def _name(dtype: Any, zero: Any) -> str:
    if dtype is not None:
        return str(dtype.name)
    return "uint8" if zero is None else str(np.asarray(zero).dtype.name)


def _quantize(x: Array, scale: Array, zero: Any, axis: int, block: int, dtype: Any) -> Array:
    low, high = _RANGES[_name(dtype, zero)]
    return _codes(x, _spread(scale, x, axis, block), _spread(zero, x, axis, block), low, high)


def _values(make: Make, shape: tuple[int, ...], scale: Array, dtype: str = "float32") -> Operand:
    """Multiples of the scale that are not near a half."""
    codes = make.rng.integers(-300, 300, shape) + make.rng.choice([-0.3, 0.0, 0.2], shape)
    return make.operand(codes * scale, dtype)


def _quantize_cases(make: Make) -> None:
    for dtype in ("uint8", "int8", "uint16", "int16", "int32"):
        low = 0 if dtype.startswith("u") else -5
        zero = make.integers(low, 9, (), dtype)
        scale = make.uniform(0.25, 2, ())
        make.case(dtype, _values(make, (3, 70), scale.values), scale, zero)
        made = dtypes.by_name(dtype)
        make.case(f"{dtype}-named", _values(make, (5,), scale.values), scale, None, 1, 0, made)
    for dtype in ("bfloat16", "float16", "float64"):
        scale = make.operand(0.5, dtype)
        make.case(f"{dtype}-input", make.operand([-3.0, 0.0, 1.0, 7.5, 400.0], dtype), scale)
    scales = make.uniform(0.25, 2, (4,))
    zeros = make.integers(0, 9, (4,), "uint8")
    make.case("axis", _values(make, (2, 4, 3), scales.values[:, None]), scales, zeros)
    make.case("last-axis", _values(make, (2, 4), scales.values), scales, zeros, -1)
    blocks = make.uniform(0.25, 2, (2, 3))
    wide = np.repeat(blocks.values, 4, 1)[:, :10]
    make.case("blocks", _values(make, (2, 10), wide), blocks, None, 1, 4)
    ties = make.operand([-1.5, -0.5, 0.5, 1.5, 2.5, 254.5, 255.5], "float32")
    make.case("ties", ties, make.operand(1.0, "float32"))
    odd = make.operand([np.nan, np.inf, -np.inf], "float32")
    make.case("odd", odd, make.operand(0.5, "float32"), make.integers(3, 4, (), "int8"))
    make.case("empty", make.normal((0, 3)), make.operand(0.5, "float32"))


operator(
    "quantize_linear",
    _quantize,
    _quantize_cases,
    example="crt.quantize_linear(crt.tensor([-1.0, 0.3, 9.0]), crt.tensor(0.1))",
)


def _dequantize(x: Array, scale: Array, zero: Any, axis: int, block: int, _: Any) -> Array:
    x = x.astype(np.int64)
    return (x - _spread(zero, x, axis, block).astype(np.int64)) * _spread(scale, x, axis, block)


def _dequantize_cases(make: Make) -> None:
    for dtype in ("uint8", "int8", "uint16", "int16", "int32"):
        low = 0 if dtype.startswith("u") else -100
        x = make.integers(low, 100, (3, 70), dtype)
        make.case(dtype, x, make.uniform(0.25, 2, ()), make.integers(0, 9, (), dtype))
    x = make.integers(0, 255, (2, 4, 3), "uint8")
    scales = make.uniform(0.25, 2, (4,))
    make.case("axis", x, scales, make.integers(0, 9, (4,), "uint8"))
    make.case("no-zero", x, scales)
    make.case("last-axis", x, make.uniform(0.25, 2, (3,)), None, -1)
    make.case("blocks", x, make.uniform(0.25, 2, (2, 2, 3)), None, 1, 2)
    for dtype in ("bfloat16", "float16", "float64"):
        make.case(f"{dtype}-scale", x, make.uniform(0.25, 2, (), dtype))
        make.case(f"{dtype}-result", x, scales, None, 1, 0, dtypes.by_name(dtype))
    make.case("empty", make.integers(0, 9, (0, 3), "int8"), make.operand(0.5, "float32"))


operator(
    "dequantize_linear",
    _dequantize,
    _dequantize_cases,
    float32=(1, 0),
    narrow=(1, 0),
    example=(
        "x = crt.tensor([0, 10, 255]).to(crt.uint8)\n"
        "crt.dequantize_linear(x, crt.tensor(0.1), crt.tensor(10).to(crt.uint8))"
    ),
)


def _dynamic(x: Array) -> tuple[Array, Array, Array]:
    low, high = min(x.min(initial=0.0), 0.0), max(x.max(initial=0.0), 0.0)
    scale = (high - low) / 255 if high > low else 1.0
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return _codes(x, scale, zero, 0, 255), np.asarray(scale), np.asarray(zero)


def _dynamic_cases(make: Make) -> None:
    # Scale and zero point are exact in float32, so that no code depends on their rounding.
    codes = np.arange(256) - 100
    make.case("both", make.operand(codes * 0.25, "float32"))
    make.case("positive", make.operand([0.0, 127.5, 3.1, 20.0], "float32"))
    make.case("negative", make.operand([-127.5, -3.1, -20.0], "float32"))
    make.case("matrix", make.operand((codes * 2.0).reshape(2, 128), "float32"))
    make.case("zeros", make.operand([0.0, 0.0], "float32"))
    make.case("empty", make.normal((0, 3)))


operator(
    "dynamic_quantize_linear",
    _dynamic,
    _dynamic_cases,
    float32=(2, 0),
    example="crt.dynamic_quantize_linear(crt.tensor([-1.0, 0.0, 1.55]))",
)


def _per_tensor(x: Array, scale: float, zero: int, dtype: Any) -> Array:
    return _codes(x, scale, zero, *_RANGES[dtype.name])


def _per_tensor_cases(make: Make) -> None:
    for name in ("uint8", "int8", "int32"):
        x = _values(make, (3, 7), np.asarray(0.5))
        make.case(name, x, 0.5, 3, dtypes.by_name(name))
    make.case("bfloat16", make.operand([-3.0, 0.0, 7.5], "bfloat16"), 0.5, 0, dtypes.int8)
    make.case("float64", make.operand([-3.0, 0.0, 7.5], "float64"), 0.5, 0, dtypes.int8)
    make.case("empty", make.normal((0, 2)), 0.5, 0, dtypes.int8)


operator(
    "quantize_per_tensor",
    _per_tensor,
    _per_tensor_cases,
    example="crt.quantize_per_tensor(crt.tensor([-1.0, 0.3, 9.0]), 0.1, 10, crt.uint8)",
)


def _per_channel(x: Array, scales: Array, zeros: Array, axis: int, dtype: Any) -> Array:
    low, high = _RANGES[dtype.name]
    return _codes(x, _spread(scales, x, axis), _spread(zeros, x, axis), low, high)


def _per_channel_cases(make: Make) -> None:
    scales = make.uniform(0.25, 2, (4,))
    for name in ("uint8", "int8", "int32"):
        x = _values(make, (2, 4, 3), scales.values[:, None])
        make.case(name, x, scales, make.integers(0, 9, (4,)), 1, dtypes.by_name(name))
    x = _values(make, (2, 4), scales.values)
    make.case("last", x, scales, make.integers(0, 9, (4,), "int32"), -1, dtypes.int8)
    make.case("first", _values(make, (4, 2), scales.values[:, None]), scales,
              make.integers(0, 9, (4,)), 0, dtypes.int8)  # fmt: skip


operator(
    "quantize_per_channel",
    _per_channel,
    _per_channel_cases,
    example=(
        "x = crt.tensor([[1.0, 2.0], [1.0, 2.0]])\n"
        "crt.quantize_per_channel(x, crt.tensor([0.1, 0.5]), crt.tensor([0, 1]), 0, crt.int8)"
    ),
)


def _fake(x: Array, scale: Any, zero: Any, low: int, high: int) -> Array:
    return (_codes(x, scale, zero, low, high) - zero) * scale


def _fake_tensor(x: Array, scale: Any, zero: Any, low: int, high: int) -> Array:
    return _fake(x, np.asarray(scale).reshape(()), np.asarray(zero).reshape(()), low, high)


def _fake_channel(x: Array, scale: Array, zero: Array, axis: int, low: int, high: int) -> Array:
    return _fake(x, _spread(scale, x, axis), _spread(zero, x, axis), low, high)


def _fake_tensor_cases(make: Make) -> None:
    x = _values(make, (3, 7), np.asarray(0.5))
    make.case("numbers", x, 0.5, 3, 0, 255)
    make.case("integer-scale", x, 1, 0, -128, 127)
    scale, zero = make.operand(0.25, "float32"), make.integers(0, 3, (), "int32")
    make.case("tensors", x, scale, zero, -128, 127)
    make.case("one", x, make.operand([0.25], "float32"), make.integers(0, 3, (1,)), -8, 7)
    for dtype in ("bfloat16", "float16", "float64"):
        make.case(dtype, make.operand([-3.0, 0.0, 7.5], dtype), 0.5, 0, -8, 7)
    make.case("empty", make.normal((0, 2)), 0.5, 0, 0, 255)


operator(
    "fake_quantize_per_tensor_affine",
    _fake_tensor,
    _fake_tensor_cases,
    float32=(1, 0),
    example="crt.fake_quantize_per_tensor_affine(crt.tensor([-1.0, 0.34, 99.0]), 0.1, 0, 0, 255)",
)


def _fake_channel_cases(make: Make) -> None:
    scales, zeros = make.uniform(0.25, 2, (4,)), make.integers(0, 9, (4,), "int32")
    make.case("middle", _values(make, (2, 4, 3), scales.values[:, None]), scales, zeros, 1, 0, 255)
    make.case("last", _values(make, (2, 4), scales.values), scales, zeros, -1, -128, 127)
    half = make.operand([0.5, 0.25], "float32")
    for dtype in ("bfloat16", "float16", "float64"):
        x = make.operand([[-3.0, 0.0], [7.5, 1.25]], dtype)
        make.case(dtype, x, half, make.integers(0, 2, (2,)), 1, -8, 7)
    make.case("empty", make.normal((0, 2)), half, make.integers(0, 2, (2,)), 1, -8, 7)


operator(
    "fake_quantize_per_channel_affine",
    _fake_channel,
    _fake_channel_cases,
    float32=(1, 0),
    example=(
        "x = crt.tensor([[0.34, 9.0], [0.34, 9.0]])\n"
        "crt.fake_quantize_per_channel_affine("
        "x, crt.tensor([0.1, 0.5]), crt.tensor([0, 0]), 0, 0, 15)"
    ),
)
