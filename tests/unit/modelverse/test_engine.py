"""The engine: one native call per step, few plans, and a cache that a failed step leaves alone."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from clika_runtime._native._core import dispatch_counters
from clika_runtime.errors import ClikaRTError, InvalidArgumentError
from clika_runtime.modelverse.cache import CacheConfig, KVCache
from clika_runtime.modelverse.engine import Engine, Sampling, Work
from clika_runtime.modelverse.loader import load_model
from tests.unit.modelverse import models

GREEDY = Sampling()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("model")
    models.write_model(folder, max_position_embeddings=1024)
    return load_model(folder).model


def make(model: Any, chunk: int = 32, **cache: Any) -> Engine:
    settings = {"max_tokens": 1024, "max_sequences": 8, "block_size": 16, **cache}
    return Engine(model, KVCache(model.cache_specs(), CacheConfig(**settings)), chunk=chunk)


def greedy(engine: Engine, ids: list[int], count: int) -> list[int]:
    sequence = engine.cache.add()
    token = engine.step([Work(sequence, ids, GREEDY)])[0]
    result = [token]
    while len(result) < count:
        token = engine.step([Work(sequence, [token], GREEDY, len(result))])[0]
        result.append(token)
    engine.cache.free(sequence)
    return result


def test_greedy_steps_follow_the_logits(model: Any) -> None:
    engine = make(model)
    ids = list(range(20, 40))
    reply = greedy(engine, ids, 12)
    rows = engine.logits(ids + reply)
    assert [int(row.argmax()) for row in rows[len(ids) - 1 : -1]] == reply


def test_a_fill_then_a_sample_equals_one_step(model: Any) -> None:
    engine = make(model)
    ids = list(range(20, 50))
    whole = greedy(engine, ids, 5)
    sequence = engine.cache.add()
    assert engine.step([Work(sequence, ids[:11])]) == []
    assert engine.step([Work(sequence, ids[11:], GREEDY)]) == whole[:1]


def test_mixed_steps_give_ids_in_order(model: Any) -> None:
    engine = make(model)
    prompts = [list(range(10, 30)), list(range(50, 55)), list(range(90, 97))]
    alone = [greedy(engine, ids, 3) for ids in prompts]
    a, b, c = (engine.cache.add() for _ in prompts)
    first = engine.step([Work(a, prompts[0], GREEDY)])
    mixed = engine.step(
        [Work(a, first, GREEDY, 1), Work(b, prompts[1]), Work(c, prompts[2], GREEDY)]
    )
    assert [*first, mixed[0]] == alone[0][:2]
    assert mixed[1] == alone[2][0]
    # Sequences that decode together, in another order than they came.
    last = engine.step([Work(c, mixed[1:], GREEDY, 1), Work(a, mixed[:1], GREEDY, 2)])
    assert last == [alone[2][1], alone[0][2]]


def test_sampling_is_a_function_of_seed_and_index(model: Any) -> None:
    engine = make(model)
    ids = list(range(20, 40))

    def draw(seed: int, index: int, **more: Any) -> int:
        sequence = engine.cache.add()
        token = engine.step([Work(sequence, ids, Sampling(1.0, seed=seed, **more), index)])[0]
        engine.cache.free(sequence)
        return token

    draws = {(seed, index): draw(seed, index) for seed in range(4) for index in range(4)}
    assert len(set(draws.values())) > 3
    assert all(draw(seed, index) == token for (seed, index), token in draws.items())
    best = int(engine.logits(ids)[-1].argmax())
    assert draw(3, 1, top_k=1) == best
    assert draw(3, 1, top_p=1e-6) == best
    assert draw(3, 1, min_p=1.0) == best


def test_decoding_needs_no_new_plan_and_one_native_call_per_token(model: Any) -> None:
    engine = make(model)
    sequence = engine.cache.add()
    token = engine.step([Work(sequence, list(range(10, 30)), GREEDY)])[0]
    for number in range(2):
        token = engine.step([Work(sequence, [token], GREEDY, number)])[0]
    compiled = engine.compiled
    before = dispatch_counters()
    runs = engine.plan("decode", 1, 1).stats()["runs"]
    for number in range(500):
        token = engine.step([Work(sequence, [token], GREEDY, number)])[0]
    after = dispatch_counters()
    assert engine.compiled == compiled == 2
    assert engine.plan("decode", 1, 1).stats()["runs"] - runs == 500
    for name in ("hits", "misses", "inline_calls", "queued_calls"):
        assert after[name] == before[name], name


def test_a_decode_step_runs_few_python_frames(model: Any) -> None:
    engine = make(model)
    sequence = engine.cache.add()
    token = engine.step([Work(sequence, list(range(10, 30)), GREEDY)])[0]
    for number in range(3):
        token = engine.step([Work(sequence, [token], GREEDY, number)])[0]
    frames = []

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            frames.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        engine.step([Work(sequence, [token], GREEDY, 3)])
    finally:
        sys.setprofile(None)
    # A bound that no loop over layers or operators would keep: the model has two layers.
    assert len(frames) <= 40, frames


def test_plans_are_bounded_and_classes_are_few(model: Any) -> None:
    engine = make(model)
    for length in (1, 2, 5, 17, 31, 32):
        engine.logits(list(range(10, 10 + length)))
    assert engine.compiled == 1
    small = Engine(model, KVCache(model.cache_specs(), CacheConfig(64, 8)), chunk=8, max_plans=2)
    for kind, batch in (("fill", 1), ("logits", 1), ("fill", 2), ("logits", 2), ("fill", 1)):
        small.plan(kind, 4, batch)
    assert small.compiled == 5
    assert len(small.plans) == 2


def test_results_do_not_depend_on_the_class(model: Any) -> None:
    ids = list(range(10, 40))
    one = make(model, chunk=8).logits(ids)
    other = make(model, chunk=64).logits(ids)
    assert (one.view(np.uint32) == other.view(np.uint32)).all()


def test_a_failed_step_leaves_the_cache_as_it_was(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make(model)
    sequence = engine.cache.add()
    ids = list(range(10, 30))
    engine.step([Work(sequence, ids)])
    free = engine.cache.free_blocks

    def fail(*arguments: Any) -> Any:
        raise ClikaRTError("no plan", "INTERNAL")

    monkeypatch.setattr(engine, "plan", fail)
    for work in (Work(sequence, [5] * 40, GREEDY), Work(sequence, [5], GREEDY)):
        with pytest.raises(ClikaRTError, match="no plan"):
            engine.step([work])
    with pytest.raises(ClikaRTError, match="no plan"):
        engine.extend([sequence], [[5, 6]])
    assert engine.cache.length(sequence) == len(ids)
    assert engine.cache.free_blocks == free


def test_token_ids_outside_the_vocabulary_fail_as_a_typed_error(model: Any) -> None:
    engine = make(model)
    sequence = engine.cache.add()
    with pytest.raises(ClikaRTError):
        engine.step([Work(sequence, [10**6], GREEDY)])
    assert engine.cache.length(sequence) == 0
    # The engine goes on, and what stood in the cache before is still right.
    expected = greedy(engine, [10, 11, 12], 4)
    other = engine.cache.add()
    engine.step([Work(other, [10, 11])])
    with pytest.raises(ClikaRTError):
        engine.step([Work(other, [12, 10**6], GREEDY)])
    assert engine.step([Work(other, [12], GREEDY)]) == expected[:1]


def test_scoring_takes_a_place_and_gives_it_back(model: Any) -> None:
    engine = make(model, max_sequences=1)
    engine.logits([10, 11, 12])
    engine.cache.add()
    with pytest.raises(InvalidArgumentError, match=r"holds 1 sequence\(s\), at most 1"):
        engine.logits([10, 11, 12])
