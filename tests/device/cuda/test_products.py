"""Products with weights on this GPU: values against NumPy, bandwidths and rates for the report."""

from __future__ import annotations

import time

import numpy as np
import pytest

import clika_runtime as crt

SHAPES = {
    "llama": [(4096, 4096), (14336, 4096), (4096, 14336), (128256, 4096)],
    "qwen": [(896, 896), (128, 896), (4864, 896), (896, 4864), (151936, 896)],
}
FORMS = ("bfloat16", "Q4_K", "Q8_0", "Q4_0", "Q6_K")
#: Weights that are read in turn, so that none of them is still in the second cache (50 MB).
READ = 256 << 20


def seconds(calls, repeat=5):
    """The time of one of many calls on the device: they are queued while it is busy with a product,
    whose own time is taken off, so that what the host takes does not count."""
    busy = crt.ones(8192, 8192, dtype=crt.bfloat16, device="cuda")
    spent = {}
    for queued in ([], calls, [], calls):
        best = float("inf")
        for _ in range(repeat):
            crt.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(2):
                crt.matmul(busy, busy)
            for call in queued:
                call()
            crt.cuda.synchronize()
            best = min(best, time.perf_counter() - start)
        spent[bool(queued)] = best
    return max(spent[True] - spent[False], 1e-9) / len(calls)


def blocks(rng, name, rows, columns):
    """A weight of random blocks, and its bytes as published."""
    from clika_runtime.testing._numpy import random_blocks, scheme_number

    data = random_blocks(rng, name, rows, columns)
    number = scheme_number(name)
    made = crt.Tensor.from_buffer(
        data.tobytes(), (rows, columns), crt.float32, scheme=number, mapped=False
    )
    return made, data


def weights(form, rows, columns):
    """Copies of one weight on the device, as many as are read in turn, and the bytes of one."""
    from clika_runtime._native._core import pack_weight

    rng = np.random.default_rng(rows)
    if form == "bfloat16":
        one = crt.randn(rows, columns, device="cuda").to(crt.bfloat16)
        size = 2 * rows * columns
    else:
        made, data = blocks(rng, form, rows, columns)
        one, size = pack_weight(made.to("cuda"), "fast"), data.nbytes
    count = max(1, min(256, READ // size))
    copies = [one]
    for _ in range(count - 1):
        copies.append(one.to("cuda", copy=True))
    return copies, size


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", SHAPES)
def test_few_tokens(gpu, model, form):
    for rows, columns in SHAPES[model]:
        if form.endswith("_K") and columns % 256:
            continue
        given, size = weights(form, rows, columns)
        for tokens in (1, 8):
            x = crt.randn(tokens, columns, device="cuda").to(crt.bfloat16)
            calls = [lambda w=w, x=x: crt.linear(x, w, None, "fast") for w in given]
            spent = seconds(calls * max(1, 64 // len(calls)))
            key = f"linear_{form}_{rows}x{columns}_{tokens}"
            gpu["figures"][f"{key}_us"] = round(spent * 1e6, 2)
            gpu["figures"][f"{key}_gb_s"] = round(size / spent / 1e9, 1)


@pytest.mark.parametrize("form", ["bfloat16", "Q4_K", "Q8_0"])
def test_gated(gpu, form):
    rows, columns = 14336, 4096
    given, size = weights(form, rows, columns)
    for tokens in (1, 8):
        x = crt.randn(tokens, columns, device="cuda").to(crt.bfloat16)
        pairs = [(given[i], given[i - 1]) for i in range(len(given))]
        calls = [lambda a=a, b=b, x=x: crt.gated_linear(x, a, b) for a, b in pairs]
        spent = seconds(calls * max(1, 64 // len(calls)))
        gpu["figures"][f"gated_linear_{form}_{tokens}_gb_s"] = round(2 * size / spent / 1e9, 1)


@pytest.mark.parametrize("form", ["bfloat16", "Q4_K", "Q8_0"])
@pytest.mark.parametrize("tokens", [16, 32, 64, 128, 2048])
def test_many_tokens(gpu, form, tokens):
    rows, columns = 14336, 4096
    given, _ = weights(form, rows, columns)
    x = crt.randn(tokens, columns, device="cuda").to(crt.bfloat16)
    spent = seconds([lambda w=w: crt.linear(x, w, None, "fast") for w in given])
    key = f"linear_{form}_{rows}x{columns}_{tokens}"
    gpu["figures"][f"{key}_us"] = round(spent * 1e6, 1)
    gpu["figures"][f"{key}_tflop_s"] = round(2 * tokens * rows * columns / spent / 1e12, 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(
    "form", ["bfloat16", "Q4_K", "Q8_0", "Q4_0", "Q4_1", "Q5_K", "Q6_K", "IQ4_XS"]
)
def test_values(gpu, form, dtype):
    """Sizes that models have, where a warp goes through several steps and a block through several
    tiles; a row alone gives the bits that it has among others, and every run the same."""
    from clika_runtime._native._core import pack_weight
    from clika_runtime.testing._numpy import decode_blocks

    rng = np.random.default_rng(3)
    rows, columns = 5000, 4096
    if form == "bfloat16":
        there = crt.tensor(rng.normal(size=(rows, columns)).astype(np.float32)).to(crt.bfloat16)
        values = there.to(crt.float32).numpy()
    else:
        there, data = blocks(rng, form, rows, columns)
        values = decode_blocks(data, form)
    there = pack_weight(there.to("cuda"))
    # Tensor cores drop the digits that lie below those of the largest of the sums they add.
    eps = {"bfloat16": 2.0**-8, "float16": 2.0**-10, "float32": 2.0**-18}[dtype]
    for tokens in (1, 3, 8, 16, 33, 100):
        x = crt.tensor(rng.normal(size=(tokens, columns)).astype(np.float32)).to(
            getattr(crt, dtype)
        )
        exact = x.to(crt.float32).numpy().astype(np.float64)
        got = crt.linear(x.to("cuda"), there)
        found = got.to(crt.float32).cpu().numpy()
        want = exact @ values.T.astype(np.float64)
        size = np.abs(exact) @ np.abs(values.T)
        dense = 2.0**-8 if tokens > 60 and dtype == "bfloat16" else 0  # the weight is rounded too
        assert (np.abs(found - want) <= (eps + dense) * size).all(), (
            tokens,
            np.abs(found - want).max(),
        )
        assert got.bytes() == crt.linear(x.to("cuda"), there).bytes()
        if tokens <= 8:
            alone = crt.linear(x[:1].to("cuda"), there).bytes()
            assert alone == got.bytes()[: len(alone)]
