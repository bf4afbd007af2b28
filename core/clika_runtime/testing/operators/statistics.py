"""Covariance and correlation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array


def _cov(x: Array, fweights: Any, aweights: Any, correction: int) -> Array:
    x = x.reshape(1, -1) if x.ndim < 2 else x
    return np.asarray(np.cov(x, ddof=correction, fweights=fweights, aweights=aweights))


def _cov_cases(make: Make) -> None:
    for dtype in ("float32", "float64", "int64"):
        make.case(dtype, make.normal((3, 8), dtype))
    x = make.normal((3, 8))
    counts = make.integers(1, 4, (8,))
    weights = make.uniform(0.5, 2, (8,))
    make.case("vector", make.normal((8,)))
    make.case("row", make.normal((1, 8)))
    make.case("population", x, None, None, 0)
    make.case("fweights", x, counts)
    make.case("aweights", x, None, weights)
    make.case("both", x, counts, weights)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"))


operator(
    "cov",
    _cov,
    _cov_cases,
    float32=(8, 16),
    example="crt.cov(crt.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))",
)


def _corr_cases(make: Make) -> None:
    for dtype in ("float32", "float64", "int64"):
        make.case(dtype, make.normal((3, 8), dtype))
    make.case("vector", make.normal((8,)))
    make.case("transposed", make.normal((6, 5), "float32", "transposed"))


operator(
    "corrcoef",
    lambda x: np.asarray(np.corrcoef(x)).reshape(() if x.ndim < 2 else (len(x), len(x))),
    _corr_cases,
    float32=(8, 16),
    example="crt.corrcoef(crt.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))",
)
