"""The real Qwen2.5-Coder 0.5B Instruct (Q4_K_M: Q5_0, Q4_K, Q6_K and Q8_0 tensors) beside
transformers' float32 model over its weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from clika_runtime.modelverse.generation import load_generative
from tests.families.bars import BARS, Reference

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("qwen-coder"),  # one process holds the reference
]


@pytest.fixture(scope="module")
def reference(qwen_coder_gguf: Path) -> Reference:
    return Reference(qwen_coder_gguf, passages=3)


@pytest.mark.parametrize("mode", BARS)
def test_distributions_and_greedy_text(reference: Reference, mode: str) -> None:
    reference.check(mode, positions=300)


def test_the_chat_answer(qwen_coder_gguf: Path) -> None:
    model = load_generative(qwen_coder_gguf, max_seq=512)
    messages = [{"role": "user", "content": "Name the capital of France."}]
    assert "Paris" in model.chat(messages, temperature=0.0, max_new_tokens=24)
