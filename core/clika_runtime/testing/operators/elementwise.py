"""Functions of one tensor, and those that take it element by element with others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from .._kit import Make, Operand, operator
from .._numpy import Array, from_bfloat16, round_to

SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, 3e4, -3e4)
WIDE = ("float16", "float64")
INTEGERS = ("int32", "int64")

erf = np.vectorize(math.erf, otypes=[np.float64])


def unary(
    low: float = -4.0,
    high: float = 4.0,
    *,
    ints: bool = True,
    bools: bool = False,
    special: bool = True,
) -> Callable[[Make], None]:
    """Cases over a range: layouts, sizes around a vector's width, 0-d, empty, special values."""

    def build(make: Make) -> None:
        for dtype in ("float32", "bfloat16"):
            make.case(f"{dtype}-vector", make.uniform(low, high, (67,), dtype))
            make.case(f"{dtype}-transposed", make.uniform(low, high, (5, 9), dtype, "transposed"))
            make.case(f"{dtype}-stepped", make.uniform(low, high, (3, 17), dtype, "stepped"))
            make.case(f"{dtype}-scalar", make.uniform(low, high, (), dtype))
            if special:
                make.case(f"{dtype}-special", make.operand(SPECIAL, dtype))
        make.case("float32-empty", make.uniform(low, high, (2, 0, 3)))
        make.case("float32-offset", make.uniform(low, high, (4, 3), "float32", "offset"))
        make.case("float32-expanded", make.uniform(low, high, (4, 6), "float32", "expanded"))
        for dtype in WIDE:
            make.case(dtype, make.uniform(low, high, (19,), dtype))
        if ints:
            for dtype in INTEGERS:
                values = np.arange(math.ceil(low), math.floor(high) + 1)
                make.case(dtype, make.operand(values, dtype))
        if bools:
            make.case("bool", make.operand([True, False, True], "bool"))

    return build


def few(
    low: float = -4.0,
    high: float = 4.0,
    *arguments: Any,
    ints: bool = True,
    special: bool = True,
    double: tuple[float, float] | None = None,
) -> Callable[[Make], None]:
    """Cases over a range for one of many functions with the same loops; ``arguments`` follow the
    tensor, ``double`` is the bound of the case in float64."""

    def build(make: Make) -> None:
        make.case("float32", make.uniform(low, high, (3, 41)), *arguments)
        make.case("bfloat16", make.uniform(low, high, (37,), "bfloat16"), *arguments)
        make.case("float16", make.uniform(low, high, (19,), "float16"), *arguments)
        make.case("float64", make.uniform(low, high, (19,), "float64"), *arguments, bound=double)
        make.case("strided", make.uniform(low, high, (5, 9), "float32", "transposed"), *arguments)
        make.case("scalar", make.uniform(low, high, ()), *arguments)
        make.case("empty", make.uniform(low, high, (2, 0)), *arguments)
        if special:
            make.case("special", make.operand(SPECIAL, "float32"), *arguments)
        if ints:
            values = np.arange(math.ceil(low), math.floor(high) + 1)
            make.case("int64", make.operand(values, "int64"), *arguments)

    return build


