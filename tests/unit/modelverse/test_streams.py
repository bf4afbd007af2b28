"""The surface of generation: options, streams and their cancellation, asynchronous callers,
batches, reports."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse.auto import TextGenerationPipeline
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from tests.unit.modelverse import models

PROMPT = "Once upon a time"
PLAIN: dict[str, Any] = {"max_new_tokens": 20, "temperature": 0.0, "stop_ids": ()}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    folder = tmp_path_factory.mktemp("model")
    models.write_model(folder, max_position_embeddings=128)
    return load_generative(folder, max_sequences=3)


# ---------------------------------------------------------------- options
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": "hot"}, "temperature must be in"),
        ({"temperature": True}, "temperature must be in"),
        ({"top_k": 1.5}, "top_k must be a whole number"),
        ({"typical_p": 1.1}, r"typical_p must be in 0 \.\. 1"),
        ({"top_n_sigma": -1}, "top_n_sigma must be in"),
        ({"xtc_probability": 2}, "xtc_probability must be in"),
        ({"xtc_threshold": -0.1}, "xtc_threshold must be in"),
        ({"repetition_penalty": 0}, "repetition_penalty must be in"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty must be in"),
        ({"frequency_penalty": float("nan")}, "frequency_penalty must be in"),
        ({"presence_penalty": 1e9}, "presence_penalty must be in"),
        ({"penalty_window": -1}, "penalty_window must be a whole number"),
        ({"dry_multiplier": -1}, "dry_multiplier must be in"),
        ({"dry_base": 0.5}, "dry_base must be in"),
        ({"dry_allowed_length": 0}, "dry_allowed_length must be"),
        ({"dry_sequence_breakers": [""]}, "dry_sequence_breakers: '' must be a string"),
        ({"dry_sequence_breakers": 3}, "dry_sequence_breakers: a string or a list"),
        ({"mirostat": 3}, r"mirostat must be 0 \(off\) or its version, 1 or 2"),
        ({"mirostat": 1.0}, "mirostat must be 0"),
        ({"mirostat": True}, "mirostat must be 0"),
        ({"mirostat_tau": -1}, "mirostat_tau must be in"),
        ({"mirostat_eta": 2}, "mirostat_eta must be in"),
        ({"top_logprobs": 21}, r"top_logprobs must be a whole number in 0 \.\. 20"),
        ({"logprobs": 3}, "logprobs must be True or False"),
        ({"truncate": "left"}, "truncate must be True or False"),
        ({"skip_special_tokens": 0}, "skip_special_tokens must be True or False"),
        ({"logit_bias": {999: 1.0}}, "logit_bias has token 999, outside the vocabulary of 261"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias has token -1"),
        ({"logit_bias": {"five": 1.0}}, "logit_bias takes token ids, got str 'five'"),
        ({"logit_bias": {5: "much"}}, "logit_bias of token 5 must be in"),
        ({"logit_bias": {5: float("nan")}}, "logit_bias of token 5 must be in"),
        ({"logit_bias": {5: float("inf")}}, "logit_bias of token 5 must be in"),
        ({"logit_bias": [5]}, "logit_bias maps tokens to numbers"),
        ({"logit_bias": 5}, "logit_bias must be a list, got int"),
        ({"logit_bias": dict.fromkeys(range(70000), 1.0)}, "logit_bias has more than 65536"),
        ({"banned_tokens": [261]}, "banned_tokens has token 261"),
        ({"banned_tokens": "abc"}, "banned_tokens must be a list, got str"),
        ({"banned_tokens": [1.5]}, "banned_tokens takes token ids"),
        ({"banned_tokens": range(70000)}, "banned_tokens has more than 65536"),
        ({"stop_ids": [999]}, "stop_ids has token 999"),
        ({"stop_ids": range(5000)}, "stop_ids has more than 4096"),
        ({"stop": ["a"] * 65}, "stop: more than 64 strings"),
        ({"stop": map(str, range(10**9))}, "stop: more than 64 strings"),
        ({"stop": b"x"}, "stop: a string or a list of strings is needed, got bytes"),
        ({"stop": "x" * 4097}, "must be a string of 1 to 4096 characters"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_options_are_refused_by_name(
    model: GenerativeModel, options: dict[str, Any], message: str
) -> None:
    for start in (model.stream_generate, lambda _, **more: model.generate_batch(["a"], **more)):
        with pytest.raises(InvalidArgumentError, match=message):
            start(PROMPT, **options)
    assert model.engine.cache.free_sequences == 3


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (b"bytes", "a text or a list of token ids, got bytes"),
        (None, "a text or a list of token ids, got NoneType"),
        (7, "a text or a list of token ids, got int"),
        ("half \udcff", "UTF-8"),
        ([1, "x"], "item 1 is str"),
    ],
)
def test_prompts_that_are_none(model: GenerativeModel, prompt: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        model.generate(prompt)


def test_prompts_as_arrays(model: GenerativeModel) -> None:
    ids = model.tokenizer.encode(PROMPT)
    text = model.generate(PROMPT, **PLAIN)
    assert model.generate(np.array(ids), **PLAIN) == text
    assert model.generate(tuple(ids), **PLAIN) == text


def test_knobs_without_effect_stand_in_the_report(model: GenerativeModel) -> None:
    def warnings(**options: Any) -> list[str]:
        with model.stream_generate(PROMPT, max_new_tokens=2, **options) as stream:
            list(stream)
        return stream.report.warnings

    assert warnings(temperature=0.0) == []
    assert warnings(temperature=1.0, top_p=0.5, seed=1) == []
    greedy = "the temperature is 0 (greedy)"
    assert warnings(top_p=0.5, mirostat=2) == [f"top_p, mirostat: no effect, {greedy}"]
    assert warnings(seed=3, top_k=None) == [f"seed: no effect, {greedy}"]
    told = warnings(temperature=1.0, mirostat=2, typical_p=0.5)
    assert told == ["typical_p: no effect, mirostat is on"]


# ---------------------------------------------------------------- prompts over the window
def test_a_long_prompt_is_cut_on_request(model: GenerativeModel) -> None:
    ids = [10 + number % 200 for number in range(300)]
    with pytest.raises(InvalidArgumentError, match="300 tokens, the context window holds 128"):
        model.generate(ids)
    stream = model.stream_generate(ids, truncate=True, **PLAIN)
    text = "".join(stream)
    assert text == model.generate(ids[-108:], **PLAIN)
    assert stream.report.warnings == [
        "the prompt has 300 tokens, the context window holds 128: 192 tokens at its start were "
        "left out"
    ]
    assert (stream.report.prompt_tokens, stream.report.stop_reason) == (108, "length")
    begun = [model.tokenizer.bos_id, *ids]
    assert model.tokenizer.bos_id is not None
    cut = model.stream_generate(begun, truncate=True, **PLAIN)
    assert "".join(cut) == model.generate([begun[0], *ids[-107:]], **PLAIN)
    # A prompt that fits is left alone, and a long reply leaves half of the window to the prompt.
    whole = model.stream_generate(ids[:120], truncate=True, **PLAIN)
    list(whole)
    assert (whole.report.prompt_tokens, whole.report.warnings) == (120, [])
    half = model.stream_generate(ids, truncate=True, max_new_tokens=500, stop_ids=())
    list(half)
    assert (half.report.prompt_tokens, half.report.stop_reason) == (64, "window")


# ---------------------------------------------------------------- text
def test_special_tokens_are_hidden_or_shown(model: GenerativeModel) -> None:
    special = model.tokenizer.token_to_id("<|im_start|>")
    options = {**PLAIN, "max_new_tokens": 3, "logit_bias": {special: 1000.0}}
    assert model.generate(PROMPT, **options) == ""
    assert model.generate(PROMPT, skip_special_tokens=False, **options) == "<|im_start|>" * 3
    shown = model.stream_generate(
        PROMPT, skip_special_tokens=False, stop=["start|><|im"], **options
    )
    assert "".join(shown) == "<|im_"
    assert shown.report.stop_reason == "stop_string"


def test_the_pieces_add_up_to_the_text(model: GenerativeModel) -> None:
    for seed in range(6):
        stream = model.stream_generate(
            PROMPT, temperature=3.0, seed=seed, max_new_tokens=60, stop=["a", "ef"]
        )
        pieces = list(stream)
        report = stream.report
        assert "".join(pieces) == report.text
        whole = model.tokenizer.decode(report.token_ids)
        assert whole.startswith(report.text)
        assert all(pieces) and "a" not in report.text and "ef" not in report.text
        if report.stop_reason != "stop_string":
            assert whole == report.text


# ---------------------------------------------------------------- cancellation
def test_no_token_follows_a_cancellation(model: GenerativeModel) -> None:
    stream = model.stream_generate(PROMPT, **{**PLAIN, "max_new_tokens": 100})
    next(stream)
    have = len(stream._request.produced)
    stream.close()
    assert list(stream) == []
    assert len(stream._request.produced) == have == stream.report.new_tokens
    assert stream.report.stop_reason == "cancelled"
    assert model.engine.cache.free_sequences == 3
    stream.close()


def test_cancelling_waits_for_no_step(model: GenerativeModel) -> None:
    """Another thread holds the engine: who cancels goes on at once, and the place comes back."""
    stream = model.stream_generate(PROMPT, **PLAIN)
    next(stream)
    held = threading.Event()
    free = threading.Event()

    def hold() -> None:
        with model.engine.lock:
            held.set()
            free.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    stream.close()
    assert stream.report.stop_reason == "cancelled"
    free.set()
    thread.join(30)
    assert model.generate(PROMPT, **PLAIN)
    assert model.engine.cache.free_sequences == 3


# ---------------------------------------------------------------- asynchronous callers
def test_async_iteration(model: GenerativeModel) -> None:
    prompts = ["one", "two is longer", "three", "four waits its turn", "five"]

    async def read(prompt: str) -> str:
        pieces = []
        async with model.stream_generate(prompt, **PLAIN) as stream:
            async for piece in stream:
                pieces.append(piece)
        assert stream.report.stop_reason == "length"
        return "".join(pieces)

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*map(read, prompts))

    expected = [model.generate(prompt, **PLAIN) for prompt in prompts]
    assert asyncio.run(all_of_them()) == expected


def test_the_loop_is_free_while_tokens_are_made(model: GenerativeModel) -> None:
    async def go() -> int:
        ticks = 0
        done = asyncio.Event()

        async def tick() -> None:
            nonlocal ticks
            while not done.is_set():
                ticks += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(tick())
        async for _ in model.stream_generate(PROMPT, **PLAIN):
            pass
        done.set()
        await beside
        return ticks

    assert asyncio.run(go()) > 20


def test_a_cancelled_task_cancels_its_reply(model: GenerativeModel) -> None:
    async def go() -> Any:
        stream = model.stream_generate(PROMPT, **{**PLAIN, "max_new_tokens": 110})
        first = asyncio.Event()

        async def read() -> None:
            async for _ in stream:
                first.set()

        task = asyncio.create_task(read())
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stream

    stream = asyncio.run(go())
    assert stream._request.stop_reason == "cancelled"
    assert len(stream._request.produced) < 110
    assert model.generate(PROMPT, **PLAIN)
    assert model.engine.cache.free_sequences == 3


def test_async_errors_are_those_of_the_request(model: GenerativeModel) -> None:
    class Nothing:
        def mask(self) -> Any:
            return np.zeros(9, np.int32)

        def accept(self, token: int) -> None:
            pass

    async def go() -> None:
        async for _ in model.stream_generate(PROMPT, mask=Nothing(), **PLAIN):
            pass

    with pytest.raises(InvalidArgumentError, match="constraint allows no token"):
        asyncio.run(go())


# ---------------------------------------------------------------- batches and reports
def test_conversations_in_a_batch(model: GenerativeModel) -> None:
    turns = [[{"role": "user", "content": text}] for text in ("Hi", "What?", "Go on", "And?")]
    reports = model.chat_batch(turns, **PLAIN)
    assert [report.text for report in reports] == [model.chat(turn, **PLAIN) for turn in turns]


def test_a_refused_prompt_runs_nothing(model: GenerativeModel) -> None:
    with pytest.raises(InvalidArgumentError, match="no tokens"):
        model.generate_batch(["a", "b", ""], **PLAIN)
    assert model.engine.cache.free_sequences == 3
    assert model.generate_batch([], **PLAIN) == []


def test_the_pipeline_runs_a_list_together(model: GenerativeModel) -> None:
    pipe = TextGenerationPipeline(model)
    prompts = ["ab", "cde", "f", "ghij"]
    steps = model.engine.step
    widths = []

    def step(work: Any) -> Any:
        widths.append(len(work))
        return steps(work)

    model.engine.step = step  # type: ignore[method-assign]
    try:
        found = pipe(prompts, return_full_text=False, **PLAIN)
    finally:
        model.engine.step = steps  # type: ignore[method-assign]
    assert max(widths) == 3
    assert found == [[{"generated_text": model.generate(text, **PLAIN)}] for text in prompts]
    turns = [[{"role": "user", "content": "Hi"}]]
    reply = model.chat(turns[0], **PLAIN)
    assert pipe(turns, **PLAIN) == [
        [{"generated_text": [*turns[0], {"role": "assistant", "content": reply}]}]
    ]


def test_a_report_adds_up(model: GenerativeModel) -> None:
    stream = model.stream_generate(PROMPT, **PLAIN)
    list(stream)
    report = stream.report
    assert report.total_tokens == report.prompt_tokens + 20
    assert report.cached_tokens == 0 and report.error is None
    assert 0 <= report.queue_seconds <= report.prefill_seconds
