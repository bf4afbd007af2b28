"""The real Gemma 3 270M (Q4_K_M: Q5_0, Q4_K, Q6_K and Q8_0 tensors) beside transformers' float32
model over its weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.families.bars import BARS, Reference

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("gemma3-270m"),  # one process holds the reference
]


@pytest.fixture(scope="module")
def reference(gemma3_gguf: Path) -> Reference:
    return Reference(gemma3_gguf, passages=3)


@pytest.mark.parametrize("mode", BARS)
def test_distributions_and_greedy_text(reference: Reference, mode: str) -> None:
    reference.check(mode, positions=300)
