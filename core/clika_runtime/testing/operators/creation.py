"""Tensors made from sizes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from .._kit import Make, operator
from .._numpy import Array


def _eye_cases(make: Make) -> None:
    for n, m in ((3, None), (2, 4), (4, 2), (0, None), (1, 0)):
        make.case(f"{n}x{m}", n, m)
    for name in ("bfloat16", "int32", "int64", "bool", "float64", "uint8"):
        make.case(name, 3, None, dtypes.by_name(name))


operator(
    "eye",
    lambda n, m, dtype, _: np.eye(n, m),
    _eye_cases,
    float32=(0, 0),
    narrow=(0, 0),
    example="crt.eye(2)",
)


def _linspace(start: Any, end: Any, steps: int, dtype: Any, _: Any) -> Array:
    if dtype is not None and dtype.kind != "f":
        start, end = int(start), int(end)
    if steps == 1:
        return np.array([start])
    places = np.arange(steps)
    step = (end - start) / (steps - 1) if steps else 0
    return np.where(places < steps // 2, start + step * places, end - step * (steps - 1 - places))


def _linspace_cases(make: Make) -> None:
    for name, *args in (
        ("up", 0, 1, 5),
        ("down", 3.5, -2.5, 7),
        ("one", 2, 9, 1),
        ("none", 2, 9, 0),
        ("same", 4, 4, 3),
        ("long", -1.0, 1.0, 1000),
    ):
        make.case(name, *args)
    for name in ("bfloat16", "float64", "float16"):
        make.case(name, -3, 5, 17, dtypes.by_name(name))
    for name in ("int32", "int64", "uint8"):
        make.case(name, 0.9, 20.9, 8, dtypes.by_name(name))


operator(
    "linspace",
    _linspace,
    _linspace_cases,
    float32=(1, 1),
    narrow=(0.5, 0),
    example="crt.linspace(0, 1, 5)",
)


def _logspace(start: Any, end: Any, steps: int, base: Any, dtype: Any, _: Any) -> Array:
    return np.float64(base) ** _linspace(start, end, steps, dtype, _)


def _logspace_cases(make: Make) -> None:
    for name, *args in (
        ("tens", -2, 3, 6),
        ("twos", 0, 8, 5, 2),
        ("down", 2.5, -2.5, 11, 3.0),
        ("one", 2, 9, 1),
        ("none", 2, 9, 0),
    ):
        make.case(name, *args)
    make.case("bfloat16", -1, 1, 9, 10.0, dtypes.bfloat16)
    make.case("float64", -1, 1, 9, 10.0, dtypes.float64)
    make.case("int64", 0, 10, 11, 2, dtypes.int64)
    make.case("fractional", 0, 30, 4, 1.5, dtypes.int64)


operator(
    "logspace",
    _logspace,
    _logspace_cases,
    float32=(1, 0),
    narrow=(0.5, 0),
    example="crt.logspace(0, 3, 4)",
)


def _triangle_cases(make: Make) -> None:
    for row, col in ((3, 3), (2, 4), (4, 2), (0, 3), (3, 0)):
        for offset in (0, 1, -1):
            make.case(f"{row}x{col}-{offset}", row, col, offset)
    make.case("all", 2, 3, 9)
    make.case("far", 3, 4, -9)
    make.case("int32", 3, 3, 0, dtypes.int32)


def _tril_indices(row: int, col: int, offset: int, *_: Any) -> Array:
    return np.stack(np.tril_indices(row, offset, col))


def _triu_indices(row: int, col: int, offset: int, *_: Any) -> Array:
    return np.stack(np.triu_indices(row, offset, col))


operator("tril_indices", _tril_indices, _triangle_cases, example="crt.tril_indices(3, 3)")
operator("triu_indices", _triu_indices, _triangle_cases, example="crt.triu_indices(3, 3)")
