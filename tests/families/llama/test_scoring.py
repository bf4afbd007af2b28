"""Perplexity and vectors of texts against transformers: hidden states and losses of the same tiny
llama."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.embeddings import stated_pooling
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.scoring import log_probabilities
from tests.unit.modelverse import models

TEXT = "The quick brown fox jumps over the lazy dog; ça va, ไทย, 漢字.\n" * 3
TEXTS = ["a cat", "two dogs and a bird", "x", "The quick brown fox jumps over it"]
WINDOW = 64
# Float32 on both sides, sums in another order: as the logits' bound of the family.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scored")
    models.write_model(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> GenerativeModel:
    return load_generative(folder, max_sequences=3, prefill_chunk=16)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(folder).eval()


def losses(reference: Any, ids: list[int], window: int, stride: int) -> list[float]:
    """The cost of every token but the first, by the windows that transformers' guide for
    perplexity uses: each begins ``stride`` later and counts what lies behind the one before."""
    import torch

    found: list[float] = []
    seen = 1
    for begin in range(0, len(ids), stride):
        end = min(begin + window, len(ids))
        tokens = torch.tensor([ids[begin:end]])
        with torch.no_grad():
            scores = reference(tokens).logits[0].double().log_softmax(-1)
        found += [-float(scores[at - 1 - begin, ids[at]]) for at in range(seen, end)]
        seen = end
        if end == len(ids):
            break
    return found


@pytest.mark.parametrize(("window", "stride"), [(0, 0), (64, 63), (40, 7), (17, 1), (2, 1)])
def test_perplexity_equals_transformers(
    window: int, stride: int, model: GenerativeModel, reference: Any
) -> None:
    ids = model.tokenizer.encode(TEXT)
    found = model.perplexity(TEXT, window=window, stride=stride)
    assert (found.window, found.stride) == (window or WINDOW, stride or WINDOW // 2)
    want = losses(reference, ids, found.window, found.stride)
    assert found.scored == len(want) == len(ids) - 1
    assert found.nll == pytest.approx(sum(want), rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(sum(want) / len(want)), rel=1e-4)
    nbytes = len(TEXT.encode()) - 1  # the first byte is a token that nothing foretells
    assert (found.tokens, found.bytes) == (len(ids), nbytes)
    assert found.bits_per_byte == pytest.approx(sum(want) / math.log(2) / nbytes, rel=1e-5)
    assert found.bits_per_token == pytest.approx(sum(want) / math.log(2) / len(want), rel=1e-5)


def test_pieces_leave_no_trace(model: GenerativeModel) -> None:
    """Chunks, and where counting begins, do not change a token's log-probability."""
    ids = model.tokenizer.encode(TEXT)[:60]
    whole = log_probabilities(model, ids)
    assert np.array_equal(whole, model.score(ids))
    for first in (2, 17, 33, 59):
        assert np.array_equal(log_probabilities(model, ids, first), whole[first - 1 :])
    assert model.score(ids[:1]).shape == (0,)
    assert model.engine.cache.free_sequences == 3


def test_what_cannot_be_scored(model: GenerativeModel) -> None:
    for text in ("", "a"):
        with pytest.raises(InvalidArgumentError, match="takes two"):
            model.perplexity(text)
    for bad, word in (
        ({"window": 65}, "2 .. 64"),
        ({"window": 1}, "2 .. 64"),
        ({"window": 16, "stride": 16}, "at most 15"),
        ({"stride": -1}, "stride"),
        ({"window": True}, "window"),
        ({"stride": 1.5}, "stride"),
    ):
        with pytest.raises(InvalidArgumentError, match=word):
            model.perplexity(TEXT, **bad)  # type: ignore[arg-type]


# ---- vectors
def states(reference: Any, ids: list[int]) -> Any:
    import torch

    with torch.no_grad():
        return reference.model(torch.tensor([ids])).last_hidden_state[0].double().numpy()


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_vectors_equal_transformers(pooling: str, model: GenerativeModel, reference: Any) -> None:
    """Four texts in a cache for three, in chunks of 16 tokens."""
    rows = [states(reference, model.tokenizer.encode(text)) for text in TEXTS]
    want = np.stack([row.mean(axis=0) if pooling == "mean" else row[-1] for row in rows])
    raw = model.embed(TEXTS, pooling=pooling, normalize=False)
    assert raw.dtype == np.float32 and raw.shape == (4, 32)
    assert np.abs(raw - want).max() / np.abs(want).max() < TOLERANCE
    unit = want / np.linalg.norm(want, axis=1, keepdims=True)
    vectors = model.embed(TEXTS, pooling=pooling)
    assert np.abs(vectors - unit).max() < TOLERANCE
    cosines = model.similar(TEXTS, pooling=pooling)
    assert np.abs(cosines - unit @ unit.T).max() < TOLERANCE
    assert model.engine.cache.free_sequences == 3


def test_neighbours_leave_no_trace(model: GenerativeModel) -> None:
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    assert np.array_equal(model.embed(TEXTS), alone)
    assert np.array_equal(model.embed(TEXTS[::-1]), alone[::-1])


def test_the_checkpoint_states_the_pooling(folder: Path, tmp_path: Path) -> None:
    models.write_model(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    config = tmp_path / "1_Pooling" / "config.json"
    said = {"word_embedding_dimension": 32, "pooling_mode_lasttoken": True}
    config.write_text(json.dumps({**said, "pooling_mode_mean_tokens": False}))
    model = load_generative(tmp_path)
    assert model.embedder.pooling() == "last"
    assert np.array_equal(model.embed(TEXTS), model.embed(TEXTS, pooling="last"))
    assert not np.allclose(model.embed(TEXTS), model.embed(TEXTS, pooling="mean"))
    config.write_text(json.dumps({"pooling_mode_cls_token": True}))
    with pytest.raises(UnsupportedError, match="cls"):
        model.embed(TEXTS)
    assert model.embed(TEXTS, pooling="mean").shape == (4, 32)
    config.write_text(json.dumps({"pooling_mode_cls_token": 3}))
    with pytest.raises(InvalidArgumentError, match="1_Pooling"):
        model.embed(TEXTS)


@pytest.mark.parametrize(
    ("number", "name"), [(None, None), (0, None), (1, "mean"), (2, "cls"), (3, "last"), (9, "9")]
)
def test_a_gguf_states_the_pooling(number: int | None, name: str | None) -> None:
    class Stated:
        kind, architecture, where = "gguf", "qwen3", "m.gguf"
        config = {} if number is None else {"qwen3.pooling_type": number}

    assert stated_pooling(Stated()) == name  # type: ignore[arg-type]


def test_texts_that_have_no_vector(model: GenerativeModel) -> None:
    for texts in ([], "a text", [b"bytes"], [3], {"a": 1}):
        with pytest.raises(InvalidArgumentError):
            model.embed(texts)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="text 1 has 0 tokens"):
        model.embed(["a", ""])
    with pytest.raises(InvalidArgumentError, match="text 0 has 65 tokens"):
        model.embed(["a" * 65])
    with pytest.raises(InvalidArgumentError, match="pooling"):
        model.embed(["a"], pooling="max")
    assert model.engine.cache.free_sequences == 3
