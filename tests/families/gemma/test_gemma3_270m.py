"""The real Gemma 3 270M (Q4_K_M: Q5_0, Q4_K, Q6_K and Q8_0 tensors) beside transformers' float32
model over its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.families.bars import BARS, measure

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("gemma3-270m"),  # one process measures
]


@pytest.fixture(scope="module")
def measured(gemma3_gguf: Path) -> dict[str, dict[str, Any]]:
    return measure(gemma3_gguf, passages=3, prompts=3)


@pytest.mark.parametrize("mode", BARS)
def test_distributions_and_greedy_text(measured: dict[str, dict[str, Any]], mode: str) -> None:
    BARS[mode].check(measured[mode], positions=300)
