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
