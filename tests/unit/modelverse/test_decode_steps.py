"""Decode steps that go on are written by one native call, and are what they are without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clika_runtime._native._steps import DecodeRows
from clika_runtime.errors import ClikaRTError
from clika_runtime.modelverse.cache import CacheConfig, KVCache
from clika_runtime.modelverse.engine import Engine, Sampling, Work
from clika_runtime.modelverse.loader import load_model
from clika_runtime.modelverse.sampling import Choice
from tests.unit.modelverse import models

GREEDY = Sampling()
DRAWN = Sampling(0.9, seed=5)
LISTENS = Sampling(repetition_penalty=1.3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("model")
    models.write_model(folder, max_position_embeddings=64)
    return load_model(folder).model


def make(model: Any) -> Engine:
    config = CacheConfig(max_tokens=48, max_sequences=4, block_size=4)
    return Engine(model, KVCache(model.cache_specs(), config), chunk=16)


class Slow(Engine):
    """Every step the full way."""

    def step(self, work: Any) -> list[int]:
        self._again = None
        return super().step(work)


def slow(model: Any) -> Engine:
    return Slow(model, make(model).cache, chunk=16)


ROWS = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)
EVENTS = st.one_of(
    st.tuples(st.just("step"), ROWS, st.integers(1, 6), st.sampled_from("gdl")),
    st.tuples(st.just("prompt"), st.integers(0, 2), st.integers(1, 5)),
    st.tuples(st.just("truncate"), st.integers(0, 2), st.integers(1, 4)),
    st.tuples(st.just("fork"), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("snapshot"), st.integers(0, 2)),
    st.tuples(st.just("wrong"), ROWS),
)


def play(engine: Engine, events: list[Any]) -> list[Any]:
    """Everything that the engine tells while the events happen."""
    cache = engine.cache
    handles = [cache.add() for _ in range(3)]
    told: list[Any] = []
    for place, handle in enumerate(handles):
        told.append(engine.step([Work(handle, [7 + place, 9, 11], GREEDY)]))
    choices = [Choice(LISTENS, [1, 2]) for _ in handles]
    number = 0
    for kind, *values in events:
        try:
            if kind == "step":
                for _ in range(values[1]):
                    number += 1
                    work = []
                    for row in values[0]:
                        sampling = {"g": GREEDY, "d": DRAWN, "l": LISTENS}[values[2]]
                        choice = choices[row] if values[2] == "l" else None
                        tokens = [(13 * number + row) % 50 + 3]
                        work.append(Work(handles[row], tokens, sampling, number, choice))
                    told.append(engine.step(work))
            elif kind == "prompt":
                told.append(engine.step([Work(handles[values[0]], [5] * values[1], DRAWN)]))
            elif kind == "truncate":
                length = cache.length(handles[values[0]])
                cache.truncate(handles[values[0]], max(0, length - values[1]))
            elif kind == "fork" and values[0] != values[1]:
                cache.free(handles[values[0]])
                handles[values[0]] = cache.fork(handles[values[1]])
            elif kind == "snapshot":
                kept = cache.snapshot(handles[values[0]])
                cache.release(kept)
            elif kind == "wrong":
                engine.step([Work(handles[row], [1 << 40], GREEDY) for row in values[0]])
        except (ClikaRTError, OverflowError) as error:
            told.append(type(error).__name__)
        told.append([cache.length(handle) for handle in handles])
        told.append(cache.free_blocks)
    return told


@settings(deadline=None, max_examples=60)
@given(events=st.lists(EVENTS, max_size=12))
def test_every_order_of_events(model: Any, events: list[Any]) -> None:
    assert play(make(model), events) == play(slow(model), events)


def test_a_step_that_goes_on_is_one_native_call(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The full way is taken for a first step and where a block is full, 12 tokens of 4 here."""
    engine = make(model)
    full = []
    decode = engine._decode
    monkeypatch.setattr(engine, "_decode", lambda *args: full.append(1) or decode(*args))
    sequence = engine.cache.add()
    token = engine.step([Work(sequence, [4, 5, 6, 7], GREEDY)])[0]
    for number in range(12):
        token = engine.step([Work(sequence, [token], GREEDY, number)])[0]
    assert len(full) == 3
    # Other settings, and something that is carried, are other steps.
    engine.step([Work(sequence, [token], DRAWN, 12)])
    engine.step([Work(sequence, [token], LISTENS, 13, Choice(LISTENS, [1]))])
    assert len(full) == 5


def test_a_failed_step_that_went_on_is_taken_back(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, other = make(model), slow(model)
    for one in (engine, other):
        one.cache.add()
        one.step([Work(0, [4, 5, 6, 7], GREEDY)])
        one.step([Work(0, [8], GREEDY, 1)])
    again = engine._again
    assert again is not None
    with monkeypatch.context() as patched:
        patched.setattr(again, "_plan", None)
        with pytest.raises(AttributeError):
            engine.step([Work(0, [9], GREEDY, 2)])
    assert engine.cache.length(0) == 5
    for number in range(2, 9):
        work = [Work(0, [number], GREEDY, number)]
        assert engine.step(work) == other.step(work)


def test_work_is_checked() -> None:
    work = Work(3, [1], index=2)
    assert repr(work) == (
        "Work(sequence=3, tokens=[1], sampling=None, index=2, choice=None, draft=(), late=False)"
    )
    with pytest.raises(TypeError):
        Work(3, [1], index="second")  # type: ignore[arg-type]
    cache = KVCache([], CacheConfig(8, 2, block_size=4))
    arrays = cache.prepare_decode([cache.add(), cache.add()])
    few, more = np.zeros(1, np.int32), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="2 sequences needs as many rows"):
        DecodeRows(arrays, [GREEDY, GREEDY], few, more, 4, 8)
    with pytest.raises(ValueError, match="shorter"):
        type(arrays)(few, few, few, few, few, arrays.sequences, arrays.states)
    with pytest.raises(ValueError):
        arrays.lie_in(few, few, few)
    rows = DecodeRows(arrays, [GREEDY, GREEDY], np.zeros(2, np.int32), more, 4, 8)
    with pytest.raises(TypeError):
        rows.follow([None, None])  # type: ignore[list-item]
    assert not rows.follow([])
    assert rows.follow([Work(s, [4], GREEDY, 1) for s in arrays.sequences])
    assert cache.length(0) == 2 and arrays.kv_lens.tolist() == [2, 2]
