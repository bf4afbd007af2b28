"""Reductions, and softmax, which reduces along the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ... import dtypes
from .._kit import Make, operator
from .._numpy import Array


def _axis(dim: Any) -> Any:
    return None if dim is None or dim == () else dim


def reduction(
    kinds: Iterable[str], *, scale: float = 1.0, empty: bool = True
) -> Callable[[Make], None]:
    """Cases over one, several and all dims, kept or not, of contiguous and strided tensors."""

    def build(make: Make) -> None:
        for dtype in kinds:
            x = make.normal((3, 4, 35), dtype, scale=scale)
            for name, dim in (("all", None), ("last", -1), ("first", 0), ("two", (0, 2))):
                make.case(f"{dtype}-{name}", x, dim)
            make.case(f"{dtype}-keep", x, (1, -1), True)
        make.case("keep-all", make.normal((3, 5), scale=scale), None, True)
        make.case("transposed", make.normal((6, 5), "float32", "transposed", scale), 1)
        make.case("stepped", make.normal((6, 5), "float32", "stepped", scale), -1)
        make.case("expanded", make.normal((6, 5), "float32", "expanded", scale), 0)
        make.case("scalar", make.normal((), scale=scale))
        make.case("scalar-dim", make.normal((), scale=scale), -1)
        make.case("no-rows", make.normal((0, 5), scale=scale), 1)
        if empty:
            make.case("of-nothing", make.normal((5, 0), scale=scale), 1)
        make.case("nan", make.operand([[1.0, np.nan], [2.0, 3.0]], "float32"), 1)

    return build


def _sum_cases(make: Make) -> None:
    reduction(("float32", "bfloat16", "int32", "int64", "bool"))(make)
    make.case("dtype", make.normal((3, 5), "int32"), 1, False, dtypes.float32)
    make.case("widened", make.normal((3, 5), "bfloat16"), 1, False, dtypes.float32)
    make.case("long", make.normal((2, 5000)), -1)


def _sum(x: Array, dim: Any, keepdim: bool, dtype: Any) -> Array:
    return np.sum(x, axis=_axis(dim), keepdims=keepdim)


def _mean_cases(make: Make) -> None:
    reduction(("float32", "bfloat16"))(make)
    make.case("dtype", make.normal((3, 5), "int32"), 1, False, dtypes.float32)


def _mean(x: Array, dim: Any, keepdim: bool, dtype: Any) -> Array:
    count = np.prod([1 if x.ndim == 0 else x.shape[d] for d in _dims(x, dim)])
    return np.sum(x, axis=_axis(dim), keepdims=keepdim) / np.float64(count)


def _dims(x: Array, dim: Any) -> tuple[int, ...]:
    if _axis(dim) is None:
        return tuple(range(x.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _scalar_axis(function: Any) -> Any:
    """NumPy refuses an axis of a 0-d array; the operators take 0 and -1."""

    def reduce(x: Array, dim: Any, keepdim: bool, *rest: Any) -> Any:
        return function(x, None if x.ndim == 0 else _axis(dim), keepdim)

    return reduce


operator(
    "sum",
    _scalar_axis(lambda x, dim, keep: _sum(x, dim, keep, None)),
    _sum_cases,
    float32=(2, 16),
    narrow=(1, 1),
    magnitude=_scalar_axis(lambda x, dim, keep: _sum(np.abs(x), dim, keep, None)),
)
operator(
    "mean",
    _scalar_axis(lambda x, dim, keep: _mean(x, dim, keep, None)),
    _mean_cases,
    float32=(2, 16),
    narrow=(1, 1),
    magnitude=_scalar_axis(lambda x, dim, keep: _mean(np.abs(x), dim, keep, None)),
)


def _prod_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16"):
        x = make.uniform(0.7, 1.4, (3, 4, 9), dtype)
        for name, dim in (("all", None), ("last", -1), ("two", (0, 2))):
            make.case(f"{dtype}-{name}", x, dim)
    make.case("int32", make.integers(-3, 4, (3, 5), "int32"), 1, True)
    make.case("bool", make.normal((3, 5), "bool"), 1)
    make.case("of-nothing", make.normal((5, 0)), 1)
    make.case("strided", make.uniform(0.7, 1.4, (6, 5), "float32", "transposed"), 1)
    make.case("scalar", make.normal(()))


operator(
    "prod",
    _scalar_axis(lambda x, dim, keep: np.prod(x, axis=dim, keepdims=keep)),
    _prod_cases,
    float32=(64, 0),
    narrow=(2, 0),
)

_ORDERED = ("float32", "bfloat16", "int32", "int64", "bool")
_name: str
_function: Any
for _name, _function in {"amax": np.max, "amin": np.min}.items():
    operator(
        _name,
        _scalar_axis(lambda x, dim, keep, f=_function: f(x, axis=dim, keepdims=keep)),
        reduction(_ORDERED, empty=False),
        float32=(0, 0),
        narrow=(0, 0),
    )
for _name, _function in {"any": np.any, "all": np.all}.items():
    operator(
        _name,
        _scalar_axis(lambda x, dim, keep, f=_function: f(x, axis=dim, keepdims=keep)),
        reduction(_ORDERED),
    )


# ---------------------------------------------------------------- position of an extreme
def _arg_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64"):
        x = make.normal((3, 4, 35), dtype)
        for name, dim in (("all", None), ("last", -1), ("first", 0)):
            make.case(f"{dtype}-{name}", x, dim)
        make.case(f"{dtype}-keep", x, 1, True)
    make.case("keep-all", make.normal((3, 5)), None, True)
    make.case("ties", make.operand([[1, 3, 3], [2, 2, 2], [0, 0, 1]], "float32"), 1)
    make.case("nan", make.operand([[1, np.nan, 3, np.nan]], "float32"), 1)
    make.case("infinite", make.operand([[-np.inf, -np.inf], [np.inf, np.inf]], "float32"), 1)
    make.case("long", make.normal((2, 4099)), -1)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 1)
    make.case("stepped", make.normal((6, 25), "float32", "stepped"), 1)
    make.case("scalar", make.normal(()))
    make.case("no-rows", make.normal((0, 5)), 1)


for _name, _function in {"argmax": np.argmax, "argmin": np.argmin}.items():
    operator(
        _name,
        _scalar_axis(lambda x, dim, keep, f=_function: f(x, axis=dim, keepdims=keep)),
        _arg_cases,
    )


# ---------------------------------------------------------------- softmax
def _softmax(x: Array, dim: int) -> Array:
    if x.ndim == 0:
        return np.ones_like(x)
    raised = np.exp(x - np.max(x, axis=dim, keepdims=True))
    return raised / np.sum(raised, axis=dim, keepdims=True)


def _log_softmax(x: Array, dim: int) -> Array:
    if x.ndim == 0:
        return np.zeros_like(x)
    shifted = x - np.max(x, axis=dim, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=dim, keepdims=True))


def _softmax_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        make.case(f"{dtype}-last", make.normal((3, 4, 35), dtype, scale=3), -1)
        make.case(f"{dtype}-middle", make.normal((3, 4, 5), dtype, scale=3), 1)
    make.case("first", make.normal((7, 5)), 0)
    make.case("long", make.normal((2, 4099), scale=4), -1)
    make.case("large", make.operand([[1e4, 1e4 - 1, -1e4], [300.0, 0.0, -300.0]], "float32"), -1)
    make.case("masked", make.operand([[0.5, -np.inf, 1.0], [-np.inf, 2.0, -np.inf]], "float32"), -1)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), -1)
    make.case("stepped", make.normal((6, 5), "float32", "stepped"), -1)
    make.case("one", make.normal((5, 1)), -1)
    make.case("scalar", make.normal(()), -1)
    make.case("empty", make.normal((0, 5)), -1)


operator("softmax", _softmax, _softmax_cases, float32=(16, 1), narrow=(8, 0.5))
operator("log_softmax", _log_softmax, _softmax_cases, float32=(8, 4), narrow=(2, 2))
