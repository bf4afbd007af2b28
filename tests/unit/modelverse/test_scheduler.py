"""Batching decisions of the scheduler, over an engine that counts instead of computing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from clika_runtime.errors import ClikaRTError, InvalidArgumentError
from clika_runtime.modelverse.cache import KV, CacheConfig, KVCache
from clika_runtime.modelverse.engine import Sampling
from clika_runtime.modelverse.scheduler import Request, Scheduler


class CountingEngine:
    """Gives 100 + the number of tokens that the sequence holds, and keeps the steps."""

    def __init__(self, window: int = 64, sequences: int = 4, chunk: int = 8) -> None:
        self.cache = KVCache([KV(1, 4, 4)], CacheConfig(window, sequences, block_size=8))
        self.chunk = chunk
        self.lock = threading.RLock()
        self.steps: list[list[tuple[int, bool]]] = []
        self.fail_at = -1

    def step(self, work: Any) -> list[int]:
        if len(self.steps) == self.fail_at:
            raise ClikaRTError("the kernel failed", "INTERNAL")
        self.cache.prepare_step([w.sequence for w in work], [len(w.tokens) for w in work])
        self.steps.append([(len(w.tokens), w.sampling is not None) for w in work])
        return [100 + self.cache.length(w.sequence) for w in work if w.sampling is not None]


def request(length: int, limit: int = 5, stops: tuple[int, ...] = ()) -> Request:
    return Request(list(range(length)), Sampling(), limit, frozenset(stops))


def run(scheduler: Scheduler, *requests: Request) -> None:
    for item in requests:
        scheduler.submit(item)
    for item in requests:
        while not item.done:
            scheduler.advance(item, len(item.produced))


def test_a_long_prompt_goes_in_chunks_and_asks_once() -> None:
    engine = CountingEngine()
    item = request(19, limit=3)
    run(Scheduler(engine), item)
    assert engine.steps == [[(8, False)], [(8, False)], [(3, True)], [(1, True)], [(1, True)]]
    assert item.produced == [119, 120, 121]
    assert item.stop_reason == "length"
    assert engine.cache.free_sequences == 4
    assert engine.cache.free_blocks == engine.cache.config.num_blocks


def test_decodes_come_first_and_prompts_take_what_is_left() -> None:
    engine = CountingEngine()
    first, second = request(4, limit=4), request(20, limit=2)
    run(Scheduler(engine), first, second)
    assert engine.steps[0] == [(4, True), (4, False)]
    assert engine.steps[1] == [(1, True), (7, False)]
    assert engine.steps[2] == [(1, True), (7, False)]
    assert engine.steps[3] == [(1, True), (2, True)]
    assert first.produced == [104, 105, 106, 107]
    assert second.produced == [120, 121]


def test_more_requests_than_places_wait_their_turn() -> None:
    engine = CountingEngine(sequences=2)
    items = [request(3, limit=2) for _ in range(5)]
    run(Scheduler(engine), *items)
    assert [item.produced for item in items] == [[103, 104]] * 5
    assert max(len(step) for step in engine.steps) == 2


def test_a_stop_id_ends_the_reply_and_is_not_part_of_it() -> None:
    item = request(3, stops=(105,))
    run(Scheduler(CountingEngine()), item)
    assert item.produced == [103, 104]
    assert (item.stop_reason, item.stop_id) == ("stop", 105)


def test_the_window_ends_a_reply() -> None:
    item = request(10, limit=100)
    run(Scheduler(CountingEngine(window=16)), item)
    assert item.stop_reason == "window"
    assert len(item.tokens) + len(item.produced) == 16


def test_prompts_that_cannot_run_are_refused_with_both_numbers() -> None:
    scheduler = Scheduler(CountingEngine(window=16))
    with pytest.raises(InvalidArgumentError, match="no tokens"):
        scheduler.submit(request(0))
    with pytest.raises(InvalidArgumentError, match="17 tokens, the context window holds 16"):
        scheduler.submit(request(17))


def test_a_failed_step_ends_its_requests_and_frees_their_places() -> None:
    engine = CountingEngine(sequences=1)
    engine.fail_at = 1
    first, second = request(3), request(3, limit=1)
    scheduler = Scheduler(engine)
    scheduler.submit(first)
    scheduler.submit(second)
    with pytest.raises(ClikaRTError, match="the kernel failed"):
        scheduler.advance(first, 1)
    engine.fail_at = -1
    scheduler.advance(second, 0)
    assert second.produced == [103]
    assert engine.cache.free_blocks == engine.cache.config.num_blocks


def test_cancel_frees_the_place_of_a_waiting_and_of_a_running_request() -> None:
    engine = CountingEngine(sequences=1)
    scheduler = Scheduler(engine)
    running, waiting = request(3), request(3)
    scheduler.submit(running)
    scheduler.submit(waiting)
    scheduler.advance(running, 0)
    scheduler.cancel(waiting)
    scheduler.cancel(running)
    assert (running.stop_reason, waiting.stop_reason) == ("cancelled", "cancelled")
    assert engine.cache.free_sequences == 1
    assert engine.cache.free_blocks == engine.cache.config.num_blocks


def test_a_cancel_in_the_middle_of_a_step_is_cleared_away_by_the_next() -> None:
    engine = CountingEngine()
    scheduler = Scheduler(engine)
    first, second = request(3, limit=9), request(4, limit=3)
    scheduler.submit(first)
    scheduler.submit(second)
    scheduler.advance(first, 0)
    compute = engine.step

    def step(work: Any) -> list[int]:
        scheduler.cancel(first)
        return compute(work)

    engine.step = step  # type: ignore[method-assign]
    scheduler.advance(second, 1)
    assert first.produced == [103] and first.stop_reason == "cancelled"
    engine.step = compute  # type: ignore[method-assign]
    scheduler.advance(second, 2)
    assert second.produced == [104, 105, 106]
    assert engine.steps[-1] == [(1, True)]
    assert engine.cache.free_blocks == engine.cache.config.num_blocks


def test_threads_share_steps_and_each_gets_its_own_tokens() -> None:
    engine = CountingEngine(window=256, sequences=4)
    scheduler = Scheduler(engine)
    items = [request(3 + number, limit=40) for number in range(4)]
    for item in items:
        scheduler.submit(item)

    def wait(item: Request) -> None:
        while not item.done:
            scheduler.advance(item, len(item.produced))

    threads = [threading.Thread(target=wait, args=(item,)) for item in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for number, item in enumerate(items):
        assert item.produced == [103 + number + step for step in range(40)]
