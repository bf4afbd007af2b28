"""Cases of ``rand`` and ``randn``: the same numbers everywhere, and numbers of the right kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clika_runtime.testing import cases, check_rule
from clika_runtime.testing._numpy import philox
from clika_runtime.testing.operators.factories import _rand, _randn
from tests.ops.support import check_backend

CASES = [*cases("rand"), *cases("randn")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Any) -> None:
    check_rule(case)


def test_philox_known_answers() -> None:
    """The vectors that the authors of the generator publish (Random123, philox4x32-10)."""
    assert [f"{word:08x}" for word in philox(0, 0, 0)] == [
        "6627e8d5",
        "e169c58d",
        "bc57ac4c",
        "9b00dbd8",
    ]
    assert [f"{word:08x}" for word in philox(-1, -1, -1)] == [
        "408f276d",
        "41c83b0e",
        "a20bc7c6",
        "6d5451fd",
    ]


def test_uniform_numbers_fill_the_interval() -> None:
    drawn = _rand((100_000,), 1, 2, None, None)
    assert 0 <= drawn.min() and drawn.max() < 1
    counts, _ = np.histogram(drawn, 20, (0, 1))
    assert np.abs(counts - 5000).max() < 350  # five standard deviations


def test_normal_numbers_have_the_moments() -> None:
    drawn = _randn((200_000,), 1, 2, None, None)
    assert abs(drawn.mean()) < 0.012 and abs(drawn.std() - 1) < 0.01
    assert abs(np.mean(drawn**3)) < 0.05 and abs(np.mean(drawn**4) - 3) < 0.1


def test_seed_offset_and_default_key() -> None:
    import clika_runtime as crt

    crt.manual_seed(11)
    first = crt.rand(8).tolist()
    second = crt.rand(8).tolist()
    assert first != second
    crt.manual_seed(11)
    assert crt.rand(8).tolist() == first
    assert crt.rand(2, 4, seed=11, offset=1).reshape(8).tolist() == second
