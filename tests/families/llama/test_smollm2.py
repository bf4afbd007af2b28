"""The real SmolLM2-135M-Instruct (Q4_1) beside transformers' float32 model over its weights.

Tolerances: the exact path differs from the reference by float32 rounding alone, so its divergence
is far under 1e-6; the fast path rounds some activations to 8 bits like every integer runtime, whose
own divergence on this file is 0.003.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.modelverse.engine import Sampling, Work
from clika_runtime.modelverse.generation import load_generative
from tests.oracles.gguf_decoder import (
    PASSAGES,
    PROMPTS,
    compare,
    greedy_agreement,
    reference_logits,
    reference_model,
)

pytestmark = pytest.mark.xdist_group("smollm2")  # one process holds the reference


@pytest.fixture(scope="module")
def reference(smollm2_gguf: Path) -> Any:
    return reference_model(smollm2_gguf)


@pytest.fixture(scope="module")
def wanted(smollm2_gguf: Path, reference: Any) -> tuple[list[list[int]], Any]:
    from clika_runtime.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    texts = [tokenizer.encode(text) for text in PASSAGES]
    return texts, np.concatenate([reference_logits(reference, ids) for ids in texts])


def reply(model: Any, ids: list[int], count: int) -> list[int]:
    engine = model.engine
    sequence = engine.cache.add()
    tokens = list(engine.step([Work(sequence, ids, Sampling())]))
    while len(tokens) < count:
        tokens += engine.step([Work(sequence, tokens[-1:], Sampling(), len(tokens))])
    engine.cache.free(sequence)
    return tokens


@pytest.mark.parametrize(
    ("mode", "kl", "top1", "flip", "gap"),
    [("exact", 1e-6, 0.999, 1e-3, 1e-3), ("fast", 0.01, 0.96, 0.3, 0.3)],
)
def test_distributions_and_greedy_text(
    smollm2_gguf: Path,
    reference: Any,
    wanted: tuple[list[list[int]], Any],
    mode: str,
    kl: float,
    top1: float,
    flip: float,
    gap: float,
) -> None:
    texts, expected = wanted
    model = load_generative(smollm2_gguf, mode=mode, max_seq=512)
    found = compare(expected, np.concatenate([model.logits(ids) for ids in texts]))
    assert found["positions"] >= 500
    assert found["kl"] <= kl, found
    assert found["top1"] >= top1, found
    assert found["largest_flipped_gap"] <= flip, found
    for prompt in PROMPTS:
        ids = model.tokenizer.encode(prompt)
        agreement = greedy_agreement(reference, ids, reply(model, ids, 24), gap)
        assert agreement["equal"], (prompt, agreement)


def test_the_chat_answer(smollm2_gguf: Path) -> None:
    model = load_generative(smollm2_gguf, max_seq=512)
    messages = [{"role": "user", "content": "Name the capital of France."}]
    assert "Paris" in model.chat(messages, temperature=0.0, max_new_tokens=24)
