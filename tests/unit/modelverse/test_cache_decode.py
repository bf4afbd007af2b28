"""``prepare_decode`` places tokens as ``prepare_step`` does, whatever was edited in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse.cache import KV, CacheConfig, KVCache

FIELDS = ("positions", "slots", "block_table", "cu_seqlens", "kv_lens")


def make() -> KVCache:
    return KVCache([KV(1, 4, 4)], CacheConfig(40, 4, block_size=4))


def same(a: Any, b: Any) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in FIELDS)


edits = st.one_of(
    st.tuples(st.just("decode"), st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True)),
    st.tuples(st.just("step"), st.integers(0, 3), st.integers(1, 6)),
    st.tuples(st.just("truncate"), st.integers(0, 3), st.integers(0, 40)),
    st.tuples(st.just("refork"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("snapshot"), st.integers(0, 3)),
    st.tuples(st.just("restore"), st.integers(0, 3)),
    st.tuples(st.just("rollback"), st.integers(0, 3)),
)


def apply(cache: KVCache, handles: list[int], kept: list[Any], edit: Any, fast: bool) -> Any:
    """Runs an edit; gives the arrays of a decode step, or what it was refused with."""
    kind, *values = edit
    try:
        if kind == "decode":
            sequences = [handles[index] for index in values[0]]
            if fast:
                return cache.prepare_decode(sequences)
            return cache.prepare_step(sequences, [1] * len(sequences))
        handle = handles[values[0]]
        if kind == "step":
            cache.prepare_step([handle], [values[1]])
        elif kind == "truncate":
            cache.truncate(handle, min(values[1], cache.length(handle)))
        elif kind == "refork":
            if values[0] != values[1]:
                cache.free(handle)
                handles[values[0]] = cache.fork(handles[values[1]])
        elif kind == "snapshot":
            kept.append(cache.snapshot(handle))
        elif kind == "restore" and kept:
            cache.restore(handle, kept[-1])
        elif kind == "rollback":
            place = cache.prepare_decode if fast else cache.prepare_step
            arrays = place([handle]) if fast else place([handle], [1])  # type: ignore[call-arg]
            cache.rollback(arrays)
    except InvalidArgumentError as error:
        return str(error).split("sequence")[-1]
    return None


@settings(deadline=None, max_examples=300)
@given(st.lists(edits, max_size=25))
def test_every_order_of_edits(order: list[Any]) -> None:
    fast, plain = make(), make()
    handles = [fast.add() for _ in range(4)], [plain.add() for _ in range(4)]
    kept: tuple[list[Any], list[Any]] = ([], [])
    for edit in order:
        # The pools are not made: copies of shared blocks have nothing to move.
        try:
            a = apply(fast, handles[0], kept[0], edit, True)
        except MemoryError:
            a = "full"
        try:
            b = apply(plain, handles[1], kept[1], edit, False)
        except MemoryError:
            b = "full"
        if a is None or isinstance(a, str):
            assert a == b
        else:
            assert same(a, b), edit
        assert fast.free_blocks == plain.free_blocks
        for mine, other in zip(*handles, strict=True):
            assert fast.length(mine) == plain.length(other)


def test_a_step_that_goes_on_keeps_its_arrays() -> None:
    cache = make()
    a, b = cache.add(), cache.add()
    cache.prepare_step([a, b], [5, 9])
    first = cache.prepare_decode([a, b])
    assert first.positions.tolist() == [5, 9]
    assert cache.prepare_decode([a, b]) is first
    assert first.positions.tolist() == [6, 10] and first.kv_lens.tolist() == [7, 11]
    assert cache.prepare_decode([a, b]) is first
    # The block of a is full now; another order is another step.
    assert cache.prepare_decode([a, b]) is not first
    assert cache.prepare_decode([b, a]).positions.tolist() == [13, 9]


def test_the_window_is_kept() -> None:
    cache = KVCache([KV(1, 4, 4)], CacheConfig(6, 1, block_size=16))
    sequence = cache.add()
    for length in range(6):
        assert cache.prepare_decode([sequence]).kv_lens.tolist() == [length + 1]
    with pytest.raises(InvalidArgumentError, match="1 more pass the window of 6"):
        cache.prepare_decode([sequence])
    assert cache.length(sequence) == 6
