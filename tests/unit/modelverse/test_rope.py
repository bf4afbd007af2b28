"""Rotary frequencies against the formulas, computed by another path."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse.config import RopeScaling
from clika_runtime.modelverse.modules import Rotary, inverse_frequencies


def plain(size: int, theta: float) -> list[float]:
    return [theta ** (-2.0 * i / size) for i in range(size // 2)]


def test_default() -> None:
    table = inverse_frequencies(64, 1e4)
    assert table.dtype == np.float32
    np.testing.assert_allclose(table, plain(64, 1e4), rtol=1e-6)


def test_linear_divides() -> None:
    table = inverse_frequencies(64, 1e4, RopeScaling("linear", 4.0))
    np.testing.assert_allclose(table, np.array(plain(64, 1e4)) / 4, rtol=1e-6)


def test_llama3_keeps_blends_and_divides() -> None:
    scaling = RopeScaling("llama3", 8.0, 1.0, 4.0, 8192)
    expected = []
    kinds = set()
    for frequency in plain(128, 5e5):
        wavelength = 2 * math.pi / frequency
        if wavelength < 8192 / 4:
            kinds.add("kept")
            expected.append(frequency)
        elif wavelength > 8192:
            kinds.add("divided")
            expected.append(frequency / 8)
        else:
            kinds.add("blended")
            smooth = (8192 / wavelength - 1) / 3
            expected.append((1 - smooth) * frequency / 8 + smooth * frequency)
    assert kinds == {"kept", "divided", "blended"}
    np.testing.assert_allclose(inverse_frequencies(128, 5e5, scaling), expected, rtol=1e-6)


def test_factors_divide_the_unscaled_frequencies() -> None:
    factors = np.linspace(1, 8, 32, dtype=np.float32)
    table = inverse_frequencies(64, 1e4, RopeScaling("linear", 2.0), factors)
    np.testing.assert_allclose(table, np.array(plain(64, 1e4)) / factors, rtol=1e-6)


@pytest.mark.parametrize(
    "factors", [np.ones(31), np.zeros(32), np.full(32, np.nan), np.full(32, np.inf)]
)
def test_bad_factors_are_refused_by_name(factors: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError, match=r"rope_freqs\.weight"):
        Rotary(64, 1e4).set_factors(factors.astype(np.float32), "rope_freqs.weight")
