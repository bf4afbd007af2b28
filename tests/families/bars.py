"""What a real checkpoint must show beside transformers' float32 model over its weights: how far
distributions may be apart, and where greedy text may part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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


@dataclass(frozen=True)
class Bars:
    """``kl``: mean divergence in nats. ``top1``: agreement of the best token. ``flip``: the largest
    gap between the reference's two best at which ours may prefer another. ``tie``: greedy text must
    be equal up to the first place where the reference's two best are closer than this."""

    kl: float
    top1: float
    flip: float
    tie: float


# The exact path differs from the reference by float32 rounding alone. The fast path rounds
# activations, as every integer runtime does.
BARS = {"exact": Bars(1e-6, 0.999, 1e-3, 1e-3), "fast": Bars(0.01, 0.96, 0.3, 0.3)}


class Reference:
    """Transformers' model of a GGUF file and its logits over a few passages of plain English."""

    def __init__(self, path: Path, passages: int = len(PASSAGES)) -> None:
        from clika_runtime.tokenizer import Tokenizer

        self.path = path
        self.model = reference_model(path)
        tokenizer = Tokenizer.from_gguf(path)
        self.texts = [tokenizer.encode(text) for text in PASSAGES[:passages]]
        self.prompts = [tokenizer.encode(text) for text in PROMPTS]
        self.logits = [reference_logits(self.model, ids) for ids in self.texts]

    def check(self, mode: str, positions: int, tokens: int = 24) -> dict[str, float]:
        """Raises ``AssertionError`` where our model over the same file misses a bar."""
        bars = BARS[mode]
        model = load_generative(self.path, mode=mode, max_seq=512)
        ours = [model.logits(ids) for ids in self.texts]
        found = compare(np.concatenate(self.logits), np.concatenate(ours))
        assert found["positions"] >= positions, found
        assert found["kl"] <= bars.kl, found
        assert found["top1"] >= bars.top1, found
        assert found["largest_flipped_gap"] <= bars.flip, found
        for ids in self.prompts:
            agreement = greedy_agreement(self.model, ids, _reply(model, ids, tokens), bars.tie)
            assert agreement["equal"], (ids, agreement)
        return found


def _reply(model: Any, ids: list[int], count: int) -> list[int]:
    engine = model.engine
    sequence = engine.cache.add()
    tokens = list(engine.step([Work(sequence, ids, Sampling())]))
    while len(tokens) < count:
        tokens += engine.step([Work(sequence, tokens[-1:], Sampling(), len(tokens))])
    engine.cache.free(sequence)
    return tokens
