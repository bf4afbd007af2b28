"""Bins and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array


def _bin_cases(make: Make) -> None:
    for dtype in ("int32", "int64", "uint8"):
        make.case(dtype, make.integers(0, 6, (20,), dtype))
    x = make.integers(0, 6, (20,))
    make.case("float32-weights", x, make.normal((20,)))
    make.case("float64-weights", x, make.normal((20,), "float64"))
    make.case("int-weights", x, make.normal((20,), "int64"))
    make.case("minlength", x, None, 9)
    make.case("bool", make.normal((9,), "bool"))
    make.case("stepped", make.integers(0, 6, (20,), "int64", "stepped"))
    make.case("empty", make.integers(0, 6, (0,)))


operator(
    "bincount",
    lambda x, weights, minlength: np.bincount(x.astype(np.int64), weights, minlength),
    _bin_cases,
    float32=(4, 16),
    example="crt.bincount(crt.tensor([1, 2, 2]))",
)


def _histc(x: Array, bins: int, low: float, high: float) -> Array:
    if low == high and x.size:
        low, high = x.min(), x.max()
    if low == high:
        low, high = low - 1, high + 1
    inside = x[(x >= low) & (x <= high)]
    places = np.minimum(np.floor((inside - low) * bins / (high - low)).astype(np.int64), bins - 1)
    return np.bincount(places, minlength=bins)


def _histc_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        make.case(dtype, make.operand(make.rng.integers(-9, 10, (50,)) / 4, dtype), 8, -2.0, 2.0)
    make.case("own-range", make.operand(make.rng.integers(-16, 17, (30,)) / 8, "float32"), 16)
    make.case("equal", make.operand([2.0, 2.0], "float32"), 4)
    make.case("nan", make.operand([np.nan, 1.0, 0.5], "float32"), 4, 0.0, 2.0)
    make.case("outside", make.operand([-5.0, 0.0, 2.0, 7.0], "float32"), 2, 0.0, 2.0)
    make.case("transposed", make.operand(np.eye(4, 3), "float32", "transposed"), 4, 0.0, 1.0)
    make.case("empty", make.normal((0,)), 3)


operator(
    "histc",
    _histc,
    _histc_cases,
    float32=(0, 0),
    narrow=(0, 0),
    example="crt.histc(crt.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)",
)


def _histogram(x: Array, bins: Any, weight: Any, ends: Any, density: bool) -> tuple[Array, Array]:
    flat = x.reshape(-1)
    weights = None if weight is None else weight.reshape(-1)
    if not isinstance(bins, int):
        hist, edges = np.histogram(flat, bins, weights=weights)
    else:
        hist, edges = np.histogram(flat, bins, ends, weights=weights)
    hist = hist.astype(np.float64)
    return hist / hist.sum() / np.diff(edges) if density else hist, edges


def _histogram_cases(make: Make) -> None:
    for dtype in ("float32", "float64"):
        x = make.operand(make.rng.integers(-9, 10, (5, 10)) / 4, dtype)
        make.case(f"{dtype}-number", x, 4, None, (-2.0, 2.0))
        edges = make.operand([-2.0, -0.5, 0.0, 0.25, 2.0], dtype)
        make.case(f"{dtype}-edges", x, edges)
        make.case(f"{dtype}-weights", x, edges, make.uniform(0, 1, (5, 10), dtype))
        make.case(f"{dtype}-density", x, edges, None, None, True)
    make.case("own-range", make.operand([0.0, 1.0, 2.0, 4.0, 4.0], "float32"), 4)
    make.case("equal", make.operand([2.0, 2.0], "float32"), 2)
    make.case("empty", make.normal((0,)), 2)
    make.case("transposed", make.operand(np.eye(4, 3), "float32", "transposed"), 2)


operator(
    "histogram",
    _histogram,
    _histogram_cases,
    float32=(8, 4),
    example="crt.histogram(crt.tensor([1.0, 2.0, 1.0]), 2)",
)
