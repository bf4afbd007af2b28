"""``nn.KVCache``: indices of steps, refusals, and attention over it beside torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import clika_runtime as crt
from clika_runtime import nn
from clika_runtime.errors import InvalidArgumentError


def make(layers: int = 2, preallocate: bool = True, **sizes: Any) -> nn.KVCache:
    sizes = {"num_kv_heads": 2, "head_dim": 8, "max_seqs": 3, "max_tokens_per_seq": 16, **sizes}
    config = nn.KVCacheConfig(num_layers=layers, **sizes)
    return nn.KVCache.make(config, [nn.KVLayerSpec(preallocate)] * layers)


@pytest.mark.parametrize("preallocate", [True, False])
def test_rows(preallocate: bool) -> None:
    cache = make(preallocate=preallocate, kv_dtype=crt.bfloat16)
    assert cache.num_layers() == 2
    assert tuple(cache.keys(1).shape) == (3, 2, 16, 8)
    assert cache.values(0).dtype is crt.bfloat16
    assert cache.keys(0) is cache.keys(0)
    assert cache.keys(0) is not cache.values(0)


def test_step() -> None:
    step = make().prepare_step([0, 4, 5], [0, 7], [2, 0])
    assert isinstance(step, nn.StepIndices)
    assert step.cu_seqlens_q.tolist() == [0, 4, 5]
    assert step.cu_seqlens_k.tolist() == [0, 4, 12]
    assert step.kvcache_start.tolist() == [0, 7]
    assert step.slot_ids.tolist() == [2, 0]
    assert step.max_seqlen_k == 8
    assert {tensor.dtype for tensor in (step.cu_seqlens_q, step.slot_ids)} == {crt.int32}


@pytest.mark.parametrize("name", ["keys", "values"])
@pytest.mark.parametrize("layer", [2, -1])
def test_a_layer_out_of_range(name: str, layer: int) -> None:
    text = rf"kv cache layer {layer} is out of range: the cache has 2 layer\(s\)"
    with pytest.raises(InvalidArgumentError, match=text) as found:
        getattr(make(), name)(layer)
    assert found.value.code_name == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 4], [0, 0], [0]), "2, 2 and 1 are given"),
        (([0], [], []), "1, 0 and 0 are given"),
        (([1, 4], [0], [0]), "cum_q_lens begin with 0"),
        (([0, 0], [0], [0]), "grow with every sequence"),
        (([0, 5, 4], [0, 0], [0, 1]), "grow with every sequence"),
        (([0, 1, 2], [0, 0], [1, 1]), "a slot is named twice"),
        (([0, 1], [0], [3]), r"slot 3 is out of range: the cache has 3 slot\(s\)"),
        (([0, 1], [0], [-1]), "slots takes whole numbers from 0"),
        (([0, 1], [16], [0]), "slot 0 would have 17 tokens, the cache holds 16"),
        (([0, 2**40], [0], [0]), "cum_q_lens takes whole numbers"),
        (([0, 1.5], [0], [0]), "cum_q_lens takes whole numbers"),
        (([0, True], [0], [0]), "cum_q_lens takes whole numbers"),
    ],
)
def test_refused_steps(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make().prepare_step(*arguments)


def test_refused_sizes() -> None:
    with pytest.raises(InvalidArgumentError, match="max_seqs takes whole numbers from 1"):
        make(max_seqs=0)
    config = nn.KVCacheConfig(num_layers=2, num_kv_heads=1, head_dim=8)
    with pytest.raises(InvalidArgumentError, match=r"1 layer specs are given for 2 layer\(s\)"):
        nn.KVCache.make(config, [nn.KVLayerSpec()])


HEADS, GROUPS, SIZE = 4, 2, 8


def attend(cache: nn.KVCache, step: nn.StepIndices, q: Any, k: Any, v: Any) -> Any:
    rows = cache.keys(0), cache.values(0)
    out, _, _ = crt.group_query_attention_varlen(
        *(crt.tensor(x) for x in (q, k, v)),
        step.cu_seqlens_q,
        step.cu_seqlens_k,
        max_seqlen_k=step.max_seqlen_k,
        past_key=rows[0],
        past_value=rows[1],
        kvcache_start=step.kvcache_start,
        num_heads=HEADS,
        kv_num_heads=GROUPS,
        out_present_key=rows[0],
        out_present_value=rows[1],
        slot_ids=step.slot_ids,
    )
    return out.numpy()


def test_attention_of_two_sequences_step_by_step() -> None:
    """Two sequences of unequal length, fed in parts: torch's attention over each as a whole."""
    rng = np.random.default_rng(3)
    lengths = (9, 6)
    width = {"q": HEADS * SIZE, "k": GROUPS * SIZE, "v": GROUPS * SIZE}
    data = [
        {name: rng.standard_normal((n, size)).astype(np.float32) for name, size in width.items()}
        for n in lengths
    ]
    cache = make(1)
    found: list[list[Any]] = [[], []]
    past = [0, 0]
    slots = [2, 0]
    for counts in ((5, 2), (1, 3), (3, 1)):
        parts = [
            {name: x[start : start + n] for name, x in row.items()}
            for row, start, n in zip(data, past, counts, strict=True)
        ]
        step = cache.prepare_step([0, counts[0], sum(counts)], past, slots)
        out = attend(cache, step, *(np.concatenate([p[name] for p in parts]) for name in width))
        found[0].append(out[: counts[0]])
        found[1].append(out[counts[0] :])
        past = [start + n for start, n in zip(past, counts, strict=True)]
    for row, pieces in zip(data, found, strict=True):
        heads = {
            name: torch.tensor(x).reshape(len(x), -1, SIZE).transpose(0, 1)
            for name, x in row.items()
        }
        wanted = torch.nn.functional.scaled_dot_product_attention(
            heads["q"], heads["k"], heads["v"], is_causal=True, enable_gqa=True
        )
        wanted = wanted.transpose(0, 1).reshape(len(row["q"]), -1).numpy()
        # Two float32 sums of at most 9 products, in different order.
        np.testing.assert_allclose(np.concatenate(pieces), wanted, rtol=1e-5, atol=1e-6)


def test_reset_empties_what_was_written() -> None:
    cache = make(1)
    keys = cache.keys(0)
    ones = np.ones((3, HEADS * SIZE), np.float32), np.ones((3, GROUPS * SIZE), np.float32)
    attend(cache, cache.prepare_step([0, 3], [4], [1]), ones[0], ones[1], ones[1])
    assert keys.numpy()[1, :, 4:7].all()
    cache.reset()
    assert cache.keys(0) is keys
    assert not keys.numpy().any()
    assert not cache.values(0).numpy().any()
