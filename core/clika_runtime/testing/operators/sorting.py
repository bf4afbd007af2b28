"""Order along a dim, search in sorted numbers, distinct values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array
from .shaping import _sort, _sort_cases

_EXACT: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}

operator(
    "argsort",
    lambda x, dim, descending, _: _sort(x, dim, descending)[1],
    _sort_cases,
    example="crt.argsort(crt.tensor([3.0, 1.0, 2.0]))",
)


def _msort_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int64", "bool"):
        make.case(dtype, make.normal((9, 4), dtype))
    make.case("nan", make.operand([1.0, np.nan, -np.inf], "float32"))
    make.case("transposed", make.normal((6, 5), "float32", "transposed"))
    make.case("scalar", make.normal(()))


operator(
    "msort",
    lambda x: _sort(x, 0, False)[0],
    _msort_cases,
    **_EXACT,
    example="crt.msort(crt.tensor([3.0, 1.0, 2.0]))",
)


# ---------------------------------------------------------------- one element along a dim
def _lines(x: Array, dim: int, keepdim: bool, pick: Any) -> tuple[Array, Array]:
    """What `pick(line)`, a value and an index, finds along the dim."""
    lines = x.reshape(1) if x.ndim == 0 else np.moveaxis(x, dim, -1)
    values = np.zeros(lines.shape[:-1], x.dtype)
    indices = np.zeros(lines.shape[:-1], np.int64)
    for at in np.ndindex(lines.shape[:-1]):
        values[at], indices[at] = pick(lines[at])
    if keepdim and x.ndim:
        values, indices = np.expand_dims(values, dim), np.expand_dims(indices, dim)
    return values, indices


def _ranked(line: Array, rank: int) -> tuple[Any, Any]:
    order = np.argsort(line, kind="stable")
    return line[order[rank]], order[rank]


def _kth_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64"):
        x = make.normal((3, 4, 9), dtype)
        make.case(f"{dtype}-last", x, 3)
        make.case(f"{dtype}-middle", x, 2, 1)
    make.case("keep", make.normal((3, 5)), 5, 0 - 1, True)
    make.case("ties", make.operand([2, 1, 2, 1, 2], "int64"), 3)
    make.case("nan", make.operand([1.0, np.nan, 0.0], "float32"), 3)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 2, 1)
    make.case("scalar", make.normal(()), 1)


operator(
    "kthvalue",
    lambda x, k, dim, keep: _lines(x, dim, keep, lambda line: _ranked(line, k - 1)),
    _kth_cases,
    **_EXACT,
    example="crt.kthvalue(crt.tensor([3.0, 1.0, 2.0]), 2)",
)


def _median(line: Array, skip: bool) -> tuple[Any, Any]:
    if line.size == 0:
        return np.nan, 0
    missing = np.isnan(line)
    if missing.any() and not skip:
        return np.nan, np.argmax(missing)
    count = line.size - int(missing.sum())
    return _ranked(line, max(count - 1, 0) // 2)


def _median_of(skip: bool) -> Any:
    def reference(x: Array, dim: Any, keepdim: bool) -> Any:
        if dim is None:
            value = np.asarray(_median(x.reshape(-1), skip)[0])
            return value.reshape((1,) * x.ndim) if keepdim else value
        return _lines(x, dim, keepdim, lambda line: _median(line, skip))

    return reference


def _median_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64"):
        x = make.normal((3, 4, 6), dtype)
        make.case(f"{dtype}-all", x)
        make.case(f"{dtype}-last", x, -1)
        make.case(f"{dtype}-first", x, 0, True)
    holes = np.where(make.rng.random((6, 9)) < 0.3, np.nan, make.rng.normal(0, 1, (6, 9)))
    make.case("nan", make.operand(holes, "float32"), 1)
    make.case("nan-all", make.operand(holes, "float32"))
    make.case("only-nan", make.operand([[np.nan, np.nan]], "float32"), 1)
    make.case("ties", make.operand([2, 1, 2, 1], "int64"), 0)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 1)
    make.case("of-nothing", make.normal((0,)))
    make.case("scalar", make.normal(()), 0)


for _name, _skip in (("median", False), ("nanmedian", True)):
    operator(
        _name,
        _median_of(_skip),
        _median_cases,
        **_EXACT,
        example=f"crt.{_name}(crt.tensor([3.0, 1.0, 2.0]))",
    )


def _mode(line: Array) -> tuple[Any, Any]:
    values, counts = np.unique(line, return_counts=True, equal_nan=False)
    value = values[np.argmax(counts)]
    places = np.flatnonzero(line == value)
    return value, places[-1] if places.size else np.argmax(np.isnan(line))


def _mode_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64", "bool"):
        x = make.operand(make.rng.integers(0, 4, (3, 4, 9)), dtype)
        make.case(f"{dtype}-last", x)
        make.case(f"{dtype}-middle", x, 1, True)
    make.case("nan", make.operand([[1.0, np.nan, np.nan], [2.0, 3.0, 3.0]], "float32"))
    make.case("transposed", make.normal((6, 5), "int64", "transposed"), 1)
    make.case("scalar", make.normal(()))


operator(
    "mode",
    lambda x, dim, keep: _lines(x, dim, keep, _mode),
    _mode_cases,
    **_EXACT,
    example="crt.mode(crt.tensor([2, 1, 2]))",
)


# ---------------------------------------------------------------- quantiles
def _quantile(skip: bool) -> Any:
    def reference(x: Array, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Array:
        function: Any = np.nanquantile if skip else np.quantile
        axis = None if dim is None or x.ndim == 0 else dim
        at = np.asarray(q, np.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy tells of slices of NaN
            return np.asarray(function(x, at, axis, method=interpolation, keepdims=keepdim))

    return reference


def _quantile_cases(make: Make) -> None:
    for dtype in ("float32", "float64"):
        x = make.normal((3, 4, 9), dtype)
        for name, dim in (("all", None), ("last", -1), ("first", 0)):
            make.case(f"{dtype}-{name}", x, 0.25, dim)
        make.case(f"{dtype}-several", x, make.operand([0.0, 0.25, 1.0], dtype), 2, True)
    x = make.normal((4, 9))
    for mode in ("lower", "higher", "midpoint", "nearest"):
        make.case(mode, x, 0.2, 1, False, mode)
        make.case(f"{mode}-half", x, 0.3125, 1, False, mode)
    holes = np.where(make.rng.random((6, 9)) < 0.2, np.nan, make.rng.normal(0, 1, (6, 9)))
    make.case("nan", make.operand(holes, "float32"), 0.5, 1)
    make.case("only-nan", make.operand([[np.nan, np.nan]], "float32"), 0.5, 1)
    make.case("whole", x, 1, 0)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 0.5, 1)
    make.case("scalar", make.normal(()), 0.5)


for _name, _skip in (("quantile", False), ("nanquantile", True)):
    operator(
        _name,
        _quantile(_skip),
        _quantile_cases,
        float32=(2, 16),  # the position q (n - 1) is rounded too
        example=f"crt.{_name}(crt.tensor([1.0, 2.0, 3.0, 4.0]), 0.5)",
    )


# ---------------------------------------------------------------- search
def _search(
    sorted_sequence: Array, values: Any, sorter: Any, _: bool, right: bool, side: str
) -> Array:
    values = np.asarray(values)
    which: Any = "right" if right or side == "right" else "left"
    if sorter is not None:
        sorted_sequence = np.take_along_axis(sorted_sequence, sorter, -1)
    if sorted_sequence.ndim == 1:
        return np.asarray(np.searchsorted(sorted_sequence, values, which))
    found = np.zeros(values.shape, np.int64)
    for at in np.ndindex(values.shape[:-1]):
        found[at] = np.searchsorted(sorted_sequence[at], values[at], which)
    return found


def _search_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64"):
        rows = make.operand(np.sort(make.rng.integers(-5, 6, (3, 8)), -1), dtype)
        values = make.operand(make.rng.integers(-7, 8, (3, 5)), dtype)
        for right in (False, True):
            make.case(f"{dtype}-{right}", rows, values, None, False, right)
    edges = make.operand([1.0, 2.0, 2.0, 5.0], "float32")
    make.case("vector", edges, make.normal((3, 4), scale=3))
    make.case("number", edges, 2.0)
    make.case("side", edges, make.operand([2.0, 5.0], "float32"), None, False, False, "right")
    make.case("int32", edges, make.normal((5,)), None, True)
    mixed = make.normal((6,))
    order = make.operand(np.argsort(mixed.values), "int64")
    make.case("sorter", mixed, make.normal((4,)), order)
    make.case("nan", edges, make.operand([np.nan, np.inf], "float32"))
    make.case("mixed", edges, make.integers(0, 6, (4,)))
    make.case("stepped", edges, make.normal((6, 5), "float32", "stepped"))
    make.case("empty", make.normal((0,)), make.normal((3,)))


operator(
    "searchsorted",
    _search,
    _search_cases,
    example="crt.searchsorted(crt.tensor([1.0, 2.0, 4.0]), crt.tensor([2.0, 3.0]))",
)


def _bucket_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int64"):
        edges = make.operand([-3, 0, 0, 2], dtype)
        for right in (False, True):
            make.case(f"{dtype}-{right}", make.normal((3, 7), dtype), edges, False, right)
    edges = make.operand([1.0, 2.0, 5.0], "float32")
    make.case("int32", make.normal((4,)), edges, True)
    make.case("number", 2, edges)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), edges)


operator(
    "bucketize",
    lambda x, edges, _, right: _search(edges, x, None, False, right, "left"),
    _bucket_cases,
    example="crt.bucketize(crt.tensor([0.5, 3.0]), crt.tensor([1.0, 2.0]))",
)


# ---------------------------------------------------------------- distinct values
def _results(values: Array, inverse: Any, counts: Any, with_inverse: Any, with_counts: Any) -> Any:
    found = [values]
    if with_inverse:
        found.append(inverse)
    if with_counts:
        found.append(counts)
    return tuple(found) if len(found) > 1 else found[0]


def _unique(x: Array, _: bool, with_inverse: bool, with_counts: bool, dim: Any) -> Any:
    values, inverse, counts = np.unique(
        x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    inverse = np.reshape(inverse, x.shape if dim is None else -1)
    return _results(values, inverse, counts, with_inverse, with_counts)


def _consecutive(x: Array, with_inverse: bool, with_counts: bool, dim: Any) -> Any:
    slices = x.reshape(-1, 1) if dim is None else np.moveaxis(x, dim, 0)
    count = slices.shape[0]
    rows = slices.reshape(count, slices[:1].size)
    first = [i for i in range(count) if i == 0 or (rows[i] != rows[i - 1]).any()]
    inverse = np.array([sum(i >= start for start in first) - 1 for i in range(count)], np.int64)
    counts = np.diff([*first, count]) if count else np.zeros(0, np.int64)
    kept = slices[first] if first else slices[:0]
    values = kept.reshape(-1) if dim is None else np.moveaxis(kept, 0, dim)
    inverse = inverse.reshape(x.shape) if dim is None else inverse
    return _results(values, inverse, counts, with_inverse, with_counts)


def _distinct(make: Make, *before: Any) -> None:
    """Cases of both; ``before`` are the arguments between the input and return_inverse."""
    for dtype in ("float32", "bfloat16", "int32", "int64", "bool"):
        x = make.operand(make.rng.integers(0, 3, (4, 5)), dtype)
        make.case(dtype, x, *before)
        make.case(f"{dtype}-all", x, *before, True, True)
    rows = make.operand(make.rng.integers(0, 2, (9, 2, 2)), "int64")
    for dim in (0, 1, -1):
        make.case(f"slices-{dim}", rows, *before, True, True, dim)
    make.case("counts", rows, *before, False, True, 0)
    make.case(
        "repeated", make.operand([[1, 2], [1, 2], [0, 5], [1, 2]], "int64"), *before, True, True, 0
    )
    make.case("nan", make.operand([np.nan, 1.0, np.nan, np.nan], "float32"), *before, True, True)
    make.case("transposed", make.normal((6, 5), "int64", "transposed"), *before, True)
    make.case("scalar", make.normal(()), *before, True, True)
    make.case("empty", make.normal((0,)), *before, True, True)


operator(
    "unique",
    _unique,
    lambda make: _distinct(make, True),
    **_EXACT,
    example="crt.unique(crt.tensor([2, 1, 2]), return_counts=True)",
)
operator(
    "unique_consecutive",
    _consecutive,
    _distinct,
    **_EXACT,
    example="crt.unique_consecutive(crt.tensor([2, 2, 1, 2]))",
)
