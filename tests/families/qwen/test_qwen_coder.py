"""The real Qwen2.5-Coder 0.5B Instruct (Q4_K_M: Q5_0, Q4_K, Q6_K and Q8_0 tensors) beside
transformers' float32 model over its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clika_runtime.modelverse.generation import load_generative
from tests.families.bars import BARS, measure

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("qwen-coder"),  # one process measures
]


@pytest.fixture(scope="module")
def measured(qwen_coder_gguf: Path) -> dict[str, dict[str, Any]]:
    return measure(qwen_coder_gguf, passages=2, prompts=3)


@pytest.mark.parametrize("mode", BARS)
def test_distributions_and_greedy_text(measured: dict[str, dict[str, Any]], mode: str) -> None:
    BARS[mode].check(measured[mode], positions=200)


def test_the_chat_answer(qwen_coder_gguf: Path) -> None:
    model = load_generative(qwen_coder_gguf, max_seq=512)
    messages = [{"role": "user", "content": "Name the capital of France."}]
    assert "Paris" in model.chat(messages, temperature=0.0, max_new_tokens=24)
