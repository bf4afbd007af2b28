"""Reductions, and softmax, which reduces along the way."""

from __future__ import annotations

import math
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
    make.case("narrow", make.normal((3, 5), "int64"), 1, False, dtypes.int32)
    make.case("widened", make.normal((3, 5), "bfloat16"), 1, False, dtypes.float32)
    make.case("long", make.normal((2, 5000)), -1)
    make.case("chunks", make.normal((2, 70000)), -1)
    make.case("chunks-first", make.normal((40000, 3)), 0)
    make.case("few", make.normal((500, 3)), 1)


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
    make.case("columns", make.uniform(0.7, 1.4, (40, 43)), 0)
    # Products of some of them are beyond float32, that of all is 1.
    for width in (4, 8, 16, 32):
        far = np.where(np.arange(320) % width < width // 2, 2.0**9, 2.0**-9)
        make.case(f"far-{width}", make.operand(far, "float32"), 0)
    far = np.where(np.arange(64) % 32 < 16, 2.0**9, 2.0**-9)
    make.case("far-columns", make.operand(np.repeat(far[:, None], 40, 1), "float32"), 0)
    make.case("zero", make.operand([[0.0] + [2.0] * 99, [1.0] * 100], "float32"), 1)


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
    make.case("int32-index", make.normal((3, 5)), 1, False, dtypes.int32)


for _name, _function in {"argmax": np.argmax, "argmin": np.argmin}.items():
    operator(
        _name,
        _scalar_axis(lambda x, dim, keep, f=_function: f(x, axis=dim, keepdims=keep)),
        _arg_cases,
    )


# ---------------------------------------------------------------- softmax
def _softmax(x: Array, dim: int, _: Any = None) -> Array:
    if x.ndim == 0:
        return np.ones_like(x)
    raised = np.exp(x - np.max(x, axis=dim, keepdims=True))
    return raised / np.sum(raised, axis=dim, keepdims=True)


def _log_softmax(x: Array, dim: int, _: Any = None) -> Array:
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
    make.case("float64", make.normal((3, 4, 9), "float64", scale=3), 1)
    make.case("converted", make.normal((3, 5), "int64"), -1, dtypes.float32)
    make.case("scalar", make.normal(()), -1)
    make.case("empty", make.normal((0, 5)), -1)


operator("softmax", _softmax, _softmax_cases, float32=(16, 1), narrow=(8, 0.5))
operator("log_softmax", _log_softmax, _softmax_cases, float32=(8, 4), narrow=(2, 2))


# ---------------------------------------------------------------- sums that leave out NaN
def _with_nan(make: Make, shape: tuple[int, ...], dtype: str, layout: str = "plain") -> Any:
    values = make.rng.normal(0, 1, shape)
    return make.operand(np.where(make.rng.random(shape) < 0.2, np.nan, values), dtype, layout)


def _nan_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        x = _with_nan(make, (3, 4, 35), dtype)
        for name, dim in (("all", None), ("last", -1), ("first", 0), ("two", (0, 2))):
            make.case(f"{dtype}-{name}", x, dim)
    make.case("keep", _with_nan(make, (3, 5), "float32"), 1, True)
    make.case("widened", _with_nan(make, (3, 5), "bfloat16"), 1, False, dtypes.float32)
    make.case("transposed", _with_nan(make, (6, 5), "float32", "transposed"), 1)
    make.case("only-nan", make.operand([[np.nan, np.nan], [1.0, np.nan]], "float32"), 1)
    make.case("of-nothing", make.normal((5, 0)), 1)
    make.case("scalar", make.operand(np.nan, "float32"))


def _nansum_cases(make: Make) -> None:
    _nan_cases(make)
    make.case("int32", make.normal((3, 5), "int32"), 1)


operator(
    "nansum",
    _scalar_axis(lambda x, dim, keep: np.nansum(x, axis=dim, keepdims=keep)),
    _nansum_cases,
    float32=(2, 16),
    narrow=(1, 1),
    magnitude=_scalar_axis(lambda x, dim, keep: np.nansum(np.abs(x), axis=dim, keepdims=keep)),
    example='crt.nansum(crt.tensor([1.0, float("nan"), 2.0]))',
)


def _nanmean(x: Array, dim: Any, keepdim: bool) -> Array:
    count = np.sum(~np.isnan(x), axis=dim, keepdims=keepdim)
    return np.nansum(x, axis=dim, keepdims=keepdim) / np.asarray(count, np.float64)


operator(
    "nanmean",
    _scalar_axis(_nanmean),
    _nan_cases,
    float32=(2, 16),
    narrow=(1, 1),
    magnitude=_scalar_axis(lambda x, dim, keep: _nanmean(np.abs(x), dim, keep)),
    example='crt.nanmean(crt.tensor([1.0, float("nan"), 2.0]))',
)


# ---------------------------------------------------------------- both extremes, counts
operator(
    "aminmax",
    _scalar_axis(
        lambda x, dim, keep: (
            np.min(x, axis=dim, keepdims=keep),
            np.max(x, axis=dim, keepdims=keep),
        )
    ),
    reduction(_ORDERED, empty=False),
    float32=(0, 0),
    narrow=(0, 0),
    example="crt.aminmax(crt.tensor([3.0, 1.0, 2.0]))",
)


def _count_cases(make: Make) -> None:
    for dtype in _ORDERED:
        x = make.normal((3, 4, 35), dtype, scale=0.3)
        for name, dim in (("all", None), ("last", -1), ("first", 0), ("two", (0, 2))):
            make.case(f"{dtype}-{name}", x, dim)
    make.case("long", make.normal((40000,), "int32", scale=0.3))
    make.case("nan", make.operand([[np.nan, 0.0, -0.0], [0.0, 0.0, 1.0]], "float32"), 1)
    make.case("transposed", make.normal((6, 5), "int64", "transposed", 0.3), 1)
    make.case("of-nothing", make.normal((5, 0)), 1)
    make.case("scalar", make.normal(()))


operator(
    "count_nonzero",
    lambda x, dim: np.count_nonzero(x, axis=None if x.ndim == 0 else _axis(dim)),
    _count_cases,
    example="crt.count_nonzero(crt.tensor([[0, 3], [1, 2]]), dim=1)",
)


# ---------------------------------------------------------------- variance
def _variance(x: Array, dim: Any, correction: Any, unbiased: Any, keepdim: bool) -> Any:
    if unbiased is not None:
        correction = int(unbiased)
    correction = 1 if correction is None else correction
    over = None if x.ndim == 0 else _axis(dim)
    count = x.size if over is None else np.prod([x.shape[d] for d in _dims(x, dim)])
    mean = np.sum(x, axis=over, keepdims=True) / np.float64(count)
    squares = np.sum((x - mean) ** 2, axis=over, keepdims=keepdim)
    variance = squares / np.float64(max(count - correction, 0)) if count else squares * np.nan
    mean = mean if keepdim else np.sum(x, axis=over) / np.float64(count)
    return variance, mean


def _spread(root: bool, pair: bool) -> Callable[..., Any]:
    def reference(x: Array, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Any:
        variance, mean = _variance(x, dim, correction, unbiased, keepdim)
        spread = np.sqrt(variance) if root else variance
        return (spread, mean) if pair else spread

    return reference


def _magnitudes(x: Array, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Any:
    """Of the terms: squares for a variance (a deviation is smaller), elements for a mean."""
    spread, _ = _variance(x, dim, correction, unbiased, keepdim)
    _, mean = _variance(np.abs(x), dim, correction, unbiased, keepdim)
    return np.maximum(np.sqrt(spread), spread), mean


def _spread_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        x = make.normal((3, 4, 35), dtype)
        for name, dim in (("all", None), ("last", -1), ("first", 0), ("two", (0, 2))):
            make.case(f"{dtype}-{name}", x, dim)
    x = make.normal((6, 5))
    make.case("keep", x, 1, None, True)
    make.case("keep-all", x, None, None, True)
    for correction in (0, 2, 1.5, -1, 9):
        make.case(f"correction-{correction}", x, 1, None, False, correction)
    make.case("unbiased", x, 0, True)
    make.case("biased", x, 0, False)
    make.case("far", make.operand(make.rng.normal(1000, 1, (3, 700)), "float32"), 1)
    make.case("long", make.normal((70000,)))
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 1)
    make.case("expanded", make.normal((6, 5), "float32", "expanded"), 0)
    make.case("few", make.normal((40, 3)), 1)
    make.case("scalar", make.normal(()), None, False)
    make.case("of-nothing", make.normal((5, 0)), 1)


for _name, _root, _pair in (
    ("var", False, False),
    ("std", True, False),
    ("var_mean", False, True),
    ("std_mean", True, True),
):
    operator(
        _name,
        _spread(_root, _pair),
        _spread_cases,
        magnitude=_magnitudes,
        float32=(8, 16),
        narrow=(1, 1),
        example=f"crt.{_name}(crt.tensor([1.0, 2.0, 4.0]))",
    )


# ---------------------------------------------------------------- logarithms and norms
def _logsumexp(x: Array, dim: Any, keepdim: bool) -> Array:
    x = x.astype(np.float64)
    top = np.max(x, axis=dim, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.sum(np.exp(x - top), axis=dim, keepdims=True)) + top
    return total if keepdim else np.squeeze(total, axis=dim)


def _logsumexp_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64", "int32"):
        x = make.normal((3, 4, 35), dtype, scale=3)
        for name, dim in (("all", None), ("last", -1), ("first", 0), ("two", (0, 2))):
            make.case(f"{dtype}-{name}", x, dim)
    make.case("keep", make.normal((3, 5)), 1, True)
    make.case("large", make.operand([[1e4, 1e4 - 1, -1e4], [300.0, 0.0, -300.0]], "float32"), 1)
    infinite = [[np.inf, 0.0], [-np.inf, -np.inf], [np.nan, np.inf], [-np.inf, 2.0]]
    for dim in (0, 1):
        make.case(f"infinite-{dim}", make.operand(infinite, "float32"), dim)
        rows = np.resize(np.transpose(infinite), (2, 40))
        make.case(f"infinite-wide-{dim}", make.operand(rows, "float32"), dim)
    make.case("long", make.normal((70000,)))
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 1)
    make.case("scalar", make.normal(()))
    make.case("of-nothing", make.normal((5, 0)), 1)


operator(
    "logsumexp",
    _scalar_axis(_logsumexp),
    _logsumexp_cases,
    float32=(4, 4),
    narrow=(1, 1),
    example="crt.logsumexp(crt.tensor([0.0, 0.0]), 0)",
)


def _norm(x: Array, ord: float, dim: Any, keepdim: bool, _: Any = None) -> Array:
    over = None if x.ndim == 0 else _axis(dim)
    size = np.abs(x)
    if ord == 0:
        return np.sum(x != 0, axis=over, keepdims=keepdim)
    if np.isinf(ord):
        pick: Any = np.max if ord > 0 else np.min
        return pick(size, axis=over, keepdims=keepdim)
    return np.sum(size**ord, axis=over, keepdims=keepdim) ** (1 / np.float64(ord))


def _norm_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        x = make.normal((3, 4, 35), dtype)
        for name, dim in (("all", None), ("last", -1), ("first", 0), ("two", (0, 2))):
            make.case(f"{dtype}-{name}", x, 2, dim)
    for order in (0, 1, 3, 0.5, -1, -2.5, math.inf, -math.inf):
        make.case(f"order-{order}", make.normal((6, 21)), order, 1)
        make.case(f"order-{order}-columns", make.normal((21, 6)), order, 0)
    make.case("keep", make.normal((3, 5)), 2, 1, True)
    make.case("dtype", make.normal((3, 5), "bfloat16"), 2, 1, False, dtypes.float32)
    make.case("large", make.operand([[3e30, 4e30], [3e-30, 4e-30]], "float32"), 2, 1)
    make.case("nan", make.operand([[1.0, np.nan], [2.0, 3.0]], "float32"), math.inf, 1)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 2, 1)
    make.case("scalar", make.normal(()))
    make.case("of-nothing", make.normal((5, 0)), 2, 1)


