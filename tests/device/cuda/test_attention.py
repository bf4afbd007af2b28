"""Attention on this GPU: its rates, for the report, and the same bits in every run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt

HEADS, KV_HEADS, SIZE = 32, 8, 128  # of a layer of Llama 3 8B
PAGE = 16


def seconds_behind(function: Callable[[], object], repeat: int) -> float:
    """Seconds of a call that the device alone takes: calls are queued behind work that is longer
    than the queueing, and the time of that work is taken off."""
    large = crt.ones(1 << 29, dtype=crt.bfloat16, device="cuda")

    def once(count: int) -> float:
        crt.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(12):
            large.to("cuda", copy=True)
        for _ in range(count):
            function()
        crt.cuda.synchronize()
        return time.perf_counter() - start

    once(repeat)
    alone = min(once(0) for _ in range(5))
    return (min(once(repeat) for _ in range(5)) - alone) / repeat


def operands(new: list[int], lengths: list[int], room: int) -> list[Any]:
    """Query, pools, block table with room for so many positions a sequence, bounds, lengths."""
    rng = np.random.default_rng(4)
    pages = -(-room // PAGE)
    blocks = len(new) * pages
    table = rng.permutation(blocks).reshape(len(new), pages)
    shape = (blocks, PAGE, KV_HEADS, SIZE)
    row = rng.normal(size=(1 << 16, 1)).astype(np.float32)

    def pool() -> Any:
        one = crt.tensor(np.resize(row, shape[1:])).to("cuda").to(crt.bfloat16)
        ramp = crt.tensor(np.linspace(0.5, 1.5, blocks, dtype=np.float32)).to("cuda")
        return crt.mul(one, crt.reshape(ramp.to(crt.bfloat16), (blocks, 1, 1, 1)))

    query = rng.normal(size=(sum(new), HEADS, SIZE)).astype(np.float32)
    ints = [table, np.cumsum([0, *new]), np.array(lengths)]
    return [
        crt.tensor(query).to("cuda").to(crt.bfloat16),
        pool(),
        pool(),
        *[crt.tensor(x.astype(np.int32)).to("cuda") for x in ints],
    ]


def attend(given: list[Any]) -> Any:
    return crt.paged_attention(*given, scale=1 / math.sqrt(SIZE))


@pytest.mark.parametrize("positions", [100, 2048, 8000])
@pytest.mark.parametrize("batch", [1, 8, 64])
def test_decode(gpu, batch, positions):
    given = operands([1] * batch, [positions] * batch, 8192 if batch < 64 else positions)
    first = attend(given).bytes()
    assert all(attend(given).bytes() == first for _ in range(3))
    spent = seconds_behind(lambda: attend(given), 100)
    read = 2 * 2 * batch * positions * KV_HEADS * SIZE
    gpu["figures"][f"decode_attention_{batch}x{positions}_us"] = round(spent * 1e6, 2)
    gpu["figures"][f"decode_attention_{batch}x{positions}_gb_s"] = round(read / spent / 1e9, 1)


@pytest.mark.parametrize("tokens", [512, 2048, 8192])
def test_prefill(gpu, tokens):
    given = operands([tokens], [tokens], tokens)
    first = attend(given).bytes()
    assert attend(given).bytes() == first
    spent = seconds_behind(lambda: attend(given), 20)
    rate = 2 * tokens * (tokens + 1) * HEADS * SIZE / spent / 1e12
    gpu["figures"][f"prefill_attention_{tokens}_tflop_s"] = round(rate, 1)


def test_one_and_many_tokens_agree():
    """Decode and prefill kernels over the same cache: weights of bfloat16, so a few eps apart."""
    lengths = [2048, 777, 1, 130]
    given = operands([1] * 4, lengths, 2048)
    alone = attend(given).cpu().to(crt.float32).numpy()
    query, *rest = given
    doubled = crt.cat([query, query], 0)
    table = crt.cat([rest[2], rest[2]], 0)
    bounds = crt.tensor(np.array([0, 1, 2, 3, 4, 8], np.int32)).to("cuda")
    # The last sequence has four tokens: the launch is one of many tokens.
    lengths_too = crt.tensor(np.array([*lengths, 2048], np.int32)).to("cuda")
    together = [doubled, rest[0], rest[1], crt.narrow(table, 0, 0, 5), bounds, lengths_too]
    many = attend(together).cpu().to(crt.float32).numpy()[:4]
    assert np.allclose(many, alone, rtol=2**-6, atol=2**-7 * np.abs(alone).max())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("tokens", [[1] * 5, [70, 1, 200, 3]])
def test_beside_float64(dtype, tokens):
    """Half an eps of the operands' dtype for the weights, half a one for the result."""
    eps = {"bfloat16": 2**-7, "float16": 2**-10, "float32": 2**-20}[dtype]
    rng = np.random.default_rng(9)
    lengths = [n + extra for n, extra in zip(tokens, [1030, 0, 64, 511, 5], strict=False)]
    pages = -(-max(lengths) // PAGE)
    table = rng.permutation(len(tokens) * pages).reshape(len(tokens), pages)
    shapes = [(sum(tokens), 14, 64), *[(table.size, PAGE, 2, 64)] * 2]
    there = [
        crt.tensor(rng.normal(size=s).astype(np.float32)).to("cuda").to(getattr(crt, dtype))
        for s in shapes
    ]
    q, k, v = (x.cpu().to(crt.float32).numpy().astype(np.float64) for x in there)
    ints = [table, np.cumsum([0, *tokens]), np.array(lengths)]
    there += [crt.tensor(x.astype(np.int32)).to("cuda") for x in ints]
    got = crt.paged_attention(*there, scale=0.125, window=900).cpu().to(crt.float32).numpy()
    token = 0
    for b, count in enumerate(tokens):
        keys, values = (pool[table[b]].reshape(-1, 2, 64)[: lengths[b]] for pool in (k, v))
        for i in range(count):
            position = lengths[b] - count + i
            low = max(0, position - 899)
            for h in range(14):
                s = 0.125 * keys[low : position + 1, h // 7] @ q[token, h]
                w = np.exp(s - s.max())
                w /= w.sum()
                want = w @ values[low : position + 1, h // 7]
                size = w @ np.abs(values[low : position + 1, h // 7])
                bound = eps / 2 * (size + np.abs(want)) + 2e-6
                assert (np.abs(got[token, h] - want) <= bound).all(), (b, i, h)
            token += 1
