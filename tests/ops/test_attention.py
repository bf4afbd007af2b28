"""Attention over packed sequences and caches, against scores written out in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError

HEADS, GROUPS, SIZE = 4, 2, 8
NEW = [3, 1, 5]
PAST = [4, 7, 0]
RNG = np.random.default_rng(0)
# Sums of up to eleven terms of size 1 in float32; scores move weights by as much.
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(values: Any) -> Any:
    return crt.tensor(np.asarray(values, np.int32))


def ends(lengths: list[int]) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)])


def turn(x: Any, places: Any, mode: str) -> Any:
    """[T, H, D], each pair as a complex number."""
    rates = 10000.0 ** (-2 * np.arange(SIZE // 2) / SIZE)
    angle = np.exp(1j * places[:, None, None] * rates)
    if mode == "gptj":
        pairs = (x[..., ::2] + 1j * x[..., 1::2]) * angle
        return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)
    pairs = (x[..., : SIZE // 2] + 1j * x[..., SIZE // 2 :]) * angle
    return np.concatenate([pairs.real, pairs.imag], -1)


def norm(x: Any, gain: Any, eps: float) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


class Example:
    """Three sequences with what is cached and what is new, in whole rows."""

    def __init__(self) -> None:
        self.keys = [normal(past + new, GROUPS, SIZE) for past, new in zip(PAST, NEW, strict=True)]
        self.values = [
            normal(past + new, GROUPS, SIZE) for past, new in zip(PAST, NEW, strict=True)
        ]
        self.queries = [normal(new, HEADS, SIZE) for new in NEW]
        self.totals = [past + new for past, new in zip(PAST, NEW, strict=True)]

    def packed(self, rows: list[Any]) -> Any:
        fresh = [row[len(row) - new :] for row, new in zip(rows, NEW, strict=True)]
        joined = np.concatenate(fresh)
        return crt.tensor(joined.reshape(len(joined), -1).astype(np.float32))

    def call(self, **options: Any) -> Any:
        given = self.packed(self.queries), self.packed(self.keys), self.packed(self.values)
        lengths = ints(ends(NEW)), ints(ends(self.totals))
        return crt.group_query_attention_varlen(
            *given, *lengths, num_heads=HEADS, kv_num_heads=GROUPS, **options
        )

    def expected(
        self,
        *,
        causal: bool = True,
        mode: str | None = None,
        gains: Any = None,
        sink: Any = None,
        window: int = 0,
        softcap: float = 0.0,
        scale: float | None = None,
        turned_cache: bool = False,
    ) -> Any:
        """The cached keys are as they are; new ones are turned and normalized first."""
        results = []
        for q, k, v in zip(self.queries, self.keys, self.values, strict=True):
            total, new = len(k), len(q)
            places = np.arange(total - new, total)
            q, k = q.astype(np.float64), k.astype(np.float64).copy()
            fresh = k[total - new :]
            if mode is not None:
                q, fresh = turn(q, places, mode), turn(fresh, places, mode)
            if gains is not None:
                q, fresh = norm(q, gains[0], 1e-6), norm(fresh, gains[1], 1e-6)
            if not turned_cache:
                k[total - new :] = fresh
            k, v = np.repeat(k, HEADS // GROUPS, 1), np.repeat(v, HEADS // GROUPS, 1)
            s = np.einsum("qhd,khd->hqk", q, k) * (1 / math.sqrt(SIZE) if scale is None else scale)
            if softcap:
                s = softcap * np.tanh(s / softcap)
            at = np.arange(total)
            seen = at[None] <= places[:, None] if causal else np.ones((new, total), bool)
            if window:
                seen = seen & (at[None] > places[:, None] - window)
            weights = np.where(seen, np.exp(s), 0)
            below = weights.sum(-1, keepdims=True)
            if sink is not None:
                below = below + np.exp(sink)[:, None, None]
            results.append(np.einsum("hqk,khd->qhd", weights / below, v))
        return np.concatenate(results).reshape(-1, HEADS * SIZE)


def continuous(example: Example, rows: list[int], width: int = 16) -> tuple[Any, Any]:
    """Caches [max_seqs, G, max_seq, D] that hold what is past in the given rows."""
    caches = []
    for whole in (example.keys, example.values):
        cache = np.zeros((max(rows) + 2, GROUPS, width, SIZE), np.float32)
        for b, row in enumerate(rows):
            cache[row, :, : PAST[b]] = whole[b][: PAST[b]].transpose(1, 0, 2)
        caches.append(crt.tensor(cache))
    return caches[0], caches[1]


def paged(example: Example, size: int = 4) -> tuple[Any, Any, Any]:
    """Pools [blocks, G, block_size, D] with scattered blocks, and the block table."""
    counts = [-(-total // size) for total in example.totals]
    order = np.random.default_rng(1).permutation(sum(counts) + 3)
    table = np.full((3, max(counts) + 1), -1, np.int32)
    used = 0
    for b, count in enumerate(counts):
        table[b, :count] = order[used : used + count]
        used += count
    pools = []
    for whole in (example.keys, example.values):
        pool = np.zeros((len(order), GROUPS, size, SIZE), np.float32)
        for b, past in enumerate(PAST):
            for p in range(past):
                pool[table[b, p // size], :, p % size] = whole[b][p]
        pools.append(crt.tensor(pool))
    return pools[0], pools[1], crt.tensor(table)


def test_a_continuous_cache_is_written_in_place() -> None:
    example = Example()
    keys, values = continuous(example, [2, 0, 1])
    got, present_key, present_value = example.call(
        past_key=keys,
        past_value=values,
        out_present_key=keys,
        out_present_value=values,
        kvcache_start=ints([0, 0, 0]),
        slot_ids=ints([2, 0, 1]),
        max_seqlen_k=8,
    )
    np.testing.assert_allclose(got.numpy(), example.expected(), **CLOSE)
    assert present_key is keys and present_value is values
    for b, row in enumerate([2, 0, 1]):
        stored = keys.numpy()[row, :, : example.totals[b]].transpose(1, 0, 2)
        assert (stored == example.keys[b]).all()


def test_rows_in_order_need_no_slots_and_a_copy_is_made_without_out() -> None:
    example = Example()
    keys, values = continuous(example, [0, 1, 2])
    before = keys.numpy().copy()
    got, present_key, _ = example.call(past_key=keys, past_value=values)
    np.testing.assert_allclose(got.numpy(), example.expected(), **CLOSE)
    assert (keys.numpy() == before).all()
    assert (present_key.numpy()[0, :, : example.totals[0]] != before[0, :, :7]).any()


def test_a_paged_cache() -> None:
    example = Example()
    keys, values, table = paged(example)
    got, _, _ = example.call(
        past_key=keys,
        past_value=values,
        out_present_key=keys,
        out_present_value=values,
        block_table=table,
    )
    np.testing.assert_allclose(got.numpy(), example.expected(), **CLOSE)
    stored = keys.numpy()[table.numpy()[0, 1], :, 2]  # position 6 of the first sequence
    assert (stored == example.keys[0][6]).all()


@pytest.mark.parametrize("causal", [True, False])
def test_without_a_cache(causal: bool) -> None:
    example = Example()
    whole_k = crt.tensor(np.concatenate(example.keys).reshape(-1, GROUPS * SIZE))
    whole_v = crt.tensor(np.concatenate(example.values).reshape(-1, GROUPS * SIZE))
    got, present_key, present_value = crt.group_query_attention_varlen(
        example.packed(example.queries),
        whole_k,
        whole_v,
        ints(ends(NEW)),
        ints(ends(example.totals)),
        max_seqlen_k=max(example.totals),
        is_causal=causal,
        num_heads=HEADS,
        kv_num_heads=GROUPS,
    )
    np.testing.assert_allclose(got.numpy(), example.expected(causal=causal), **CLOSE)
    assert (present_key.numpy() == whole_k.numpy()).all() and present_value is whole_v


@pytest.mark.parametrize("mode", ["neox", "gptj"])
def test_rotation_and_norms(mode: str) -> None:
    example = Example()
    cos, sin = crt.generate_rotary_cache(SIZE, 64)
    gains = [1 + 0.1 * normal(SIZE), 1 + 0.1 * normal(SIZE)]
    keys, values = continuous(example, [0, 1, 2])
    got, _, _ = example.call(
        past_key=keys,
        past_value=values,
        rope_cos=cos,
        rope_sin=sin,
        rotary_mode=mode,
        q_norm_gain=crt.tensor(gains[0]),
        k_norm_gain=crt.tensor(gains[1]),
        qk_norm_eps=1e-6,
    )
    np.testing.assert_allclose(got.numpy(), example.expected(mode=mode, gains=gains), **CLOSE)


@pytest.mark.parametrize(
    "options",
    [
        {"sink": normal(HEADS)},
        {"window": 3},
        {"softcap": 0.7},
        {"scale": 0.9},
        {"sink": normal(HEADS), "window": 2, "softcap": 2.0},
    ],
    ids=["sink", "window", "softcap", "scale", "all"],
)
def test_sinks_windows_and_caps(options: Any) -> None:
    example = Example()
    keys, values = continuous(example, [0, 1, 2])
    names = {"sink": "head_sink", "window": "window_size"}
    given = {
        names.get(key, key): crt.tensor(value) if key == "sink" else value
        for key, value in options.items()
    }
    got, _, _ = example.call(past_key=keys, past_value=values, **given)
    np.testing.assert_allclose(got.numpy(), example.expected(**options), **CLOSE)


def test_bfloat16() -> None:
    example = Example()
    keys, values = (cache.to(crt.bfloat16) for cache in continuous(example, [0, 1, 2]))
    got, present, _ = example.call(past_key=keys, past_value=values)
    assert got.dtype is crt.float32 and present.dtype is crt.bfloat16
    # Keys and values are off by 2^-9 of themselves.
    np.testing.assert_allclose(got.numpy(), example.expected(), rtol=0.05, atol=0.05)


def test_reading_a_cache_leaves_it_alone() -> None:
    example = Example()
    keys, values = continuous(example, [0, 1, 2])
    example.call(past_key=keys, past_value=values, out_present_key=keys, out_present_value=values)
    before = keys.numpy().copy()
    cos, sin = crt.generate_rotary_cache(SIZE, 64)
    given = example.packed(example.queries), keys, values
    lengths = ints(ends(NEW)), ints(ends(example.totals))
    got = crt.attention_over_cache(*given, *lengths, num_heads=HEADS, rope_cos=cos, rope_sin=sin)
    want = example.expected(mode="neox", turned_cache=True)
    np.testing.assert_allclose(got.numpy(), want, **CLOSE)
    assert (keys.numpy() == before).all()


def test_rotary_tables() -> None:
    cos, sin = crt.generate_rotary_cache(8, 50, theta=100.0)
    angles = np.arange(50)[:, None] * 100.0 ** (-2 * np.arange(4) / 8)
    # An ulp of an angle of 50 is 4e-6.
    np.testing.assert_allclose(cos.numpy(), np.cos(angles), atol=1e-5)
    np.testing.assert_allclose(sin.numpy(), np.sin(angles), atol=1e-5)
    slow, _ = crt.generate_rotary_cache(8, 50, theta=100.0, scaling="linear", scale=4.0)
    np.testing.assert_allclose(slow.numpy(), np.cos(angles / 4), atol=1e-5)
    short, _ = crt.generate_rotary_cache(8, 5, dtype=crt.bfloat16, device="cpu")
    assert short.dtype is crt.bfloat16 and tuple(short.shape) == (5, 4)


def test_llama3_frequencies_are_those_of_transformers() -> None:
    utils = pytest.importorskip("transformers.modeling_rope_utils")
    config_class = pytest.importorskip("transformers").LlamaConfig
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_theta": 500000.0,
    }
    config = config_class(hidden_size=128, num_attention_heads=1, rope_theta=500000.0)
    config.rope_parameters = scaling
    config.head_dim = 128
    rates, _ = utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    cos, _ = crt.generate_rotary_cache(
        128,
        2,
        theta=500000.0,
        scaling="llama3",
        scale=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_pos=8192,
    )
    np.testing.assert_allclose(np.arccos(cos.numpy()[1])[:20], rates.numpy()[:20], rtol=1e-3)
    np.testing.assert_allclose(cos.numpy()[1], np.cos(rates.numpy()), atol=1e-6)


def test_qk_rms_norm() -> None:
    q, k = normal(3, HEADS * SIZE), normal(3, GROUPS * SIZE)
    gains = normal(SIZE), normal(SIZE)
    mine = crt.qk_rms_norm(*map(crt.tensor, (q, k, *gains)), eps=1e-5)
    for got, x, gain in zip(mine, (q, k), gains, strict=True):
        want = norm(x.reshape(3, -1, SIZE), gain, 1e-5).reshape(x.shape)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


Q, KV = crt.ones(2, HEADS * SIZE), crt.ones(2, GROUPS * SIZE)
ENDS = ints([0, 2])
CACHE = crt.zeros(1, GROUPS, 4, SIZE)


def attend(**options: Any) -> Any:
    given = {"num_heads": HEADS, "kv_num_heads": GROUPS, **options}
    return crt.group_query_attention_varlen(Q, KV, KV, ENDS, given.pop("cu", ENDS), **given)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: attend(num_heads=None), "num_heads and kv_num_heads must be given"),
        (lambda: attend(num_heads=5), "query [2, 32] must be [T, heads * size] with 5 heads"),
        (lambda: attend(kv_num_heads=0), "must be a positive int, got 0"),
        (lambda: attend(), "max_seqlen_k must be given"),
        (lambda: attend(past_key=CACHE), "past_key and past_value go together"),
        (lambda: attend(rope_cos=CACHE), "rope_cos and rope_sin go together"),
        (lambda: attend(q_norm_gain=CACHE), "q_norm_gain, k_norm_gain and qk_norm_eps go together"),
        (lambda: attend(max_seqlen_k=2, out_present_key=CACHE), "go with past_key and past_value"),
        (
            lambda: attend(past_key=CACHE, past_value=CACHE, slot_ids=ints([0]), block_table=ENDS),
            "slot_ids go with a continuous cache",
        ),
        (lambda: attend(past_key=Q, past_value=Q), "a cache must be [blocks, G, block_size, D]"),
        (
            lambda: attend(past_key=CACHE, past_value=CACHE, slot_ids=ints([0, 1])),
            "slot_ids [2] must be [1]",
        ),
        (
            lambda: attend(past_key=CACHE, past_value=CACHE, cu=ints([0, 9])),
            "has 9 tokens, 2 of them new, and room for 4",
        ),
        (
            lambda: attend(past_key=CACHE, past_value=CACHE, slot_ids=ints([3])),
            "outside the pool of 4 slots",
        ),
        (lambda: crt.generate_rotary_cache(7, 4), "head_dim 7 must be even"),
        (lambda: crt.generate_rotary_cache(8, 0), "max_positions must be a positive int"),
        (lambda: crt.generate_rotary_cache(8, 4, scaling="yarn"), "'yarn' is not a Scaling"),
        (lambda: crt.generate_rotary_cache(8, 4, theta=-1.0), "must be positive"),
        (lambda: crt.qk_rms_norm(Q, KV, crt.ones(5), crt.ones(8)), "heads of the size of the gain"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()[0].numpy()
    assert text in str(caught.value)
