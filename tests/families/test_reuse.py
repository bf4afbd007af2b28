"""Prefixes, drafts and sessions over real models: the same bits with and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.speculation import Pace

# Models and how many lines they get, which a reply may copy: Gemma's are longer than the windows of
# its sliding layers (512).
NAMES = {"smollm2": 24, "gemma3": 44, "qwen_coder": 12}


def prompt_of(lines: int) -> str:
    text = "".join(f"{n}. The ship number {n} lies in port {n % 7}.\n" for n in range(lines))
    return f"{text}\nThe same list again:\n{text[:90]}"


def reply(model: GenerativeModel, prompt: Any, **options: Any) -> Any:
    asked = {"max_new_tokens": 32, "top_logprobs": 2, "seed": 4, **options}
    stream = model.stream_generate(prompt, **asked)
    list(stream)
    return stream.report


def same(told: Any, expected: Any) -> None:
    assert told.token_ids == expected.token_ids
    assert told.logprobs == expected.logprobs
    assert (told.text, told.stop_reason) == (expected.text, expected.stop_reason)


@pytest.mark.parametrize("name", NAMES)
def test_replies_are_the_same(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    begun = prompt_of(NAMES[name])
    path = request.getfixturevalue(f"{name}_gguf")
    options = {"max_seq": 2048, "prefill_chunk": 256}
    model = load_generative(path, **options)
    fresh = load_generative(path, **options, prefix_cache=False)
    accepted = 0
    for way in ({"temperature": 0.0}, {"temperature": 0.7, "top_p": 0.9}):
        first = reply(fresh, begun, **way)
        told = reply(model, begun, **way, prompt_lookup_num_tokens=7)
        same(told, first)
        accepted += told.accepted_tokens
        prompt = f"{begun}{first.text}\nAnd then:\n"
        second = reply(fresh, prompt, **way)
        told = reply(model, prompt, **way, prompt_lookup_num_tokens=7)
        same(told, second)
        accepted += told.accepted_tokens
        assert told.cached_tokens > first.prompt_tokens - 8
    assert accepted > 10
    model.save_session(tmp_path / "talk.safetensors")
    other = load_generative(path, **options)
    other.load_session(tmp_path / "talk.safetensors")
    told = reply(other, prompt, **way)
    same(told, second)
    assert told.cached_tokens == told.prompt_tokens - 1


def test_a_small_model_drafts_for_a_wider_one(
    smollm2_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SmolLM2 before a llama of its tokenizer with random weights, which it cannot foresee; and
    before itself."""
    pytest.importorskip("gguf")
    from benchmarks.checkpoints import random_model

    monkeypatch.setattr(Pace, "best", lambda self, sequences, rate, most, each=0.0: most)
    random_model(smollm2_gguf, tmp_path / "wide.gguf", 640, 1024)
    wide = load_generative(tmp_path / "wide.gguf", max_seq=512, max_sequences=2)
    small = load_generative(smollm2_gguf, max_seq=512)
    assert wide.config.hidden_size > small.config.hidden_size
    for way in ({"temperature": 0.0}, {"temperature": 1.0, "repetition_penalty": 1.1}):
        for model, right in ((wide, False), (small, True)):
            plain = reply(model, "Once upon a time", **way)
            told = reply(model, "Once upon a time", **way, assistant_model=small)
            same(told, plain)
            assert told.drafted_tokens > 20
            assert (told.accepted_tokens > 10) == right
