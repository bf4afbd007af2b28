"""Tensors from nothing: filled, counted, random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from .._kit import Make, operator
from .._numpy import Array, philox, uniform

_SHAPES: tuple[tuple[int, ...], ...] = ((3, 5), (), (0, 4), (2, 1, 7))


def _full_cases(make: Make) -> None:
    for shape in _SHAPES:
        make.case(f"{'x'.join(map(str, shape))}-float", shape, 2.5)
    make.case("int", (2, 3), 7)
    make.case("bool", (2, 3), True)
    for name in ("float32", "bfloat16", "int32", "int64", "bool", "float16", "uint8"):
        make.case(f"as-{name}", (4,), 3, dtypes.by_name(name))
    make.case("negative-zero", (2,), -0.0)
    make.case("infinite", (2,), -math.inf, dtypes.bfloat16)


def _filled_cases(make: Make) -> None:
    for shape in _SHAPES:
        make.case("x".join(map(str, shape)) or "scalar", shape)
    for name in ("bfloat16", "int32", "int64", "bool"):
        make.case(name, (3, 2), dtypes.by_name(name))


operator("full", lambda shape, value, dtype, _: np.full(shape, value), _full_cases)
operator("zeros", lambda shape, dtype, _: np.zeros(shape), _filled_cases)
operator("ones", lambda shape, dtype, _: np.ones(shape), _filled_cases)


def _arange(start: Any, end: Any, step: Any, dtype: Any, _: Any) -> Array:
    if end is None:
        start, end = 0, start
    count = math.ceil((end - start) / step)
    return start + step * np.arange(count)


def _arange_cases(make: Make) -> None:
    for name, *numbers in (
        ("stop", 6),
        ("none", 0),
        ("range", 2, 9),
        ("steps", 0, 10, 3),
        ("down", 5, -4, -2),
        ("float", 0.0, 2.0, 0.25),
        ("inexact", 0.0, 1.0, 0.1),
        ("float-stop", 3.5),
    ):
        make.case(name, *numbers)
    make.case("int32", 7, None, 1, dtypes.int32)
    make.case("as-float", 0, 37, 1, dtypes.float32)
    make.case("bfloat16", 0, 12, 1, dtypes.bfloat16)


operator("arange", _arange, _arange_cases, float32=(1, 1), narrow=(0.5, 0))


# ---------------------------------------------------------------- random numbers
def _words(shape: tuple[int, ...], seed: int, offset: int) -> Array:
    count = math.prod(shape)
    return philox(np.arange(-(-count // 4)), offset, seed)


def _rand(shape: tuple[int, ...], seed: int, offset: int, dtype: Any, _: Any) -> Array:
    return uniform(_words(shape, seed, offset)).reshape(-1)[: math.prod(shape)].reshape(shape)


def _randn(shape: tuple[int, ...], seed: int, offset: int, dtype: Any, _: Any) -> Array:
    words = _words(shape, seed, offset).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log(uniform(words[:, 0]) + 2.0**-24))
    angle = 2 * math.pi * uniform(words[:, 1])
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    return pairs.reshape(-1)[: math.prod(shape)].reshape(shape)


def _random_cases(make: Make) -> None:
    for shape in ((1,), (3, 5), (), (0, 3), (1000,)):
        make.case("x".join(map(str, shape)) or "scalar", shape, 42, 0)
    make.case("seed", (9,), 2**40 + 7, 0)
    make.case("offset", (9,), 42, 2**35 + 3)
    make.case("bfloat16", (33,), 5, 1, dtypes.bfloat16)


operator("rand", _rand, _random_cases, float32=(0, 0), narrow=(1, 0))
operator("randn", _randn, _random_cases, float32=(4, 8), narrow=(1, 0.5))
