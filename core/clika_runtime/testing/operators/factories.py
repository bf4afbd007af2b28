"""Tensors from nothing: filled, counted, random; and the sampling of tokens."""

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


# ---------------------------------------------------------------- sampling
def _keep(probabilities: Array, top_p: float, min_p: float, top_k: int) -> Array:
    """Which tokens are kept, as bools by id."""
    order = np.argsort(-probabilities, kind="stable")
    if top_k > 0:
        order = order[:top_k]
    ranked = probabilities[order] / probabilities[order].sum()
    if top_p < 1:
        order = order[: max(1, int(np.searchsorted(np.cumsum(ranked), top_p)) + 1)]
    if min_p > 0:
        order = order[probabilities[order] >= min_p * probabilities[order[0]]]
    kept = np.zeros(len(probabilities), bool)
    kept[order] = True
    return kept


def draw(
    logits: Array, temperature: float, top_p: float, min_p: float, top_k: int, seed: int, index: int
) -> tuple[int, float]:
    """The token of one row, and how far the draw was from another one (as a share of 1)."""
    if not logits.max() > -np.inf:
        return -1, 1.0
    if temperature == 0:
        return int(np.argmax(logits)), 1.0
    probabilities = np.exp((logits - logits.max()) / temperature)
    probabilities /= probabilities.sum()
    chances = np.where(_keep(probabilities, top_p, min_p, top_k), probabilities, 0)
    steps = np.cumsum(chances) / chances.sum()
    u = float(uniform(philox(index, 0, seed))[0])
    return int(np.argmax(steps > u)), float(np.abs(steps - u).min())


def _sample(logits: Array, *settings: Array) -> Array:
    rows = zip(logits, *settings, strict=True)
    return np.array([draw(*row)[0] for row in rows], np.int64).reshape(len(logits))


def _sample_cases(make: Make) -> None:
    def case(name: str, vocabulary: int, dtype: str = "float32", **settings: Any) -> None:
        """Five rows; seeds whose draw falls next to a border, where rounding decides, are left."""
        logits = make.normal((5, vocabulary), dtype, scale=2)
        chosen: dict[str, Any] = {
            "temperature": 1.0,
            "top_p": 1.0,
            "min_p": 0.0,
            "top_k": 0,
            **settings,
        }
        columns: dict[str, list[float]] = {name: [] for name in (*chosen, "seed", "index")}
        for row in logits.exact():
            while True:
                seed, index = int(make.rng.integers(2**62)), int(make.rng.integers(2**20))
                if draw(row, seed=seed, index=index, **chosen)[1] > 1e-4 / vocabulary**0.5:
                    break
            for key, value in (*chosen.items(), ("seed", seed), ("index", index)):
                columns[key].append(value)
        kinds = {"top_k": "int32", "seed": "int64", "index": "int64"}
        make.case(
            name,
            logits,
            *(
                make.operand(np.array(values), kinds.get(key, "float32"))
                for key, values in columns.items()
            ),
        )

    for dtype in ("float32", "bfloat16"):
        case(f"{dtype}-greedy", 50, dtype, temperature=0.0)
        case(f"{dtype}-plain", 50, dtype)
    case("cold", 50, temperature=0.3)
    case("hot", 50, temperature=2.5)
    case("top-k", 100, top_k=5)
    case("top-k-one", 100, top_k=1)
    case("top-k-all", 20, top_k=50)
    case("top-p", 100, top_p=0.6)
    case("top-p-least", 100, top_p=0.001)
    case("min-p", 100, min_p=0.2)
    case("all-three", 200, temperature=0.8, top_k=40, top_p=0.9, min_p=0.05)
    case("large", 3000)
    logits = make.operand([[1.0, 3.0, 3.0, 2.0]], "float32")
    settings = [make.operand([x], "float32") for x in (0.0, 1.0, 0.0)]
    rest = [make.operand([0], kind) for kind in ("int32", "int64", "int64")]
    make.case("tie", logits, *settings, *rest)
    no_choice = [[1.0, np.nan, 3.0], [-np.inf, -np.inf, -np.inf], [-np.inf, 2.0, -np.inf]]
    for name, temperature in (("undefined-greedy", 0.0), ("undefined-drawn", 1.0)):
        logits = make.operand(no_choice, "float32")
        settings = [make.operand([x] * 3, "float32") for x in (temperature, 1.0, 0.0)]
        rest = [make.operand([0] * 3, kind) for kind in ("int32", "int64", "int64")]
        make.case(name, logits, *settings, *rest)


operator("sample", _sample, _sample_cases)
