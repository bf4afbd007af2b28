"""Bookkeeping of the paged cache: who owns which block, where new tokens go, what edits keep."""

from __future__ import annotations

import random

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError
from clika_runtime.modelverse.cache import KV, CacheConfig, Conv, KVCache, StepArrays

SPECS = [KV(2, 8, 8), KV(2, 8, 4)]


def make(**options: object) -> KVCache:
    settings: dict[str, object] = {"max_tokens": 40, "max_sequences": 4, "block_size": 8, **options}
    return KVCache(SPECS, CacheConfig(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "name", "width", "row"),
    [
        (None, "float32", 64, 256),
        ("bfloat16", "bfloat16", 64, 128),
        (crt.float16, "float16", 64, 128),
        ("q8_0", "q8_0", 68, 68),
        ("fp8", "fp8", 64, 64),
        ("float8_e4m3", "fp8", 64, 64),
    ],
)
def test_the_bytes_of_a_row(form: object, name: str, width: int, row: int) -> None:
    specs = [KV(2, 64, 64), KV(2, 64, 64)]
    cache = KVCache(specs, CacheConfig(40, block_size=8, dtype=form))
    assert (cache.rows.name, cache.nbytes_per_token) == (name, 2 * 2 * 2 * row)
    for keys, values in cache.pools:
        assert keys.shape == values.shape == (5, 8, 2, width)
        assert keys.nbytes == 40 * 2 * row


@pytest.mark.parametrize("form", ["int8", "q4_0", "", "x" * 1000, crt.float64, 8])
def test_a_form_that_is_none_is_refused(form: object) -> None:
    with pytest.raises(UnsupportedError, match=r"one of float32, .*, q8_0, fp8") as caught:
        KVCache(SPECS, CacheConfig(40, dtype=form))
    assert caught.value.code_name == "NOT_IMPLEMENTED_FOR_DTYPE" and len(str(caught.value)) < 300


@pytest.mark.parametrize("spec", [KV(2, 80, 64), KV(2, 64, 80), KV(1, 8, 8)])
def test_q8_0_needs_whole_blocks(spec: KV) -> None:
    with pytest.raises(UnsupportedError, match=r"heads of (80|8); choose fp8 or") as caught:
        KVCache([spec], CacheConfig(40, dtype="q8_0"))
    assert caught.value.code_name == "NOT_IMPLEMENTED_FOR_PARAM"
    assert KVCache([spec], CacheConfig(40, dtype="fp8")).nbytes_per_token


@pytest.mark.parametrize("form", ["float32", "bfloat16", "float16", "q8_0", "fp8"])
def test_a_shared_block_is_copied_as_it_lies(form: str) -> None:
    """Also what no number is: a copy through numbers would change such rows."""
    cache = KVCache([KV(2, 32, 64)], CacheConfig(16, 2, block_size=8, dtype=form))
    first = cache.add()
    cache.prepare_step([first], [5])
    rng = np.random.default_rng(3)
    before = []
    for pool in cache.pools[0]:
        data = rng.integers(0, 256, pool.nbytes, np.uint8).tobytes()
        crt.copy_(pool, crt.Tensor.from_bytes(data, pool.shape, pool.dtype))
        before.append(data)
    block = cache._sequences[first].blocks[0]
    twin = cache.fork(first)
    cache.prepare_step([twin], [1])
    other = cache._sequences[twin].blocks[0]
    assert other != block
    for pool, data in zip(cache.pools[0], before, strict=True):
        now = pool.bytes()
        size = pool.nbytes // pool.shape[0]
        used = size * 5 // 8
        kept = data[block * size : block * size + used]
        assert now[block * size : block * size + used] == kept
        assert now[other * size : other * size + used] == kept
        rest = slice(other * size + used, (other + 1) * size)
        assert now[rest] == data[rest]


