"""Random numbers over tensors: the same words of the generator, and the same use of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from .._kit import Make, operator
from .._numpy import Array, philox, uniform
from .factories import _randn


def _words(count: int, seed: int, offset: int) -> Array:
    blocks = np.arange((count + 3) // 4)
    return philox(blocks, offset, seed).reshape(-1)[:count]


def _long_words(count: int, seed: int, offset: int) -> list[int]:
    words = _words(2 * count, seed, offset).astype(object).reshape(-1, 2)
    return [int(low) | int(high) << 32 for low, high in words]


def _units(shape: tuple[int, ...], seed: int, offset: int) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    return uniform(_words(count, seed, offset)).reshape(shape)


# ---------------------------------------------------------------- whole numbers
def _randint(low: Any, high: Any, shape: Any, seed: int, offset: int, *_: Any) -> Array:
    if shape is None:
        low, high, shape = 0, low, high
    elif high is None:
        low, high = 0, low
    first, end = (int(np.reshape(0 if x is None else x, -1)[0]) for x in (low, high))
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = int(np.prod(shape, dtype=np.int64))
    drawn = [first + (word * (end - first) >> 64) for word in _long_words(count, seed, offset)]
    return np.array(drawn, np.int64).reshape(shape)


def _randint_cases(make: Make) -> None:
    make.case("high", 10, (3, 5), None, 7, 0)
    make.case("bounds", -5, 10, (9,), 7, 3)
    make.case("size", 10, None, (4, 2), 1, 0)
    make.case("scalar", 10, (), None, 1, 0)
    make.case("none", 10, (0, 3), None, 1, 0)
    make.case("wide", -(2**62), 2**62, (50,), 3, 1)
    for name in ("int32", "uint8", "float32", "bfloat16", "float64"):
        make.case(name, 0, 100, (7,), 5, 2, dtypes.by_name(name))


operator(
    "randint",
    _randint,
    _randint_cases,
    float32=(0, 0),
    narrow=(0, 0),
    example="crt.randint(10, (4,), seed=1)",
)


def _randperm(n: int, seed: int, offset: int, *_: Any) -> Array:
    keys = _long_words(n, seed, offset)
    return np.array(sorted(range(n), key=lambda i: (keys[i], i)), np.int64)


def _randperm_cases(make: Make) -> None:
    for n in (0, 1, 7, 100):
        make.case(f"of-{n}", n, 11, 2)
    make.case("int32", 20, 3, 0, dtypes.int32)


operator(
    "randperm",
    _randperm,
    _randperm_cases,
    example="crt.randperm(5, seed=1)",
)


# ---------------------------------------------------------------- over tensors
def _bernoulli_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        make.case(dtype, make.uniform(0, 1, (30, 9), dtype), None, 5, 1)
        make.case(f"{dtype}-p", make.normal((300,), dtype), 0.3, 5, 2)
    make.case("int64-p", make.normal((9,), "int64"), 0.5, 1, 0)
    make.case("sure", make.operand([0.0, 1.0], "float32"), None, 1, 0)
    make.case("transposed", make.uniform(0, 1, (6, 5), "float32", "transposed"), None, 3, 0)
    make.case("scalar", make.operand(0.5, "float32"), None, 3, 0)
    make.case("empty", make.normal((0, 3)), 0.5, 1, 0)


operator(
    "bernoulli",
    lambda x, p, seed, offset: (_units(x.shape, seed, offset) < (x if p is None else p)).astype(
        x.dtype
    ),
    _bernoulli_cases,
    float32=(0, 0),
    narrow=(0, 0),
    example="crt.bernoulli(crt.tensor([0.0, 1.0, 0.5]), seed=1)",
)


def _normal(mean: Any, std: Any, shape: Any, seed: int, offset: int, *_: Any) -> Array:
    std = 1.0 if std is None else std
    if shape is None:
        shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    return np.asarray(mean + std * _randn(tuple(shape), seed, offset, None, None))


def _normal_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16"):
        make.case(
            dtype, make.normal((3, 5), dtype), make.uniform(0.5, 2, (3, 5), dtype), None, 7, 0
        )
    x = make.normal((9,), "float64")
    make.case("float64", x, None, None, 7, 0, bound=(0, 2.0**31))  # z is drawn in float32
    make.case("mean", make.normal((4, 3)), None, None, 7, 1)
    make.case("number-std", make.normal((4, 3)), 2.0, None, 7, 1)
    make.case("number-mean", 1.5, make.uniform(0.5, 2, (4, 3)), None, 7, 1)
    make.case("numbers", 1.5, 0.5, (3, 4), 7, 2)
    make.case("numbers-bfloat16", 1.5, 0.5, (9,), 7, 2, dtypes.bfloat16)
    make.case("broadcast", make.normal((4, 1)), make.uniform(0.5, 2, (3,)), None, 7, 1)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 0.0, None, 7, 1)


operator(
    "normal",
    _normal,
    _normal_cases,
    float32=(16, 4),
    narrow=(1, 1),
    example="crt.normal(crt.tensor([0.0, 10.0]), 0.0, seed=1)",
)


def _multinomial(x: Array, samples: int, replacement: bool, seed: int, offset: int) -> Array:
    rows = x.reshape(-1, x.shape[-1])
    count, categories = rows.shape
    if replacement:
        u = _units((count, samples), seed, offset)
        running = np.cumsum(rows, 1)
        drawn = [np.searchsorted(c, t * c[-1], "right") for c, t in zip(running, u, strict=True)]
    else:
        words = _words(count * categories, seed, offset).reshape(rows.shape)
        v = ((words >> np.uint32(8)).astype(np.float64) + 1) * 2.0**-24
        keys = np.where(rows > 0, -np.log(v) / rows, np.inf)
        drawn = [np.argsort(key, kind="stable")[:samples] for key in keys]
    return np.array(drawn, np.int64).reshape((*x.shape[:-1], samples))


def _multinomial_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        for replacement in (False, True):
            x = make.uniform(0, 1, (4, 9), dtype)
            make.case(f"{dtype}-{replacement}", x, 5, replacement, 3, 1)
    make.case("vector", make.uniform(0, 1, (6,)), 6, False, 3, 0)
    make.case("zeros", make.operand([0.0, 1.0, 0.0, 2.0], "float32"), 2, False, 3, 0)
    make.case("zeros-replaced", make.operand([0.0, 1.0, 0.0, 2.0], "float32"), 20, True, 3, 0)
    make.case("transposed", make.uniform(0, 1, (6, 5), "float32", "transposed"), 2, True, 4, 0)


operator(
    "multinomial",
    _multinomial,
    _multinomial_cases,
    example="crt.multinomial(crt.tensor([0.0, 1.0]), 3, True, seed=1)",
)


def _dropout(x: Array, p: float, seed: int, offset: int) -> Array:
    if p == 0:
        return x
    scale = np.float64(1) / (1 - p) if p < 1 else 0.0
    return np.where(_units(x.shape, seed, offset) >= p, x * scale, 0.0)


def _dropout_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        make.case(dtype, make.normal((20, 9), dtype), 0.4, 5, 1)
    x = make.normal((30,))
    make.case("all", x, 1.0, 5, 1)
    make.case("none", x, 0.0, 5, 1)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), 0.5, 3, 0)


operator(
    "dropout",
    _dropout,
    _dropout_cases,
    example="crt.dropout(crt.ones(4), 0.5, seed=1)",
)
