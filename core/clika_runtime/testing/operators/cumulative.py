"""Running sums, products and extremes, differences and integrals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ... import dtypes
from .._kit import Make, operator
from .._numpy import Array


def _running_cases(kinds: Iterable[str], scale: float = 1.0) -> Callable[[Make], None]:
    def build(make: Make) -> None:
        for dtype in kinds:
            x = make.normal((3, 4, 35), dtype, scale=scale)
            for dim in (0, 1, -1):
                make.case(f"{dtype}-{dim}", x, dim)
        make.case("wide", make.normal((9, 150), scale=scale), 0)
        make.case("transposed", make.normal((6, 5), "float32", "transposed", scale), 1)
        make.case("stepped", make.normal((6, 5), "float32", "stepped", scale), -1)
        make.case("expanded", make.normal((6, 5), "float32", "expanded", scale), 0)
        make.case("nan", make.operand([1.0, np.nan, 2.0], "float32"), 0)
        make.case("scalar", make.normal((), scale=scale), 0)
        make.case("empty", make.normal((3, 0)), 1)

    return build


def _sum_cases(make: Make) -> None:
    _running_cases(("float32", "bfloat16", "float64", "int32", "int64", "bool"))(make)
    make.case("long", make.normal((5000,)), 0)
    make.case("dtype", make.normal((3, 5), "int32"), 1, dtypes.float32)


def _prod_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16"):
        make.case(dtype, make.uniform(0.7, 1.4, (3, 30), dtype), -1)
    make.case("int32", make.integers(-2, 3, (3, 5), "int32"), 0)
    make.case("bool", make.normal((3, 5), "bool"), 1)
    make.case("transposed", make.uniform(0.7, 1.4, (6, 5), "float32", "transposed"), 1)
    make.case("scalar", make.normal(()), 0)


def _along(function: Any) -> Any:
    """NumPy refuses an axis of a 0-d array."""

    def call(x: Array, dim: int, *_: Any) -> Any:
        if x.ndim == 0:
            return function(x.reshape(1), axis=0).reshape(())
        return function(x, axis=dim)

    return call


def _running_magnitude(x: Array, dim: int, _: Any) -> Array:
    return np.asarray(_along(np.cumsum)(np.abs(x), dim))


operator(
    "cumsum",
    _along(np.cumsum),
    _sum_cases,
    float32=(2, 2),
    narrow=(1, 1),
    magnitude=_running_magnitude,
    example="crt.cumsum(crt.tensor([1, 2, 3]), 0)",
)
operator(
    "cumprod",
    _along(np.cumprod),
    _prod_cases,
    float32=(2, 0),
    example="crt.cumprod(crt.tensor([1, 2, 3]), 0)",
)


def _logcumsumexp(x: Array, dim: int) -> Array:
    if x.ndim == 0:
        return x
    return np.logaddexp.accumulate(x, axis=dim)


def _log_cases(make: Make) -> None:
    _running_cases(("float32", "bfloat16", "float64"), 3)(make)
    make.case("large", make.operand([1000.0, 999.0, -1e4, 1001.0], "float32"), 0)
    make.case("infinite", make.operand([-np.inf, -np.inf, 1.0, np.inf, 2.0], "float32"), 0)


operator(
    "logcumsumexp",
    _logcumsumexp,
    _log_cases,
    float32=(4, 2),
    narrow=(1, 1),
    example="crt.logcumsumexp(crt.tensor([0.0, 0.0]), 0)",
)


def _extreme(sign: int) -> Callable[..., Any]:
    """By the definition, element by element."""

    def reference(x: Array, dim: int) -> tuple[Array, Array]:
        lines = np.moveaxis(x.reshape(1) if x.ndim == 0 else x, dim if x.ndim else 0, -1)
        values = np.array(lines)
        indices = np.zeros(lines.shape, np.int64)
        for at in np.ndindex(lines.shape[:-1]):
            best = 0
            for i, value in enumerate(lines[at]):
                held = lines[at][best]
                if value != value or (
                    held == held and (value >= held if sign > 0 else value <= held)
                ):
                    best = i
                values[at][i] = lines[at][best]
                indices[at][i] = best
        if x.ndim == 0:
            return values.reshape(()), indices.reshape(())
        return np.moveaxis(values, -1, dim), np.moveaxis(indices, -1, dim)

    return reference


def _extreme_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64", "bool"):
        x = make.normal((3, 4, 9), dtype)
        for dim in (0, 1, -1):
            make.case(f"{dtype}-{dim}", x, dim)
    make.case("ties", make.operand([1, 3, 3, 2, 3], "int64"), 0)
    make.case("nan", make.operand([1.0, np.nan, 5.0, np.nan, 7.0], "float32"), 0)
    make.case("long", make.normal((700,)), 0)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 1)
    make.case("scalar", make.normal(()), 0)
    make.case("empty", make.normal((3, 0)), 1)


for _name, _sign in (("cummax", 1), ("cummin", -1)):
    operator(
        _name,
        _extreme(_sign),
        _extreme_cases,
        float32=(0, 0),
        narrow=(0, 0),
        example=f"crt.{_name}(crt.tensor([1, 3, 2]), 0)",
    )


# ---------------------------------------------------------------- differences and integrals
def _diff(x: Array, n: int, dim: int, prepend: Any, append: Any) -> Array:
    if n == 0:
        return x
    more = {
        key: value for key, value in (("prepend", prepend), ("append", append)) if value is not None
    }
    return np.diff(x, n, dim, **more)


def _diff_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int64", "bool"):
        make.case(dtype, make.normal((3, 6), dtype))
    x = make.normal((4, 5))
    make.case("twice", x, 2)
    make.case("none", x, 0)
    make.case("first", x, 1, 0)
    make.case("more-than-there-are", x, 6)
    make.case("joined", x, 1, -1, make.normal((4, 1)), make.normal((4, 2)))
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 1)
    make.case("one", make.normal((3, 1)))


operator(
    "diff",
    _diff,
    _diff_cases,
    float32=(2, 2),
    narrow=(2, 2),
    example="crt.diff(crt.tensor([1, 4, 9]))",
)


def _areas(y: Array, x: Any, dx: Any, dim: int) -> Array:
    y = y.astype(np.float64)
    size = y.shape[dim]
    sides = np.take(y, range(1, size), dim) + np.take(y, range(max(size - 1, 0)), dim)
    if x is None:
        steps: Any = 1.0 if dx is None else dx
    elif x.ndim == 1:
        steps = np.diff(x).reshape([-1 if d == dim % y.ndim else 1 for d in range(y.ndim)])
    else:
        steps = np.diff(x, axis=dim)
    return np.asarray(sides * steps / 2)


def _rule_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int64"):
        make.case(dtype, make.normal((3, 6), dtype))
    y = make.normal((3, 6))
    make.case("dx", y, None, 0.5)
    make.case("first", y, None, None, 0)
    make.case("points", y, make.normal((6,)))
    make.case("points-of-rows", y, make.normal((3, 6)), None, -1)
    make.case("points-broadcast", y, make.normal((1, 6)))
    make.case("points-first", y, make.normal((3,)), None, 0)
    make.case("one", make.normal((3, 1)))


for _name, _function in (("trapezoid", np.sum), ("cumulative_trapezoid", np.cumsum)):
    operator(
        _name,
        lambda y, x, dx, dim, f=_function: f(_areas(y, x, dx, dim), axis=dim),
        _rule_cases,
        float32=(8, 8),
        narrow=(4, 4),
        magnitude=lambda y, x, dx, dim, f=_function: f(
            np.abs(_areas(np.abs(y), x, dx, dim)), axis=dim
        ),
        example=f"crt.{_name}(crt.tensor([1.0, 2.0, 4.0]))",
    )
