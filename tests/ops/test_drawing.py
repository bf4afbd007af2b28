"""Cases of random numbers over tensors: the same numbers everywhere, and numbers of the right kind.

The statistical tests draw from fixed seeds. Their bounds are five standard deviations of what is
counted, so that a wrong distribution fails and a right one does not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.testing import cases, check_rule
from tests.ops.support import check_backend

CASES = [case for name in ops._GROUPS["drawing"].split() for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Any) -> None:
    check_rule(case)


def expect(count: float, n: int, p: float) -> None:
    assert abs(count - n * p) <= 5 * math.sqrt(n * p * (1 - p)), (count, n, p)


def test_randint_is_uniform() -> None:
    drawn = crt.randint(-3, 4, (70000,), seed=3).numpy()
    assert set(drawn) == set(range(-3, 4))
    for value in range(-3, 4):
        expect((drawn == value).sum(), 70000, 1 / 7)


def test_randperm_is_a_permutation_and_uniform() -> None:
    assert sorted(crt.randperm(1000, seed=1).tolist()) == list(range(1000))
    first = [crt.randperm(4, seed=2, offset=k).tolist() for k in range(4000)]
    for order in {tuple(row) for row in first}:
        expect(sum(tuple(row) == order for row in first), 4000, 1 / 24)
    assert len({tuple(row) for row in first}) == 24


def test_bernoulli_and_dropout_have_their_rates() -> None:
    for p in (0.01, 0.5, 0.9):
        expect(crt.bernoulli(crt.zeros(20000), p, seed=4).sum().item(), 20000, p)
        dropped = crt.dropout(crt.ones(20000), p, seed=5)
        zeros = (dropped == 0).sum().item()
        expect(zeros, 20000, p)
        assert abs(dropped.mean().item() - 1) < 5 * math.sqrt(p / (1 - p) / 20000)


def test_normal_has_the_moments() -> None:
    drawn = crt.normal(3.0, 2.0, (200_000,), seed=6).numpy().astype(np.float64)
    assert abs(drawn.mean() - 3) < 0.023 and abs(drawn.std() - 2) < 0.016
    assert crt.normal(crt.tensor([1.0, 2.0]), 0.0, seed=1).tolist() == [1.0, 2.0]


def test_multinomial_follows_the_weights() -> None:
    weights = crt.tensor([1.0, 0.0, 3.0, 6.0])
    drawn = crt.multinomial(weights, 50000, True, seed=7).numpy()
    for category, weight in enumerate(weights.tolist()):
        expect((drawn == category).sum(), 50000, weight / 10)
    rows = crt.multinomial(crt.expand(weights, (20000, 4)), 2, seed=8).numpy()
    assert (rows[:, 0] != rows[:, 1]).all() and not (rows == 1).any()
    # Without replacement the first is drawn by weight, the second by what is left.
    for first, second, chance in ((3, 2, 0.6 * 3 / 4), (2, 3, 0.3 * 6 / 7), (0, 3, 0.1 * 6 / 9)):
        expect(((rows[:, 0] == first) & (rows[:, 1] == second)).sum(), 20000, chance)


def test_seed_and_process_generator() -> None:
    crt.manual_seed(3)
    first = [crt.randint(100, (5,)).tolist(), crt.randperm(9).tolist()]
    crt.manual_seed(3)
    assert [crt.randint(100, (5,)).tolist(), crt.randperm(9).tolist()] == first
    assert crt.randint(100, (5,)).tolist() != first[0]
    x = crt.ones(64)
    assert crt.dropout(x, training=False) is x and crt.dropout(x, 0.0) is x
    assert crt.dropout(x).tolist() != crt.dropout(x).tolist()


def test_likes() -> None:
    x = crt.zeros(2, 3, dtype=crt.bfloat16)
    assert crt.rand_like(x).dtype is crt.bfloat16 and crt.randn_like(x).shape == (2, 3)
    assert crt.rand_like(x, seed=1, dtype=crt.float32).tolist() == crt.rand(2, 3, seed=1).tolist()
    drawn = crt.randint_like(x, 3, 5, seed=1)
    assert drawn.dtype is crt.bfloat16 and set(drawn.reshape(6).tolist()) <= {3.0, 4.0}


def test_refusals() -> None:
    x = crt.ones(3)
    for call in (
        lambda: crt.randint(5),
        lambda: crt.randint(5, 5, (2,)),
        lambda: crt.randint(0, 300, (2,), dtype=crt.uint8),
        lambda: crt.randint(0, 2**20, (2,), dtype=crt.float16),
        lambda: crt.randint(5, (-1,)),
        lambda: crt.randint((1, 2), 5, (2,)),
        lambda: crt.randperm(-1),
        lambda: crt.randperm(300, dtype=crt.int8),
        lambda: crt.bernoulli(x, 1.5).tolist(),
        lambda: crt.bernoulli(crt.tensor([0.5, -0.1])).tolist(),
        lambda: crt.bernoulli(crt.tensor([float("nan")])).tolist(),
        lambda: crt.normal(0.0, 1.0),
        lambda: crt.normal(x, -1.0).tolist(),
        lambda: crt.normal(x, x, (3,)),
        lambda: crt.multinomial(x, 4),
        lambda: crt.multinomial(x, 0),
        lambda: crt.multinomial(crt.zeros(3), 1, True).tolist(),
        lambda: crt.multinomial(crt.tensor([1.0, 0.0]), 2).tolist(),
        lambda: crt.multinomial(crt.tensor([1.0, float("inf")]), 1, True).tolist(),
        lambda: crt.multinomial(crt.tensor([1e308] * 9, dtype=crt.float64), 1, True).tolist(),
        lambda: crt.dropout(x, 1.5),
    ):
        with pytest.raises(crt.InvalidArgumentError):
            call()
