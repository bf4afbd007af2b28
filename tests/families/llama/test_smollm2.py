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


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="asks Linux for its pages")
def test_a_loaded_model_keeps_no_pages_of_its_file(smollm2_gguf: Path) -> None:
    """Its matrices are packed and its vectors copied; one byte that is read of a file may map a
    megabyte."""
    model = load_generative(smollm2_gguf, max_seq=512)
    model.engine.logits([1, 2, 3])
    resident = 0
    mapped = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first and not first.endswith(":"):
            mapped = rest[-1] == str(smollm2_gguf.resolve())
        elif first == "Rss:" and mapped:
            resident += int(rest[0])
    assert resident <= 1024, f"{resident} KiB of the file are resident"
