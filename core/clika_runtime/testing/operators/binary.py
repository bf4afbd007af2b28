"""Functions of two operands: arithmetic, comparison, logic, bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._kit import Make, Operand, operator
from .._numpy import Array

NUMBERS = ("float32", "bfloat16", "int32", "int64")


def binary(
    dtypes: Iterable[str] = NUMBERS,
    *,
    positive: bool = False,
    nonzero: bool = False,
    mixed: bool = True,
    numbers: Iterable[Any] = (2, 3, -1.5),
) -> Callable[[Make], None]:
    """Cases of two operands: shapes that broadcast, layouts, numbers on either side, mixed."""
    dtypes = tuple(dtypes)

    def draw(make: Make, shape: tuple[int, ...], dtype: str, layout: str = "plain") -> Operand:
        if dtype == "bool":
            return make.normal(shape, dtype, layout)
        if positive:
            return make.uniform(1, 5, shape, dtype, layout)
        made = make.normal(shape, dtype, layout, scale=2)
        if not nonzero:
            return made
        return Operand(
            np.where(made.values == 0, made.values.dtype.type(3), made.values), dtype, layout
        )

    def build(make: Make) -> None:
        for dtype in dtypes:
            make.case(f"{dtype}-same", draw(make, (3, 41), dtype), draw(make, (3, 41), dtype))
            make.case(f"{dtype}-row", draw(make, (3, 41), dtype), draw(make, (41,), dtype))
            make.case(f"{dtype}-column", draw(make, (3, 41), dtype), draw(make, (3, 1), dtype))
            make.case(f"{dtype}-outer", draw(make, (4, 1, 5), dtype), draw(make, (3, 1), dtype))
            make.case(f"{dtype}-scalar", draw(make, (7,), dtype), draw(make, (), dtype))
        first = dtypes[0]
        make.case("transposed", draw(make, (5, 6), first, "transposed"), draw(make, (5, 6), first))
        make.case("stepped", draw(make, (5, 6), first), draw(make, (5, 6), first, "stepped"))
        make.case("expanded", draw(make, (5, 6), first, "expanded"), draw(make, (5, 6), first))
        make.case("offset", draw(make, (5, 6), first, "offset"), draw(make, (6,), first, "offset"))
        make.case("empty", draw(make, (0, 6), first), draw(make, (6,), first))
        make.case("both-scalar", draw(make, (), first), draw(make, (), first))
        for number in numbers:
            name = str(number).replace("-", "m")
            make.case(f"right-{name}", draw(make, (2, 9), first), number)
            for dtype in dtypes[1:]:
                make.case(f"{dtype}-right-{name}", draw(make, (9,), dtype), number)
            if not positive or number > 0:
                make.case(f"left-{name}", number, draw(make, (2, 9), first))
        if mixed and first == "float32":
            make.case("int-float", draw(make, (2, 3), "int64"), draw(make, (3,), "float32"))
            make.case("bf16-f32", draw(make, (2, 3), "bfloat16"), draw(make, (3,), "float32"))
            make.case("int32-int64", draw(make, (2, 3), "int32"), draw(make, (3,), "int64"))
            make.case("wide-0d", draw(make, (2, 3), "bfloat16"), draw(make, (), "float32"))

    return build


def with_alpha(build: Callable[[Make], None]) -> Callable[[Make], None]:
    def more(make: Make) -> None:
        build(make)
        make.case("alpha", make.normal((3, 5)), make.normal((3, 5)), 0.5)
        make.case("alpha-int", make.normal((3, 5), "int64"), make.normal((5,), "int64"), 3)
        make.case("alpha-bf16", make.normal((3, 5), "bfloat16"), make.normal((5,), "bfloat16"), 2)

    return more


def _add(x: Any, y: Any, alpha: Any) -> Array:
    if np.result_type(x, y) == np.bool_:
        return np.logical_or(x, y)
    return np.asarray(x) + alpha * np.asarray(y)


def _div(x: Any, y: Any, rounding_mode: str) -> Array:
    if rounding_mode == "none":
        return np.true_divide(x, y)
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    if np.result_type(x, y).kind == "f":
        return np.trunc(np.true_divide(x, y))
    quotient = np.abs(x) // np.abs(y)
    return quotient * np.sign(x) * np.sign(y)


def _div_cases(make: Make) -> None:
    for mode in ("none", "trunc", "floor"):
        for dtype in ("float32", "int32", "int64"):
            x = make.operand(make.rng.integers(-40, 40, (3, 17)), dtype)
            y = make.operand(make.rng.choice([-7, -3, 2, 5], (17,)), dtype)
            make.case(f"{dtype}-{mode}", x, y, mode)
        make.case(f"number-{mode}", make.normal((5,), "int32", scale=4), 3, mode)
        make.case(f"fraction-{mode}", make.normal((5,), "int32", scale=4), 2.5, mode)
        make.case(f"left-{mode}", 7, make.operand([1, 2, -3, 4], "int64"), mode)
        make.case(f"empty-{mode}", make.normal((0, 2)), make.normal((2,)), mode)
    make.case("bfloat16", make.normal((3, 5), "bfloat16"), make.uniform(1, 2, (5,), "bfloat16"))
    make.case("strided", make.normal((4, 5), "float32", "transposed"), make.uniform(1, 2, (4, 1)))
    make.case("zero", make.operand([1.0, -1.0, 0.0], "float32"), make.operand([0.0] * 3, "float32"))
    make.case("bool", make.normal((5,), "bool"), make.operand([True] * 5, "bool"))


def _power(x: Any, y: Any) -> Array:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "f" or y.dtype.kind == "f":
        return np.power(x.astype(np.float64), y.astype(np.float64))
    x, y = np.broadcast_arrays(x.astype(np.int64), y.astype(np.int64))
    inverse = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0))
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


def _power_cases(make: Make) -> None:
    binary(positive=True, numbers=(2, 3, 0.5))(make)
    make.case("squares", make.normal((2, 19)), 2)
    make.case("cubes", make.normal((2, 19)), 3)
    make.case("inverse", make.uniform(1, 3, (9,)), -1)
    make.case(
        "negative", make.operand([1, -1, 2, -2], "int64"), make.operand([-1, -3, -1, -2], "int64")
    )


operator("add", _add, with_alpha(binary((*NUMBERS, "bool"))), narrow=(1, 1), float32=(1, 1))
operator(
    "sub",
    lambda x, y, alpha: x - alpha * np.asarray(y),
    with_alpha(binary()),
    narrow=(1, 1),
    float32=(1, 1),
)
operator("mul", np.multiply, binary((*NUMBERS, "bool")), float32=(1, 0))
operator("div", _div, _div_cases, float32=(1, 0))
operator("pow", _power, _power_cases, float32=(32, 0), narrow=(2, 0))
operator("maximum", np.maximum, binary((*NUMBERS, "bool")), float32=(0, 0), narrow=(0, 0))
operator("minimum", np.minimum, binary((*NUMBERS, "bool")), float32=(0, 0), narrow=(0, 0))


def _division_cases(make: Make) -> None:
    """Operands whose quotients are not next to a whole number, where rounding would decide."""
    for dtype in NUMBERS:
        x = make.operand(make.rng.integers(-40, 40, (3, 17)), dtype)
        y = make.operand(make.rng.choice([-8, -3, 2, 5], (17,)), dtype)
        make.case(dtype, x, y)
        make.case(f"{dtype}-number", x, 4)
        make.case(f"{dtype}-left", 7, y)
    make.case("fraction", make.operand(make.rng.integers(-40, 40, (9,)) + 0.25, "float32"), 2.5)
    make.case("mixed", make.operand([7, -7, 8], "int32"), make.operand([2.0, 2.0, -4.0], "float32"))
    make.case("strided", make.operand(np.arange(20).reshape(4, 5), "float32", "transposed"), 3.0)
    make.case("empty", make.normal((0, 4)), 3.0)


operator("remainder", np.mod, _division_cases, float32=(1, 1), narrow=(1, 1))
operator("floor_divide", np.floor_divide, _division_cases)

_COMPARED = (*NUMBERS, "bool")
for _name, _function in {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}.items():

    def _compared(make: Make) -> None:
        binary(_COMPARED)(make)
        nan = make.operand([np.nan, 1.0, np.inf, -np.inf], "float32")
        make.case("nan", nan, make.operand([np.nan, np.nan, np.inf, 0.0], "float32"))

    operator(_name, _function, _compared)

operator("logical_and", np.logical_and, binary(_COMPARED, numbers=(2, 0)))
operator("logical_or", np.logical_or, binary(_COMPARED, numbers=(2, 0)))
operator("logical_xor", np.logical_xor, binary(_COMPARED, numbers=(2, 0)))

_BITS = ("int32", "int64", "bool")
operator("bitwise_and", np.bitwise_and, binary(_BITS, numbers=(6,)))
operator("bitwise_or", np.bitwise_or, binary(_BITS, numbers=(6,)))
operator("bitwise_xor", np.bitwise_xor, binary(_BITS, numbers=(6,)))


# ---------------------------------------------------------------- further arithmetic
def _ints_too(function: Callable[..., Any]) -> Callable[..., Array]:
    """Over float64 where an operand is of another kind than an integer, else over integers."""

    def over(x: Any, y: Any) -> Array:
        return np.asarray(function(np.asarray(x), np.asarray(y)))

    return over


operator(
    "fmod",
    _ints_too(np.fmod),
    _division_cases,
    float32=(1, 1),
    narrow=(1, 1),
    example="crt.fmod(crt.tensor([7, -7]), 3)",
)


def _with_nan(make: Make) -> None:
    few_pairs()(make)
    nan = make.operand([np.nan, 1.0, np.nan, -np.inf], "float32")
    make.case("nan", nan, make.operand([2.0, np.nan, np.nan, np.inf], "float32"))


def few_pairs(
    dtypes: Iterable[str] = (*NUMBERS, "bool"),
    *,
    low: float = -4,
    high: float = 4,
    number: Any = 2,
) -> Callable[[Make], None]:
    """Cases of two operands for one of many functions with the same loops."""
    dtypes = tuple(dtypes)

    def draw(make: Make, shape: tuple[int, ...], dtype: str, layout: str = "plain") -> Operand:
        if dtype == "bool":
            return make.normal(shape, dtype, layout)
        if dtype.startswith(("int", "uint")):
            return make.integers(int(low), int(high) + 1, shape, dtype, layout)
        return make.uniform(low, high, shape, dtype, layout)

    def build(make: Make) -> None:
        for dtype in dtypes:
            make.case(dtype, draw(make, (3, 21), dtype), draw(make, (21,), dtype))
        first = dtypes[0]
        make.case("strided", draw(make, (5, 6), first, "transposed"), draw(make, (6,), first))
        make.case("column", draw(make, (5, 6), first), draw(make, (5, 1), first, "stepped"))
        make.case("scalar", draw(make, (), first), draw(make, (), first))
        make.case("empty", draw(make, (0, 6), first), draw(make, (6,), first))
        if number is not None:
            make.case("number", draw(make, (7,), first), number)
            make.case("left", number, draw(make, (7,), first))

    return build


exact: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}
_INTS = ("int32", "int64", "uint8", "int16")
_REAL = ("float32", "bfloat16", "float16", "float64")
_PAIR = "crt.{}(crt.tensor([{}]), crt.tensor([{}]))"

operator("fmax", np.fmax, _with_nan, **exact, example=_PAIR.format("fmax", "1.0, 5.0", "3.0, 4.0"))
operator("fmin", np.fmin, _with_nan, **exact, example=_PAIR.format("fmin", "1.0, 5.0", "3.0, 4.0"))


def _heaviside(x: Any, values: Any) -> Array:
    return np.where(np.asarray(x) == 0, values, np.asarray(x) > 0)


def _heaviside_cases(make: Make) -> None:
    _with_nan(make)
    make.case("zeros", make.operand([-1.0, 0.0, -0.0, 2.0], "float32"), 0.5)


operator(
    "heaviside",
    _heaviside,
    _heaviside_cases,
    **exact,
    example=_PAIR.format("heaviside", "-1.0, 0.0, 2.0", "0.5"),
)


def _copysign_cases(make: Make) -> None:
    few_pairs()(make)
    make.case("zeros", make.operand([1.0, -2.0], "float32"), make.operand([-0.0, 0.0], "float32"))


def _copysign(x: Any, y: Any) -> Array:
    return np.copysign(np.asarray(x, np.float64), np.asarray(y, np.float64))


operator(
    "copysign",
    _copysign,
    _copysign_cases,
    **exact,
    example=_PAIR.format("copysign", "1.0, -2.0", "-0.0, 3.0"),
)


def _divisor_cases(make: Make) -> None:
    few_pairs(_INTS, low=0, high=60, number=12)(make)
    make.case(
        "negative", make.operand([-12, 12, -7, 0], "int64"), make.operand([18, -8, -7, 0], "int64")
    )


operator("gcd", np.gcd, _divisor_cases, example=_PAIR.format("gcd", "12, 7", "18, 21"))
operator(
    "lcm",
    lambda x, y: np.lcm(np.asarray(x, np.int64), np.asarray(y, np.int64)),
    _divisor_cases,
    example=_PAIR.format("lcm", "4, 7", "6, 21"),
)


def _in_float64(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda x, y: np.asarray(function(np.asarray(x, np.float64), np.asarray(y, np.float64)))


def _atan2_cases(make: Make) -> None:
    few_pairs()(make)
    zeros = make.operand([0.0, -0.0, 0.0, -0.0, 1.0], "float32")
    make.case("axes", zeros, make.operand([1.0, 1.0, -1.0, -1.0, 0.0], "float32"))


operator(
    "atan2",
    _in_float64(np.arctan2),
    _atan2_cases,
    example=_PAIR.format("atan2", "1.0, -1.0", "1.0, -1.0"),
)


def _hypot_cases(make: Make) -> None:
    few_pairs(_REAL)(make)
    make.case(
        "large", make.operand([3e38, 1e-30], "float32"), make.operand([1e38, 1e-30], "float32")
    )


operator("hypot", _in_float64(np.hypot), _hypot_cases, example=_PAIR.format("hypot", "3.0", "4.0"))


def _sum_of_powers(make: Make) -> None:
    few_pairs(_REAL, low=-9, high=9)(make)
    ends = make.operand([np.inf, -np.inf, -np.inf, 800.0, np.nan], "float32")
    make.case("ends", ends, make.operand([np.inf, -np.inf, 3.0, 801.0, 1.0], "float32"))


operator(
    "logaddexp",
    _in_float64(np.logaddexp),
    _sum_of_powers,
    float32=(4, 1),
    example=_PAIR.format("logaddexp", "0.0, 800.0", "0.0, 801.0"),
)
operator(
    "logaddexp2",
    _in_float64(np.logaddexp2),
    _sum_of_powers,
    float32=(4, 1),
    example=_PAIR.format("logaddexp2", "0.0, 8.0", "0.0, 8.0"),
)


def _next(x: Any, y: Any) -> Array:
    # The kit hands over float64: cases say float64 and float32 values that are exact there.
    return np.nextafter(np.asarray(x, np.float64), np.asarray(y, np.float64))


def _next_cases(make: Make) -> None:
    values = [1.0, -1.0, 0.0, np.inf, 1.0, np.nan, 5e-324, 2.0]
    towards = [2.0, 2.0, -1.0, 0.0, 1.0, 1.0, 0.0, np.nan]
    make.case("float64", make.operand(values, "float64"), make.operand(towards, "float64"))
    make.case(
        "broadcast", make.uniform(1, 2, (3, 5), "float64"), make.uniform(1, 2, (5,), "float64")
    )
    strided = make.uniform(-2, 2, (4, 5), "float64", "transposed")
    make.case("strided", strided, make.uniform(-2, 2, (4, 1), "float64"))
    make.case("empty", make.uniform(1, 2, (0,), "float64"), make.uniform(1, 2, (0,), "float64"))


operator(
    "nextafter",
    _next,
    _next_cases,
    **exact,
    example="crt.nextafter(crt.tensor([1.0]), crt.tensor([2.0])) > 1.0",
)
operator(
    "float_power",
    _in_float64(np.power),
    few_pairs((*NUMBERS, "bool"), low=1, high=4),
    float32=(4, 0),
    example=_PAIR.format("float_power", "2, 3", "0.5"),
)


def _ldexp(x: Any, other: Any) -> Array:
    return np.asarray(x, np.float64) * np.exp2(np.asarray(other, np.float64))


def _ldexp_cases(make: Make) -> None:
    few_pairs()(make)
    make.case("mixed", make.uniform(1, 2, (3, 5), "bfloat16"), make.integers(-9, 9, (5,)))
    make.case(
        "far", make.operand([1e-40, 1.0, 1e30], "float32"), make.operand([140, -149, 90], "int64")
    )


operator("ldexp", _ldexp, _ldexp_cases, example=_PAIR.format("ldexp", "1.0, 3.0", "4, -1"))


def _frexp(x: Array) -> tuple[Array, Array]:
    mantissa, exponent = np.frexp(x)
    return mantissa, np.where(np.isfinite(x), exponent, 0).astype(np.int32)


def _frexp_cases(make: Make) -> None:
    for dtype in _REAL:
        make.case(dtype, make.uniform(-100, 100, (3, 19), dtype))
    make.case("special", make.operand([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], "float32"))
    make.case("strided", make.uniform(-9, 9, (4, 5), "float32", "transposed"))
    make.case("empty", make.uniform(-9, 9, (0, 5)))


operator("frexp", _frexp, _frexp_cases, **exact, example="crt.frexp(crt.tensor([3.0, -0.25]))")


# ---------------------------------------------------------------- shifts and tests
def _shift_cases(make: Make) -> None:
    for dtype in ("int32", "int64", "uint8", "int8"):
        make.case(dtype, make.integers(0, 60, (3, 7), dtype), make.integers(0, 7, (7,), dtype))
    make.case(
        "signs", make.operand([-1, -8, 5, -5], "int32"), make.operand([1, 40, 40, -1], "int32")
    )
    make.case("number", make.integers(-60, 60, (7,)), 2)
    make.case("empty", make.integers(0, 9, (0, 7)), 1)


def _left(x: Any, y: Any) -> Array:
    x, y = np.broadcast_arrays(np.asarray(x), np.asarray(y, np.asarray(x).dtype))
    out = (y < 0) | (y >= 8 * x.dtype.itemsize)
    return np.where(out, 0, np.left_shift(x, np.where(out, 0, y)))


def _right(x: Any, y: Any) -> Array:
    x, y = np.broadcast_arrays(np.asarray(x), np.asarray(y, np.asarray(x).dtype))
    out = (y < 0) | (y >= 8 * x.dtype.itemsize)
    return np.where(out, np.where(x < 0, -1, 0), np.right_shift(x, np.where(out, 0, y)))


operator(
    "bitwise_left_shift",
    _left,
    _shift_cases,
    example=_PAIR.format("bitwise_left_shift", "1, 5", "3, 1"),
)
operator(
    "bitwise_right_shift",
    _right,
    _shift_cases,
    example=_PAIR.format("bitwise_right_shift", "8, -5", "3, 1"),
)


def _isclose(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Array:
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    return np.isclose(x, y, rtol, atol, equal_nan)


def _isclose_cases(make: Make) -> None:
    for dtype in (*NUMBERS, "float64", "bool"):
        x = make.normal((3, 9), dtype)
        make.case(dtype, x, x)
        make.case(f"{dtype}-loose", x, make.normal((9,), dtype), 0.5, 0.25)
    odd = make.operand([np.nan, np.inf, -np.inf, np.inf, 1.0], "float32")
    other = make.operand([np.nan, np.inf, np.inf, 1.0, np.inf], "float32")
    make.case("odd", odd, other, 1e-5, 1e-8, False)
    make.case("nan-equal", odd, other, 1e-5, 1e-8, True)
    make.case("number", make.normal((7,)), 0.5, 0.5)
    make.case("empty", make.normal((0, 3)), make.normal((3,)))


operator(
    "isclose",
    _isclose,
    _isclose_cases,
    example=_PAIR.format("isclose", "1.0, 2.0", "1.000001, 3.0"),
)


def _isin(elements: Any, others: Any, assume_unique: bool, invert: bool) -> Array:
    return np.isin(elements, others, invert=invert).reshape(np.shape(elements))


def _isin_cases(make: Make) -> None:
    for dtype in (*NUMBERS, "bool", "uint8", "float64"):
        make.case(dtype, make.normal((5, 9), dtype), make.normal((3, 2), dtype))
    make.case("invert", make.normal((5, 9), "int64"), make.normal((6,), "int64"), False, True)
    make.case("unique", make.operand([1, 2, 3], "int64"), make.operand([3, 4], "int64"), True)
    make.case(
        "nan", make.operand([np.nan, 1.0, -0.0], "float32"), make.operand([np.nan, 0.0], "float32")
    )
    make.case("number", make.normal((7,), "int64"), 2)
    make.case(
        "strided", make.normal((5, 4), "int64", "transposed"), make.normal((4,), "int64", "stepped")
    )
    make.case("no-others", make.normal((3,)), make.normal((0,)))
    make.case("empty", make.normal((0, 3)), make.normal((2,)))


operator("isin", _isin, _isin_cases, example="crt.isin(crt.tensor([1, 2, 3]), crt.tensor([3, 1]))")
