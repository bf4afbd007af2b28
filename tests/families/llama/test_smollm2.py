"""The real SmolLM2-135M-Instruct (Q4_1) beside transformers' float32 model over its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clika_runtime.modelverse.generation import load_generative
from tests.families.bars import BARS, measure

pytestmark = pytest.mark.xdist_group("smollm2")  # one process measures


@pytest.fixture(scope="module")
def measured(smollm2_gguf: Path) -> dict[str, dict[str, Any]]:
    return measure(smollm2_gguf)


@pytest.mark.parametrize("mode", BARS)
def test_distributions_and_greedy_text(measured: dict[str, dict[str, Any]], mode: str) -> None:
    BARS[mode].check(measured[mode], positions=500)


def test_the_chat_answer(smollm2_gguf: Path) -> None:
    model = load_generative(smollm2_gguf, max_seq=512)
    messages = [{"role": "user", "content": "Name the capital of France."}]
    assert "Paris" in model.chat(messages, temperature=0.0, max_new_tokens=24)