operator(
    "vector_norm",
    _norm,
    _norm_cases,
    float32=(16, 2),
    narrow=(1, 1),
    example="crt.vector_norm(crt.tensor([3.0, 4.0]))",
)


def _dist_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        make.case(dtype, make.normal((3, 5), dtype), make.normal((3, 5), dtype))
    for order in (0, 1, 3.5, math.inf, -math.inf):
        make.case(f"order-{order}", make.normal((3, 5)), make.normal((3, 5)), order)
    make.case("broadcast", make.normal((3, 1, 5)), make.normal((2, 1)))
    make.case("mixed", make.normal((4,), "bfloat16"), make.normal((4,)))
    make.case("scalar", make.normal(()), make.normal(()))
    make.case("strided", make.normal((6, 5), "float32", "transposed"), make.normal((6, 5)))


operator(
    "dist",
    lambda x, y, p: _norm(np.asarray(x - y), p, None, False),
    _dist_cases,
    float32=(16, 4),
    narrow=(2, 2),
    example="crt.dist(crt.tensor([1.0, 2.0]), crt.tensor([4.0, 6.0]))",
)


def _trace_cases(make: Make) -> None:
    for dtype in _ORDERED:
        make.case(dtype, make.normal((5, 7), dtype))
    make.case("tall", make.normal((7, 5)))
    make.case("transposed", make.normal((6, 5), "float32", "transposed"))
    make.case("none", make.normal((0, 5)))


operator(
    "trace",
    np.trace,
    _trace_cases,
    float32=(2, 16),
    narrow=(1, 1),
    example="crt.ops.trace(crt.tensor([[1.0, 2.0], [3.0, 4.0]]))",
)
