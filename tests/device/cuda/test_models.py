"""Model families on a GPU beside the CPU backend: small ones, and published shapes cut to two
layers. Weights are random, so a reply tells every error in a rank of logits."""

from __future__ import annotations

import numpy as np
import pytest

import clika_runtime as crt
from benchmarks.random_models import (
    GEMMA3_270M,
    LLAMA3_8B,
    QWEN2_5_0_5B,
    TINY,
    moved,
    random_model,
)
from clika_runtime.modelverse.cache import CacheConfig, KVCache
from clika_runtime.modelverse.engine import Engine, Sampling, Work

SHAPES = {
    "tiny": TINY,
    "tiny-qwen": QWEN2_5_0_5B.cut(
        hidden_size=128, intermediate_size=256, num_attention_heads=4, num_hidden_layers=2,
        vocab_size=512,
    ),
    "tiny-gemma": GEMMA3_270M.cut(
        hidden_size=128, intermediate_size=256, head_dim=32, num_hidden_layers=6, vocab_size=512,
        sliding_window=24, query_pre_attn_scalar=32,
    ),
    "llama": LLAMA3_8B.cut(num_hidden_layers=2, vocab_size=8192),
    "qwen": QWEN2_5_0_5B.cut(num_hidden_layers=2, vocab_size=8192),
    "gemma": GEMMA3_270M.cut(num_hidden_layers=6, vocab_size=8192),
}  # fmt: skip
STEPS = 24
CPU = crt.Device("cpu")


def engine_over(model, dtype, device):
    config = CacheConfig(512, max_sequences=2, block_size=16, dtype=dtype, device=device)
    return Engine(model, KVCache(model.cache_specs(), config))


def reply(engine, prompts, steps=STEPS):
    """Greedy ids of several sequences, in steps together."""
    sequences = [engine.cache.add() for _ in prompts]
    greedy = Sampling()
    ids = engine.step([Work(s, p, greedy) for s, p in zip(sequences, prompts, strict=True)])
    rows = [ids]
    for index in range(1, steps):
        work = [Work(s, (t,), greedy, index) for s, t in zip(sequences, ids, strict=True)]
        ids = engine.step(work)
        rows.append(ids)
    for sequence in sequences:
        engine.cache.free(sequence)
    return np.array(rows).T.tolist()


def prompts_of(vocabulary):
    rng = np.random.default_rng(5)
    return [rng.integers(0, vocabulary, size).tolist() for size in (41, 150)]


def distance(one, other):
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())


def check_replies(there, host, tolerance):
    """Every token that the GPU chose is the host's best one, or within the distance of it that
    the two sides' logits have; the same in each run, with graphs and without."""
    prompts = prompts_of(there.model.vocab_size)
    found = reply(there, prompts)
    assert reply(there, prompts) == found
    with crt.synchronous():
        assert reply(there, prompts) == found
    plans = [plan.stats() for plan in there.plans if plan.name == "decode step"]
    assert all(stats["recordings"] > 0 for stats in plans)
    equal = 0
    for prompt, ids in zip(prompts, found, strict=True):
        rows = np.asarray(host.logits([*prompt, *ids[:-1]]))[len(prompt) - 1 :]
        for row, token in zip(rows, ids, strict=True):
            assert row.max() - row[token] <= 2 * tolerance
            equal += int(row.argmax() == token)
    return equal / (len(prompts) * STEPS)


@pytest.mark.parametrize("name", SHAPES)
def test_dense(gpu, name):
    about = SHAPES[name]
    short = random_model(about, "bfloat16", CPU)
    exact = engine_over(moved(about, short, CPU, crt.float32), crt.float32, CPU)
    ids = prompts_of(exact.model.vocab_size)[1]
    true = exact.logits(ids)
    top = float(np.abs(true).max())
    figures = gpu["figures"].setdefault("models", {}).setdefault(name, {})

    wide = engine_over(moved(about, short, "cuda", crt.float32), crt.float32, "cuda")
    found = wide.logits(ids)
    figures["float32"] = distance(found, true) / top
    assert figures["float32"] <= 1e-4
    assert np.array_equal(wide.logits(ids), found)
    figures["float32_equal"] = check_replies(wide, exact, 1e-4 * top)

    host = engine_over(short, crt.bfloat16, CPU)
    there = engine_over(moved(about, short, "cuda", crt.bfloat16), crt.bfloat16, "cuda")
    found, bound = there.logits(ids), distance(host.logits(ids), true)
    figures["bfloat16"] = [distance(found, true) / top, bound / top]
    assert distance(found, true) <= 2 * bound
    assert np.array_equal(there.logits(ids), found)
    figures["bfloat16_equal"] = check_replies(there, exact, 2 * bound)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_K", "Q6_K"])
@pytest.mark.parametrize("name", ["tiny", "llama"])
def test_packed(gpu, name, kind):
    """Products over packed weights. The fast mode rounds activations on either side, so it has the
    distance of the host's fast mode from the exact one for a bound."""
    about = SHAPES[name]
    fast = random_model(about, kind, CPU)
    host = engine_over(fast, crt.float32, CPU)
    there = engine_over(moved(about, fast, "cuda", crt.float32), crt.float32, "cuda")
    ids = prompts_of(host.model.vocab_size)[1]
    measured = host.logits(ids)
    top = float(np.abs(measured).max())
    found = there.logits(ids)
    assert np.array_equal(there.logits(ids), found)
    apart = distance(found, measured)
    figures = gpu["figures"].setdefault("models", {}).setdefault(f"{name} {kind}", {})
    figures["apart"] = apart / top
    assert apart <= 0.05 * top
    figures["equal"] = check_replies(there, host, apart)
