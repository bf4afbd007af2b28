"""Rotary frequencies against the formulas, computed by another path."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse.config import Fields
from clika_runtime.modelverse.modules import Rotary, inverse_frequencies
from clika_runtime.modelverse.rope_scaling import RopeScaling


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


def test_factors_of_a_file_divide_before_the_scaling() -> None:
    factors = np.linspace(1, 8, 32, dtype=np.float32)
    table = inverse_frequencies(64, 1e4, RopeScaling("linear", 2.0), factors)
    np.testing.assert_allclose(table, np.array(plain(64, 1e4)) / factors / 2, rtol=1e-6)


# ---- against transformers: (section of the config, the longest sequence)
PAIRS = 32
SHORT = [1.0 + 0.02 * i for i in range(PAIRS)]
LONG = [1.0 + 0.7 * i for i in range(PAIRS)]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": SHORT,
    "long_factor": LONG,
    "original_max_position_embeddings": 1024,
}
SCALINGS: list[tuple[dict[str, Any], int]] = [
    ({"rope_type": "linear", "factor": 4.0}, 0),
    ({"rope_type": "dynamic", "factor": 4.0}, 4096),
    ({"rope_type": "dynamic", "factor": 4.0}, 4097),
    ({"rope_type": "dynamic", "factor": 4.0}, 12000),
    (YARN, 0),
    ({**YARN, "beta_fast": 16.0, "beta_slow": 2.0}, 0),
    ({**YARN, "truncate": False}, 0),
    ({**YARN, "attention_factor": 1.3}, 0),
    ({**YARN, "mscale": 0.9, "mscale_all_dim": 0.5}, 0),
    ({**YARN, "mscale": 0.9}, 0),
    ({**YARN, "factor": 1.0}, 0),
    ({**YARN, "original_max_position_embeddings": 8}, 0),
    (LONGROPE, 1024),
    (LONGROPE, 1025),
    ({**LONGROPE, "factor": 16.0}, 4096),
    ({**LONGROPE, "attention_factor": 1.7}, 4096),
    ({**LONGROPE, "original_max_position_embeddings": 4096}, 4096),
]


@pytest.mark.parametrize(("section", "length"), SCALINGS)
def test_frequencies_and_attention_factor_equal_transformers(
    section: dict[str, Any], length: int
) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    raw = {"max_position_embeddings": 4096, "rope_theta": 5e5, "rope_scaling": section}
    theta, scaling = RopeScaling.from_hf(Fields(raw, "config.json"), 4096)
    config = LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=4096,
        rope_parameters={**section, "rope_theta": 5e5},
    )
    # The reference computes in float32, where a power is off by a few units in the last place.
    expected, factor = ROPE_INIT_FUNCTIONS[section["rope_type"]](config, seq_len=length or None)
    table = inverse_frequencies(64, theta, scaling, max_tokens=length)
    np.testing.assert_allclose(table, expected.numpy(), rtol=3e-6)
    assert scaling.attention_factor == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "other"),
    [
        ({"beta_fast": 16.0}, {}),
        ({"beta_slow": 3.0}, {}),
        ({"truncate": False}, {}),
        ({"factor": 5.0}, {}),
        ({"original_max_position_embeddings": 2048}, {}),
    ],
)
def test_every_setting_of_yarn_moves_the_frequencies(
    change: dict[str, Any], other: dict[str, Any]
) -> None:
    def table(section: dict[str, Any]) -> Any:
        _, scaling = RopeScaling.from_hf(Fields({"rope_scaling": section}, "c"), 4096)
        return inverse_frequencies(64, 5e5, scaling)

    assert np.abs(table({**YARN, **change}) / table({**YARN, **other}) - 1).max() > 0.01


def test_a_rotary_takes_the_longest_sequence_of_the_cache() -> None:
    rotary = Rotary(64, 1e4, RopeScaling("dynamic", 4.0, original_max_position=128))
    tables = {n: rotary.table("cpu", n).numpy() for n in (64, 128, 129, 512)}
    assert (tables[64] == tables[128]).all()
    assert (tables[129][1:] < tables[128][1:]).all() and (tables[512] < tables[129])[1:].all()
    fixed = Rotary(64, 1e4, RopeScaling("linear", 4.0))
    assert fixed.table("cpu", 64) is fixed.table("cpu", 512)


def test_factors_of_longrope_come_by_their_tensors() -> None:
    rotary = Rotary(64, 1e4, RopeScaling("longrope", original_max_position=128))
    rotary.set_factors(np.array(SHORT, np.float32), "rope_factors_short.weight")
    rotary.set_factors(np.array(LONG, np.float32), "rope_factors_long.weight")
    for length, factors in ((128, SHORT), (129, LONG)):
        expected = np.array(plain(64, 1e4)) / np.array(factors)
        np.testing.assert_allclose(rotary.table("cpu", length).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "factors", [np.ones(31), np.zeros(32), np.full(32, np.nan), np.full(32, np.inf)]
)
def test_bad_factors_are_refused_by_name(factors: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError, match=r"rope_freqs\.weight"):
        Rotary(64, 1e4).set_factors(factors.astype(np.float32), "rope_freqs.weight")
