"""What a real checkpoint must show beside transformers' float32 model over its weights: how far
distributions may be apart, and where greedy text may part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clika_runtime.modelverse.engine import Sampling, Work
from clika_runtime.modelverse.generation import load_generative
from tests.oracles.gguf_decoder import (
    PASSAGES,
    PROMPTS,
    compare_texts,
    greedy_agreement,
    reference_logits,
    reference_model,
)

REPLY = 24  # tokens


@dataclass(frozen=True)
class Bars:
    """``kl``: mean divergence in nats. ``top1``: agreement of the best token. ``flip``: the largest
    gap between the reference's two best at which ours may prefer another. ``tie``: greedy text must
    be equal up to the first place where the reference's two best are closer than this."""

    kl: float
    top1: float
    flip: float
    tie: float

    def check(self, found: dict[str, Any], positions: int) -> None:
        """Raises ``AssertionError`` where a measurement over so many positions misses a bar."""
        assert found["positions"] >= positions, found
        assert found["kl"] <= self.kl, found
        assert found["top1"] >= self.top1, found
        assert found["largest_flipped_gap"] <= self.flip, found
        assert all(agreement["equal"] for agreement in found["greedy"]), found


# The exact path differs from the reference by float32 rounding alone. The fast path rounds
# activations, as every integer runtime does.
BARS = {"exact": Bars(1e-6, 0.999, 1e-3, 1e-3), "fast": Bars(0.01, 0.96, 0.3, 0.3)}


def measure(
    path: Path, passages: int = len(PASSAGES), prompts: int = len(PROMPTS)
) -> dict[str, dict[str, Any]]:
    """Per mode: our distributions over passages of plain English and our greedy replies, beside the
    reference's. One model is in memory at a time: the reference takes more than everything else."""
    texts, starts, ours = [], [], {}
    for mode in BARS:
        model = load_generative(path, mode=mode, max_seq=512)
        texts = [model.tokenizer.encode(text) for text in PASSAGES[:passages]]
        starts = [model.tokenizer.encode(text) for text in PROMPTS[:prompts]]
        logits = [model.logits(ids) for ids in texts]
        ours[mode] = (logits, [_reply(model, ids) for ids in starts])
        del model
    reference = reference_model(path)
    expected = [reference_logits(reference, ids) for ids in texts]
    greedy = {
        mode: [
            greedy_agreement(reference, ids, reply, BARS[mode].tie)
            for ids, reply in zip(starts, replies, strict=True)
        ]
        for mode, (_, replies) in ours.items()
    }
    del reference
    return {
        mode: {**compare_texts(zip(expected, logits, strict=True)), "greedy": greedy[mode]}
        for mode, (logits, _) in ours.items()
    }


def _reply(model: Any, ids: list[int]) -> list[int]:
    engine = model.engine
    sequence = engine.cache.add()
    tokens = list(engine.step([Work(sequence, ids, Sampling())]))
    while len(tokens) < REPLY:
        tokens += engine.step([Work(sequence, tokens[-1:], Sampling(), len(tokens))])
    engine.cache.free(sequence)
    return tokens
