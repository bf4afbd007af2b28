"""Prompts that begin as an earlier text take its rows: the same reply to the bit, less work."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import ClikaRTError, InternalError, InvalidArgumentError
from clika_runtime.modelverse.cache import KV, CacheConfig, KVCache
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.prefixes import LEAST, PrefixStore, common_length
from tests.unit.modelverse import models
from tests.unit.modelverse.test_sampling import KNOBS

LONG = "There was once a town by the sea, and in it a port, and in the port a ship; "
FREE: dict[str, Any] = {"max_new_tokens": 12, "temperature": 1.0, "seed": 3, "stop_ids": ()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    models.write_model(path, max_position_embeddings=512)
    return path


@pytest.fixture(scope="module")
def plain(folder: Path) -> GenerativeModel:
    """What nothing is shared in."""
    return load_generative(folder, max_sequences=4, prefix_cache=False)


def reply(model: GenerativeModel, prompt: Any = LONG, **options: Any) -> Any:
    stream = model.stream_generate(prompt, **{**FREE, "top_logprobs": 4, **options})
    list(stream)
    return stream.report


def same(told: Any, expected: Any) -> None:
    """Two reports of one reply; the log-probabilities say that the logits are the same bits."""
    for name in ("token_ids", "text", "stop_reason", "logprobs"):
        assert getattr(told, name) == getattr(expected, name), name


# ---------------------------------------------------------------- the store
def small(sequences: int = 2, layout: str = "paged", total: int | None = None) -> KVCache:
    config = CacheConfig(64, sequences, layout=layout, block_size=8, total_tokens=total)
    return KVCache([KV(1, 4, 4)], config)


def hold(cache: KVCache, tokens: list[int]) -> int:
    sequence = cache.add()
    cache.prepare_step([sequence], [len(tokens)])
    return sequence


def test_common_length() -> None:
    a = np.arange(40, dtype=np.int32)
    assert common_length(a, a) == 40
    assert common_length(a, a[:30]) == common_length(a[:30], a) == 30
    b = a.copy()
    b[35] = 0
    assert common_length(a, b) == 35
    b[LEAST - 1] = 0
    assert common_length(a, b) == 0
    assert common_length(a[: LEAST - 1], a) == common_length(a[:0], a[:0]) == 0


def test_the_longest_prefix_is_taken() -> None:
    cache = small(8)
    store = PrefixStore(cache)
    for tokens in ([*range(30)], [*range(20), 7, 7, 7], [9] * 40):
        sequence = hold(cache, tokens)
        store.keep(sequence, tokens)
        cache.free(sequence)
    taken = cache.add()
    assert store.take(taken, [*range(25), 99, 99]) == cache.length(taken) == 25
    # The last token of a prompt is computed: its row says what follows.
    whole = cache.add()
    assert store.take(whole, [*range(30)]) == cache.length(whole) == 29
    other = cache.add()
    assert store.take(other, [*range(20), 7, 7, 1]) == 22
    none = cache.add()
    assert store.take(none, [*range(1, 30)]) == cache.length(none) == 0
    assert store.take(none, [*range(LEAST)]) == 0


def test_a_longer_text_replaces_its_beginning() -> None:
    cache = small(8)
    store = PrefixStore(cache)
    first = hold(cache, [*range(20)])
    store.keep(first, [*range(20)])
    longer = hold(cache, [*range(33)])
    store.keep(longer, [*range(33)])
    assert len(store) == 1 and store.nbytes == 5 * 8 * 32
    store.keep(first, [*range(20)])
    assert len(store) == 1 and store.latest is not None and len(store.latest.tokens) == 33
    short = hold(cache, [1, 2, 3])
    store.keep(short, [1, 2, 3])
    assert len(store) == 1
    for sequence in (first, longer, short):
        cache.free(sequence)
    assert cache.free_blocks == cache.config.num_blocks - 5
    store.clear()
    assert cache.free_blocks == cache.config.num_blocks and store.latest is None


def test_the_oldest_goes_first_and_only_for_need() -> None:
    cache = small(3)  # 24 blocks
    store = PrefixStore(cache)
    texts = [[start] * 32 for start in range(6)]
    for text in texts:
        sequence = hold(cache, text)
        store.keep(sequence, text)
        cache.free(sequence)
    assert len(store) == 6 and cache.free_blocks == 0
    used = cache.add()
    assert store.take(used, [*texts[0], 9]) == 32  # now it is the newest
    cache.prepare_step([used], [8])  # one block: the second text goes
    assert len(store) == 5 and cache.free_blocks == 3
    assert [store.find(np.array(text, np.int32))[0] for text in texts] == [32, 0, 32, 32, 32, 32]
    for _ in range(2):
        cache.prepare_step([cache.add()], [64])
    assert cache.free_sequences == 0 and cache.length(used) == 40
    cache.reset()
    store.clear()
    assert cache.free_blocks == cache.config.num_blocks


def test_a_prefix_that_a_step_needs_the_room_of() -> None:
    """A continuous cache has one block: the prefix it is shared with gives it up."""
    cache = small(1, "continuous")
    store = PrefixStore(cache)
    sequence = hold(cache, [*range(30)])
    store.keep(sequence, [*range(30)])
    cache.free(sequence)
    again = cache.add()
    assert store.take(again, [*range(28), 5, 5]) == 28
    cache.prepare_step([again], [2])
    assert len(store) == 0 and cache.length(again) == 30


def test_two_that_share_a_block_take_one_more() -> None:
    cache = small(2, "continuous")
    first = hold(cache, [*range(20)])
    second = cache.fork(first)
    assert cache.free_blocks == 1 and cache.fits([first, second], [1, 1])
    cache.prepare_step([first, second], [1, 1])
    assert cache.free_blocks == 0 and cache.length(first) == cache.length(second) == 21
    third = small(3, total=64)
    first = hold(third, [*range(20)])
    kept = third.snapshot(first)
    second = third.fork(first)
    hold(third, [*range(32)])  # one block of eight is left
    assert third.free_blocks == 1 and not third.fits([first, second], [1, 1])
    third.release(kept)
    assert third.fits([first, second], [1, 1])


# ---------------------------------------------------------------- replies
@pytest.mark.parametrize("layout", ["paged", "continuous"])
@pytest.mark.parametrize("kv_dtype", [None, "bfloat16", "fp8"])
def test_turns_of_a_conversation(folder: Path, layout: str, kv_dtype: Any) -> None:
    load = {"kvcache": layout, "kv_dtype": kv_dtype}
    model = load_generative(folder, **load)
    fresh = load_generative(folder, prefix_cache=False, **load)
    turns: list[dict[str, str]] = []
    before = 0
    for question in ("What is a port?", "And what is a ship?", "Who sails it?"):
        turns.append({"role": "user", "content": question})
        streams = [one.stream_chat(turns, **FREE, top_logprobs=4) for one in (model, fresh)]
        for stream in streams:
            list(stream)
        told, expected = (stream.report for stream in streams)
        same(told, expected)
        assert expected.cached_tokens == 0
        assert told.cached_tokens >= before  # all of the turn before but its reply, at least
        before = told.prompt_tokens - len("assistant\n")
        turns.append({"role": "assistant", "content": told.text})
    assert before > 100 and len(model.prefixes or ()) >= 1


def test_every_knob_over_a_known_prompt(folder: Path, plain: GenerativeModel) -> None:
    model = load_generative(folder, max_sequences=4)
    for options in KNOBS:
        told = reply(model, **options)
        same(told, reply(plain, **options))
    assert told.cached_tokens == told.prompt_tokens - 1


def test_a_prompt_that_turns_off(folder: Path, plain: GenerativeModel) -> None:
    model = load_generative(folder, max_sequences=2, prefill_chunk=7)
    ids = model.tokenizer.encode(LONG * 3)
    reply(model, ids)
    for place in (200, 129, 128, 127, 64, 63, 17, 16, 15, 1):
        prompt = [*ids[:place], 77, *ids[place:220]]
        told = reply(model, prompt)
        same(told, reply(plain, prompt))
        assert told.cached_tokens >= (place if place >= LEAST else 0)
        assert told.cached_tokens < len(prompt)


def test_a_batch_computes_a_shared_beginning_once(folder: Path, plain: GenerativeModel) -> None:
    model = load_generative(folder, max_sequences=3)
    prompts = [LONG * 2 + ending for ending in ("a", "bc", "", "def", "gh")] + ["other text"]
    told = model.generate_batch(prompts, **FREE, top_logprobs=4)
    expected = plain.generate_batch(prompts, **FREE, top_logprobs=4)
    for one, other in zip(told, expected, strict=True):
        same(one, other)
    begun = len(LONG * 2)
    assert [report.cached_tokens for report in told] == [0, begun, begun - 1, begun, begun, 0]
    # The next batch finds all of it.
    again = model.generate_batch(prompts, **FREE)
    assert all(report.cached_tokens >= report.prompt_tokens - 1 for report in again[:5])


def test_one_that_joins_while_another_runs(folder: Path, plain: GenerativeModel) -> None:
    model = load_generative(folder, max_sequences=2)
    first = model.stream_generate(LONG, **FREE, top_logprobs=4)
    next(first)
    second = model.stream_generate(LONG + "more", **FREE, top_logprobs=4)
    list(second)
    list(first)
    same(first.report, reply(plain))
    same(second.report, reply(plain, LONG + "more"))
    assert second.report.cached_tokens == len(LONG)


def test_what_was_cancelled_may_be_taken(folder: Path, plain: GenerativeModel) -> None:
    model = load_generative(folder, max_sequences=2, prefill_chunk=16)
    stream = model.stream_generate(LONG * 2, **FREE)
    model.scheduler.step()  # 16 tokens of the prompt
    stream.close()
    told = reply(model, LONG * 2)
    same(told, reply(plain, LONG * 2))
    assert told.cached_tokens == 16
    stream = model.stream_generate(LONG + "x", **FREE)
    next(stream)
    stream.close()
    same(reply(model, LONG + "x"), reply(plain, LONG + "x"))


def test_what_failed_leaves_nothing(
    folder: Path, plain: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_generative(folder, max_sequences=2, prefill_chunk=32)
    engine = model.engine
    with monkeypatch.context() as patched:
        step = engine._mixed
        calls: list[int] = []

        def failing(work: Any, arrays: Any) -> Any:
            calls.append(len(work))
            if len(calls) == 2:
                raise InternalError("the kernel failed")
            return step(work, arrays)

        patched.setattr(engine, "_mixed", failing)
        with pytest.raises(InternalError):
            model.generate(LONG, **FREE)
    assert len(model.prefixes or ()) == 0
    assert engine.cache.free_blocks == engine.cache.config.num_blocks
    with monkeypatch.context() as patched:
        # Logits that are no numbers: the rows that they came from are not trusted.
        right = engine.step
        patched.setattr(engine, "step", lambda work: [-1 for _ in right(work)])
        with pytest.raises(ClikaRTError):
            model.generate(LONG, **FREE)
    assert len(model.prefixes or ()) == 0
    told = reply(model)
    same(told, reply(plain))
    assert told.cached_tokens == 0


def test_a_full_pool_lets_prefixes_go(folder: Path, plain: GenerativeModel) -> None:
    model = load_generative(folder, max_seq=128)
    fresh = load_generative(folder, max_seq=128, prefix_cache=False)
    for number in range(6):
        prompt = f"{number}" * 20 + LONG
        same(reply(model, prompt), reply(fresh, prompt))
        same(reply(model, prompt + "."), reply(fresh, prompt + "."))
    cache, store = model.engine.cache, model.prefixes
    assert store is not None and 0 < store.nbytes <= 128 * cache.nbytes_per_token
    # Who has a cache in common with generation finds room too.
    assert model.embed(["x" * 120]).shape == fresh.embed(["x" * 120]).shape
    np.testing.assert_array_equal(model.logits("y" * 128), fresh.logits("y" * 128))


def test_it_is_a_switch(plain: GenerativeModel, folder: Path) -> None:
    assert plain.prefixes is None
    assert reply(plain).cached_tokens == reply(plain).cached_tokens == 0
    with pytest.raises(InvalidArgumentError, match="prefix_cache must be True or False, got 1"):
        load_generative(folder, prefix_cache=1)


def test_drafts_over_known_prompts(folder: Path, plain: GenerativeModel) -> None:
    model = load_generative(folder, max_sequences=2)
    twin = load_generative(folder)
    for number in range(3):
        prompt = LONG + "then " * number
        for options in ({"prompt_lookup_num_tokens": 7}, {"assistant_model": twin}):
            told = reply(model, prompt, temperature=0.0, **options)
            same(told, reply(plain, prompt, temperature=0.0))
    assert told.cached_tokens == told.prompt_tokens - 1
    assert model._assistant(twin).prefixes.latest is not None  # type: ignore[union-attr]


@pytest.mark.parametrize("layout", ["paged", "continuous"])
def test_many_at_once(folder: Path, plain: GenerativeModel, layout: str) -> None:
    """Threads with prompts that share beginnings, drafts, cancelled streams and a small pool: every
    reply is the one that it is alone."""
    load = {"max_sequences": 3, "max_seq": 256, "prefill_chunk": 24, "kvcache": layout}
    model = load_generative(folder, **load)
    twin = load_generative(folder, max_seq=200)
    drawn = random.Random(11)
    prompts = [LONG[: drawn.randint(20, 70)] + "abc" * drawn.randint(0, 30) for _ in range(12)]
    ways: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"temperature": 1.0, "repetition_penalty": 1.2},
        {"temperature": 0.7, "top_k": 20, "seed": 8},
    ]
    extras: list[dict[str, Any]] = [
        {},
        {"prompt_lookup_num_tokens": 5},
        {"assistant_model": twin, "num_assistant_tokens": 3},
    ]
    alone = {
        (prompt, number): reply(plain, prompt, **way)
        for prompt in prompts
        for number, way in enumerate(ways)
    }
    wrong: list[Any] = []

    def work(seed: int) -> None:
        chosen = random.Random(seed)
        for _ in range(12):
            prompt, number = chosen.choice(prompts), chosen.randrange(3)
            options = {**FREE, "top_logprobs": 4, **ways[number], **chosen.choice(extras)}
            try:
                with model.stream_generate(prompt, **options) as stream:
                    if chosen.random() < 0.3:
                        next(stream)
                        continue
                    list(stream)
                same(stream.report, alone[prompt, number])
            except BaseException as error:
                wrong.append((prompt, options, error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
    assert model.engine.cache.free_sequences == 3
    (assistant,) = model._assistants.values()
    assert assistant.engine.cache.free_sequences == 3 and not assistant._drafts
    store = model.prefixes
    assert store is not None
    store.clear()
    assert model.engine.cache.free_blocks == model.engine.cache.config.num_blocks