def slots_of(cache: KVCache, arrays: StepArrays, row: int, positions: range) -> list[int]:
    size = cache.block_size
    table = arrays.block_table[row]
    return [int(table[p // size]) * size + p % size for p in positions]


def test_a_step_says_where_every_new_token_goes() -> None:
    cache = make()
    a, b = cache.add(), cache.add()
    first = cache.prepare_step([a, b], [11, 3])
    assert first.positions.tolist() == [*range(11), *range(3)]
    assert first.cu_seqlens.tolist() == [0, 11, 14]
    assert first.kv_lens.tolist() == [11, 3]
    assert first.block_table.shape == (2, 2)
    assert first.slots.tolist()[:11] == slots_of(cache, first, 0, range(11))
    assert first.slots.tolist()[11:] == slots_of(cache, first, 1, range(3))
    second = cache.prepare_step([b, a], [1, 1])
    assert second.positions.tolist() == [3, 11]
    assert second.kv_lens.tolist() == [4, 12]
    assert second.slots.tolist() == [
        slots_of(cache, second, 0, range(3, 4))[0],
        slots_of(cache, second, 1, range(11, 12))[0],
    ]
    for array in (second.positions, second.slots, second.block_table, second.cu_seqlens):
        assert array.dtype == np.int32


def test_sequences_never_share_a_slot() -> None:
    random.seed(1)
    cache = make(max_tokens=64)
    owners: dict[int, int] = {}
    sequences = [cache.add() for _ in range(4)]
    for _ in range(30):
        chosen = random.sample(sequences, random.randint(1, 4))
        counts = [min(random.randint(1, 5), 64 - cache.length(s)) for s in chosen]
        pairs = [(s, c) for s, c in zip(chosen, counts, strict=True) if c > 0]
        if not pairs:
            continue
        arrays = cache.prepare_step([s for s, _ in pairs], [c for _, c in pairs])
        start = 0
        for sequence, count in pairs:
            for slot in arrays.slots[start : start + count].tolist():
                assert owners.setdefault(slot, sequence) == sequence
            start += count


def test_continuous_is_one_block_per_sequence() -> None:
    cache = make(layout="continuous")
    assert cache.block_size == 40
    a, b = cache.add(), cache.add()
    arrays = cache.prepare_step([a, b], [30, 10])
    assert arrays.block_table.shape == (2, 1)
    assert cache.config.num_blocks == 4


def test_free_and_truncate_give_blocks_back() -> None:
    cache = make()
    total = cache.free_blocks
    a = cache.add()
    cache.prepare_step([a], [33])
    assert cache.free_blocks == total - 5
    cache.truncate(a, 16)
    assert (cache.length(a), cache.free_blocks) == (16, total - 2)
    cache.truncate(a, 0)
    assert cache.free_blocks == total
    cache.prepare_step([a], [1])
    cache.free(a)
    assert cache.free_blocks == total
    with pytest.raises(InvalidArgumentError, match="no sequence"):
        cache.length(a)


def test_rollback_undoes_a_step() -> None:
    cache = make()
    a, b = cache.add(), cache.add()
    cache.prepare_step([a], [5])
    free = cache.free_blocks
    arrays = cache.prepare_step([a, b], [9, 2])
    cache.rollback(arrays)
    assert (cache.length(a), cache.length(b), cache.free_blocks) == (5, 0, free)


def test_forks_share_whole_blocks() -> None:
    cache = make()
    a = cache.add()
    cache.prepare_step([a], [16])
    free = cache.free_blocks
    b = cache.fork(a)
    assert (cache.length(b), cache.free_blocks) == (16, free)
    # Both write into new blocks of their own: the shared ones are full.
    arrays = cache.prepare_step([a, b], [1, 1])
    assert arrays.block_table[0, :2].tolist() == arrays.block_table[1, :2].tolist()
    assert arrays.block_table[0, 2] != arrays.block_table[1, 2]
    cache.free(a)
    assert cache.length(b) == 17
    cache.free(b)
    assert cache.free_blocks == cache.config.num_blocks


def test_a_snapshot_keeps_its_blocks_until_it_is_released() -> None:
    cache = make()
    a = cache.add()
    cache.prepare_step([a], [16])
    kept = cache.snapshot(a)
    cache.free(a)
    assert cache.free_blocks == cache.config.num_blocks - 2
    b = cache.add()
    cache.restore(b, kept)
    assert cache.length(b) == 16
    cache.release(kept)
    cache.reset()
    assert cache.free_blocks == cache.config.num_blocks


def test_limits_are_refused_with_both_numbers() -> None:
    cache = make(max_sequences=2, total_tokens=32)
    a, b = cache.add(), cache.add()
    with pytest.raises(InvalidArgumentError, match=r"holds 2 sequence\(s\), at most 2"):
        cache.add()
    with pytest.raises(InvalidArgumentError, match="0 tokens, 41 more pass the window of 40"):
        cache.prepare_step([a], [41])
    cache.prepare_step([a], [17])
    with pytest.raises(OutOfMemoryError, match=r"needs 2 block\(s\) of 8 tokens, 1 are free of 4"):
        cache.prepare_step([b], [9])
    assert cache.length(b) == 0
    assert not cache.fits([b], [9]) and cache.fits([b], [8])


@pytest.mark.parametrize(
    ("sequences", "counts", "words"),
    [
        ([], [], "0 sequence"),
        ([0], [1, 2], "1 sequence"),
        ([0], [0], "0 new tokens"),
        ([0, 0], [1, 1], "twice"),
    ],
)
def test_malformed_steps_are_refused(sequences: list[int], counts: list[int], words: str) -> None:
    cache = make()
    cache.add()
    with pytest.raises(InvalidArgumentError, match=words):
        cache.prepare_step(sequences, counts)


def test_bad_edits_are_refused() -> None:
    cache = make()
    a = cache.add()
    cache.prepare_step([a], [4])
    with pytest.raises(InvalidArgumentError, match=r"length 5 is outside 0 \.\. 4"):
        cache.truncate(a, 5)
    with pytest.raises(InvalidArgumentError, match="layer 0 declares Conv"):
        KVCache([Conv(4, 4)], CacheConfig(8))
    with pytest.raises(InvalidArgumentError, match=r"4294967296 slots, at most 2147483647"):
        KVCache(SPECS, CacheConfig(1 << 30, 4))
    with pytest.raises(InvalidArgumentError, match="max_tokens must be at least 1, got 0"):
        CacheConfig(0)
    with pytest.raises(InvalidArgumentError, match="'ring' is none"):
        CacheConfig(8, layout="ring")


def test_a_large_window_costs_nothing_until_it_is_used() -> None:
    cache = KVCache(SPECS, CacheConfig(1 << 30))
    assert cache.free_blocks == 1 << 24
    sequence = cache.add()
    assert cache.prepare_step([sequence], [3]).slots.tolist() == [0, 1, 2]


def test_bytes_per_token_count_every_layer() -> None:
    assert make().nbytes_per_token == 4 * (2 * 16 + 2 * 12)