def real(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The function over float64: NumPy computes bools and small integers in float16."""
    return lambda x: function(x.astype(np.float64))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gelu(x: Array, approximate: str) -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _gelu_cases(make: Make) -> None:
    for mode in ("none", "tanh"):
        for dtype in ("float32", "bfloat16", "float16"):
            make.case(f"{dtype}-{mode}", make.uniform(-5, 5, (3, 37), dtype), mode)
        make.case(f"strided-{mode}", make.uniform(-5, 5, (6, 5), "float32", "transposed"), mode)
        make.case(f"empty-{mode}", make.uniform(-5, 5, (0,)), mode)
        make.case(f"large-{mode}", make.operand([-30.0, -9.0, 9.0, 30.0, 0.0], "float32"), mode)


def _sign(x: Array) -> Array:
    return np.where(np.isnan(x), 0, np.sign(x)) if x.dtype.kind == "f" else np.sign(x * 1)


operator("neg", np.negative, unary(), float32=(0, 0), narrow=(0, 0))
operator("abs", np.abs, unary(), float32=(0, 0), narrow=(0, 0))
operator("exp", real(np.exp), unary(-20, 20, bools=True), float32=(8, 0))
operator("log", real(np.log), unary(0.01, 30, bools=True), float32=(4, 1))
operator("sqrt", real(np.sqrt), unary(0, 90, bools=True))
operator("rsqrt", real(lambda x: 1 / np.sqrt(x)), unary(0.01, 90, bools=True), narrow=(2, 0))
operator("sin", real(np.sin), unary(-50, 50, bools=True), float32=(4, 2), narrow=(1, 1))
operator("cos", real(np.cos), unary(-50, 50, bools=True), float32=(4, 2), narrow=(1, 1))
operator("tanh", real(np.tanh), unary(bools=True), float32=(8, 0))
operator("sigmoid", real(_sigmoid), unary(-20, 20, bools=True), float32=(8, 0), narrow=(4, 0))
operator(
    "silu",
    lambda x: np.where(np.isinf(x), np.where(x > 0, x, np.nan), x * _sigmoid(x)),
    unary(-20, 20, ints=False, special=False),
    float32=(12, 0),
    narrow=(4, 0.001),
)
operator("gelu", gelu, _gelu_cases, float32=(12, 4), narrow=(4, 1))
operator("relu", lambda x: np.maximum(x, 0), unary(), float32=(0, 0), narrow=(0, 0))
operator(
    "erf",
    lambda x: np.where(np.isnan(x), np.nan, erf(np.where(np.isnan(x), 0, x))),
    unary(bools=True),
    float32=(4, 1),
)
operator("reciprocal", real(lambda x: 1 / x), unary(0.1, 9, bools=True))
operator(
    "square", lambda x: np.square(x.astype(np.int64) if x.dtype == bool else x), unary(bools=True)
)
operator("floor", np.floor, unary(-9, 9), float32=(0, 0), narrow=(0, 0))
operator("ceil", np.ceil, unary(-9, 9), float32=(0, 0), narrow=(0, 0))


def _round_cases(make: Make) -> None:
    unary(-9, 9)(make)
    make.case("halves", make.operand([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 8388609.0], "float32"))

    make.case("decimals", make.uniform(-9, 9, (31,)), 2)
    make.case("tens", make.uniform(-900, 900, (31,)), -2)
    make.case("int-decimals", make.operand([14, 15, -16], "int64"), -1)
    make.case("beyond", make.operand([1.5, -3e38, 0.0], "float32"), 60)
    make.case("below", make.operand([1.5, -3e38, 0.0], "float32"), -60)


def _round(x: Array, decimals: int) -> Array:
    if decimals == 0 or x.dtype.kind != "f":
        return np.rint(x)
    if decimals < 0:
        scale = 10.0**-decimals
        return np.rint(x / scale) * scale
    return x if decimals > 30 else np.rint(x * 10.0**decimals) / 10.0**decimals


# A decimal fraction is no binary one: dividing by the power of ten rounds.
operator("round", _round, _round_cases, float32=(2, 0), narrow=(0, 0))
operator("sign", _sign, unary(bools=True), float32=(0, 0), narrow=(0, 0))
operator("isnan", np.isnan, unary(bools=True))
operator("isfinite", np.isfinite, few(), example='crt.isfinite(crt.tensor([1.0, float("inf")]))')
operator("isposinf", np.isposinf, few(), example='crt.isposinf(crt.tensor([1.0, float("inf")]))')
operator("isneginf", np.isneginf, few(), example='crt.isneginf(crt.tensor([1.0, float("-inf")]))')
operator("isreal", np.isreal, few(), example="crt.isreal(crt.tensor([1.0]))")


def _signbit(x: Array) -> Array:
    return np.signbit(x) if x.dtype.kind == "f" else x < 0


operator("signbit", _signbit, few(), example="crt.signbit(crt.tensor([1.0, -0.0]))")
operator("isinf", np.isinf, unary(bools=True))
operator("logical_not", np.logical_not, unary(-2, 2, bools=True))


def _bits(make: Make) -> None:
    for dtype in ("bool", "int32", "int64", "int8", "uint8"):
        make.case(dtype, make.normal((23,), dtype))
    make.case("strided", make.normal((5, 4), "int32", "transposed"))
    make.case("empty", make.normal((0, 2), "int64"))
    make.case("scalar", make.normal((), "int32"))


operator("bitwise_not", np.bitwise_not, _bits)


# ---------------------------------------------------------------- cast, copy, where, clamp
def _cast(x: Array, dtype: Any) -> Array:
    return round_to(np.trunc(x) if x.dtype.kind == "f" and dtype.kind in "iu" else x, dtype.name)


def _cast_cases(make: Make) -> None:
    everything = ("float32", "bfloat16", "float16", "float64", "int32", "int64", "uint8", "bool")
    for source in everything:
        for target in everything:
            values = make.rng.integers(0, 100, (29,)) + make.rng.choice([0, 0.25, 0.5], 29)
            make.case(f"{source}-{target}", make.operand(values, source), dtypes.by_name(target))
    ties = [1.00390625, 1.01171875, -1.00390625, 3.3e38, 1e-40, math.inf, -math.inf, math.nan]
    make.case("ties", make.operand(ties, "float32"), dtypes.bfloat16)
    make.case("negative", make.operand([-2.75, -0.5, 0.5, 2.75], "float32"), dtypes.int32)
    make.case("strided", make.normal((7, 5), "float32", "transposed"), dtypes.bfloat16)
    make.case("stepped", make.normal((7, 5), "bfloat16", "stepped"), dtypes.float32)
    make.case("empty", make.normal((0, 4)), dtypes.int64)
    make.case("scalar", make.normal((), "int64"), dtypes.float32)


operator("cast", _cast, _cast_cases, float32=(0, 0), narrow=(0, 0))


def _bitcast(x: Array, dtype: Any) -> Array:
    """Floats come as float64; which width they had says the target (16 bits have no case)."""
    if x.dtype == np.float64 and dtype.bits == 32:
        x = x.astype(np.float32)
    bits = np.ascontiguousarray(x)
    if dtype.name == "bool":
        return bits.view(np.uint8).reshape(x.shape) != 0
    if dtype.name == "bfloat16":
        return from_bfloat16(bits.view(np.uint16)).reshape(x.shape)
    return bits.view(dtype.name).reshape(x.shape)


def _bitcast_cases(make: Make) -> None:
    for dtype, other in (
        ("float32", "int32"),
        ("int32", "float32"),
        ("float64", "int64"),
        ("uint64", "float64"),
        ("int16", "bfloat16"),
        ("int16", "float16"),
        ("uint8", "int8"),
        ("int8", "bool"),
        ("bool", "uint8"),
    ):
        make.case(f"{dtype}-{other}", make.normal((5, 7), dtype), dtypes.by_name(other))
    for layout in ("transposed", "stepped", "expanded"):
        make.case(layout, make.normal((6, 11), "float32", layout), dtypes.uint32)
    make.case("empty", make.normal((3, 0)), dtypes.int32)
    make.case("scalar", make.normal(()), dtypes.int32)


operator(
    "bitcast",
    _bitcast,
    _bitcast_cases,
    float32=(0, 0),
    narrow=(0, 0),
    example="crt.bitcast(crt.tensor([1.0, -0.0]), crt.int32)",
)


def _copy_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64", "bool", "float16", "float64", "uint8"):
        make.case(dtype, make.normal((5, 7), dtype))
        make.case(f"{dtype}-transposed", make.normal((5, 7, 3), dtype, "transposed"))
    for layout in ("stepped", "offset", "expanded"):
        make.case(layout, make.normal((6, 11), "float32", layout))
    make.case("empty", make.normal((3, 0)))
    make.case("scalar", make.normal(()))


operator("copy", np.array, _copy_cases, float32=(0, 0), narrow=(0, 0))


def _copy_into_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int64", "bool"):
        make.case(dtype, make.normal((4, 6), dtype), make.normal((4, 6), dtype))
    make.case("broadcast", make.normal((4, 6)), make.normal((6,)))
    make.case("converted", make.normal((4, 6), "bfloat16"), make.normal((4, 1)))
    make.case("into-view", make.normal((4, 6), "float32", "transposed"), make.normal((4, 6)))
    make.case("into-steps", make.normal((4, 6), "float32", "stepped"), make.normal((4, 6)))
    make.case("number", make.normal((4, 6)), 2.5)
    make.case("empty", make.normal((0, 6)), make.normal((1, 6)))


operator(
    "copy_",
    lambda x, source: np.broadcast_to(source, x.shape),
    _copy_into_cases,
    float32=(0, 0),
    narrow=(0, 0),
)


def _where_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64", "bool"):
        make.case(
            dtype,
            make.normal((3, 5), "bool"),
            make.normal((3, 5), dtype),
            make.normal((3, 5), dtype),
        )
    choice = make.normal((3, 1), "bool")
    make.case("broadcast", choice, make.normal((5,)), make.normal((2, 1, 1)))
    make.case("numbers", choice, 1.5, -2.0)
    make.case("number", choice, make.normal((3, 4), "bfloat16"), 0.0)
    make.case("mixed", choice, make.normal((3, 4), "int32"), make.normal((4,)))
    strided = make.normal((6, 5), "bool", "transposed")
    make.case("strided", strided, make.normal((6, 5), "float32", "stepped"), make.normal((6, 5)))
    make.case("empty", make.normal((0,), "bool"), make.normal((0,)), 1.0)
    make.case("scalar", make.operand(True, "bool"), make.normal(()), make.normal(()))


operator("where", np.where, _where_cases, float32=(0, 0), narrow=(0, 0))


def _clamp(x: Array, low: Any, high: Any) -> Array:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _bounds(make: Make, dtype: str) -> tuple[Operand, Operand]:
    return make.normal((4,), dtype), make.normal((3, 1), dtype)


def _clamp_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64"):
        make.case(f"{dtype}-both", make.normal((37,), dtype, scale=3), -1, 2)
        make.case(f"{dtype}-min", make.normal((3, 7), dtype), 0)
        make.case(f"{dtype}-max", make.normal((3, 7), dtype), None, 1)
        low, high = _bounds(make, dtype)
        make.case(f"{dtype}-tensors", make.normal((3, 4), dtype), low, high)
    make.case("fraction", make.normal((9,), "int32"), 0.5, 1.5)
    make.case("crossed", make.normal((9,)), 1.0, -1.0)
    make.case("nan", make.operand([math.nan, math.inf, -math.inf], "float32"), -1.0, 1.0)
    make.case("strided", make.normal((5, 6), "float32", "transposed"), -0.5, 0.5)
    make.case("empty", make.normal((0, 5)), -0.5, 0.5)


operator("clamp", _clamp, _clamp_cases, float32=(0, 0), narrow=(0, 0))
