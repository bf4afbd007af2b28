"""Weights of every form on the kernels compiled for the host: numbers against the CPU backend and
NumPy, the layout of packed weights and its way back, products over all forms and numbers of
tokens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
START = """
import numpy as np
from clika_runtime._native._core import Tensor, pack_weight, unpack_weight
from clika_runtime.testing._numpy import block_size, decode_blocks, random_blocks, scheme_number
rng = np.random.default_rng(17)
TILED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
def weight(name, rows, blocks):
    data = random_blocks(rng, name, rows, blocks * block_size(name)[0])
    values = decode_blocks(data, name)
    there = Tensor.from_buffer(data.tobytes(), values.shape, crt.float32,
                               scheme=scheme_number(name), mapped=False)
    return there.to("cuda"), values, data.tobytes()
def drawn(*shape):
    return crt.tensor(rng.normal(size=shape).astype(np.float32))
def number(x):
    return x.to(crt.float32).cpu().numpy()
def close(got, x, values, eps):
    x, values = x.astype(np.float64), values.astype(np.float64)
    error = np.abs(number(got) - x @ values.T)
    return bool((error <= eps * (np.abs(x) @ np.abs(values).T) + 1e-30).all())
"""
# The largest error in units of the sum of the products' magnitudes: sums in float32 (of float32
# inputs, three exact parts), the result rounded to its dtype.
EPS = {"float32": 2.0**-21, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def test_layout_and_back(machine):
    """Rows and columns that do not fill a tile among them; the published bytes come back, and so do
    the numbers."""
    answer = machine.ask(
        START
        + """
answer = []
for name in TILED:
    for rows, blocks in ((16, 4), (37, 3), (1, 1)):
        published, values, data = weight(name, rows, blocks)
        packed = pack_weight(published)
        answer.append([
            name, packed.layout == 1, unpack_weight(packed).bytes() == data,
            crt.dequantize(packed).cpu().numpy().tobytes() == values.tobytes(),
            crt.embedding(packed, crt.tensor([0, rows - 1], device="cuda")).cpu().numpy().tobytes()
            == values[[0, rows - 1]].tobytes()])
answer.append(["table", pack_weight(published, "table").layout == 0])
answer.append(["dense", pack_weight(crt.ones(16, 16, device="cuda")).layout == 0])
"""
    )
    assert [row for row in answer if not all(row)] == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EPS)
def test_products_with_tiles(machine, dtype):
    """Few tokens and more than one launch takes, of weights whose columns do not fill a step."""
    answer = machine.ask(
        START
        + """
answer = []
for name in TILED:
    packed, values, _ = weight(name, 37, 9 if block_size(name)[0] == 32 else 2)
    packed = pack_weight(packed)
    for tokens in TOKENS:
        x = crt.tensor(rng.normal(size=(tokens, values.shape[1])).astype(np.float32)).to(crt.DTYPE)
        bias = crt.tensor(rng.normal(size=37).astype(np.float32)).to(crt.DTYPE)
        given = x.to(crt.float32).numpy()
        there, many = x.to("cuda"), crt.linear(x.to("cuda"), packed)
        biased = crt.linear(there, packed, bias.to("cuda"))
        rows = [crt.linear(there[i : i + 1], packed).bytes() for i in (0, tokens - 1)]
        size = len(rows[0])
        wanted = many.bytes()
        answer.append([name, tokens, close(many, given, values, EPS),
            np.allclose(number(biased), number(many) + number(bias), rtol=2 * EPS, atol=80 * EPS),
            rows == [wanted[:size], wanted[-size:]]])
""".replace("DTYPE", dtype)
        .replace("TOKENS", "(1, 3, 11)" if dtype == "float32" else "(1, 9, 33)")
        .replace("EPS", repr(EPS[dtype]))
    )
    assert [row for row in answer if not all(row)] == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_with_dense_weights(machine, dtype):
    """Of the tensor cores' kernel, of the library with a bias in its epilogue, and of columns that
    neither takes."""
    answer = machine.ask(
        START
        + """
answer = []
for columns in (8, 72, 1000, 65):
    for tokens in (1, 5, 16, 17):
        w, x, b = (crt.tensor(rng.normal(size=shape).astype(np.float32)).to(crt.DTYPE)
                   for shape in ((50, columns), (tokens, columns), (50,)))
        given = np.concatenate([number(x), np.ones((tokens, 1), np.float32)], 1)
        values = np.concatenate([number(w), number(b)[:, None]], 1)
        got = crt.linear(x.to("cuda"), w.to("cuda"), b.to("cuda"))
        wide = crt.linear(x.to(crt.float32).to("cuda"), w.to("cuda"), b.to(crt.float32).to("cuda"))
        answer.append([columns, tokens, close(got, given, values, EPS),
                       close(wide, given, values, 2.0**-21)])
""".replace("DTYPE", dtype).replace("EPS", repr(EPS[dtype]))
    )
    assert [row for row in answer if not all(row)] == []


def test_lists_and_gates_are_single_products(machine):
    """`linears` gives the bits of `linear`; `gated_linear` in float32 those of its parts."""
    answer = machine.ask(
        START
        + """
answer = []
kinds = {"Q4_K": [weight("Q4_K", rows, 2)[0] for rows in (40, 16, 3, 40, 8)],
         "Q8_0": [weight("Q8_0", rows, 5)[0] for rows in (40, 16, 3, 40, 8)],
         "dense": [drawn(rows, 160).to(crt.bfloat16).to("cuda")
                   for rows in (40, 16, 3, 40, 8)]}
for name, weights in kinds.items():
    weights = [pack_weight(w) for w in weights]
    for tokens in (1, 4):
        x = drawn(tokens, weights[0].shape[1]).to("cuda")
        for dtype in (crt.float32, crt.bfloat16):
            x = x.to(dtype)
            many = crt.linears(x, weights)
            single = [crt.linear(x, w) for w in weights]
            same = [a.bytes() for a in many] == [b.bytes() for b in single]
            answer.append([name, tokens, same])
            for kind in ("swiglu", "geglu", "geglu_tanh"):
                got = crt.gated_linear(x, weights[0], weights[3], None, None, kind)
                a, b = single[0], single[3]
                parts = crt.swiglu(a, b) if kind == "swiglu" else crt.geglu(
                    a, b, "tanh" if kind == "geglu_tanh" else "none")
                if dtype == crt.float32:
                    answer.append([name, kind, got.bytes() == parts.bytes()])
                else:
                    p, q = number(got), number(parts)
                    bound = 2**-6 * np.abs(q).max()
                    answer.append([name, kind, np.allclose(p, q, rtol=2**-6, atol=bound)])
"""
    )
    assert [row for row in answer if not all(row)] == []


def test_many_tokens_meet_a_dense_form(machine):
    """A weight whose dense form is larger than the scratch is multiplied piece by piece."""
    answer = machine.ask(
        START
        + """
# Published blocks: more than 512 (float32) or 1024 rows of 16384 columns do not fit.
x = drawn(9, 16384)
answer = []
for dtype, rows, eps in ((crt.float32, 600, 2.0**-21), (crt.bfloat16, 1030, 2.0**-7)):
    packed, values, _ = weight("Q8_0", rows, 512)
    given = x.to(dtype)
    bias = crt.tensor(np.ones(rows, np.float32)).to(crt.float16)
    got = crt.linear(given.to("cuda"), packed)
    answer.append(close(got, number(given), values, eps))
    more = crt.linear(given.to("cuda"), packed, bias.to("cuda"))
    answer.append(np.allclose(number(more), number(got) + 1, rtol=2 * eps, atol=2 * eps))
"""
    )
    assert all(answer)


def test_many_tokens_without_the_library(machine, tmp_path):
    """Every form has a way of its own, if a slow one."""
    answer = machine.ask(
        START
        + """
answer = []
published, values, _ = weight("Q8_0", 20, 3)
dense = drawn(20, 96).to(crt.bfloat16)
weights = ((published, values), (pack_weight(published), values), (dense.to("cuda"), number(dense)))
for there, known in weights:
    for dtype, eps in ((crt.bfloat16, 2.0**-8), (crt.float32, 2.0**-21)):
        x = drawn(70, 96).to(dtype)
        answer.append(close(crt.linear(x.to("cuda"), there), number(x), known, eps))
""",
        CLIKA_RT_CUDA_CUBLASLT=str(tmp_path / "none.so"),
    )
    assert answer == [True] * 6


def test_forms_of_our_own_are_the_cpu_backend_s(machine):
    """The gguf package does not know them; NaN codes and scales among the random bytes."""
    answer = machine.ask(
        START
        + """
answer = []
OWN = (("MXFP4_E8M0", 48, 32, 17), ("NVFP4_E4M3", 49, 64, 40), ("NF4", 50, 64, 36),
       ("FP8_E4M3", 51, 32, 36), ("FP8_E5M2", 52, 32, 36), ("INT4_G32", 53, 32, 24),
       ("INT4_G128", 54, 128, 72), ("INT8_G32", 55, 32, 36))
for name, scheme, columns, size in OWN:
    data = rng.integers(0, 256, (9, 3, size), dtype=np.uint8)
    if size % 4 == 0:
        count = 2 if name.startswith("INT4") else 1
        floats = rng.uniform(0.002, 0.02, (9, 3, count)).astype(np.float32)
        data[..., : 4 * floats.shape[-1]] = floats.view(np.uint8)
    here = Tensor.from_buffer(data.tobytes(), (9, 3 * columns), crt.float32, scheme=scheme,
                              mapped=False)
    there = here.to("cuda")
    a, b = crt.dequantize(there).cpu().numpy(), crt.dequantize(here).numpy()
    x = rng.normal(size=(3, 3 * columns)).astype(np.float32)
    finite = np.isfinite(b).all(1)
    got = crt.linear(crt.tensor(x).to("cuda"), there).cpu().numpy()[:, finite]
    want = x.astype(np.float64) @ b[finite].T.astype(np.float64)
    size = np.abs(x) @ np.abs(b[finite]).T
    answer.append([name, np.array_equal(a, b, equal_nan=True),
                   bool((np.abs(got - want) <= 2.0**-21 * size).all())])
"""
    )
    assert [row for row in answer if not all(row)] == []


def test_ids_outside_a_packed_table(machine):
    answer = machine.ask(
        START
        + """
table = weight("Q8_0", 4, 1)[0]
answer = said(crt.embedding(table, crt.tensor([1, 4], device="cuda")).cpu)[2]
"""
    )
    assert answer == "embedding: index 4 is outside 0 .. 3"


def test_grids_are_those_of_the_cpu_backend():
    """Two packages, one table of published constants."""

    def numbers(path: Path) -> list[tuple[str, list[str]]]:
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"constexpr [\w ]+ (k\w+)\[\d+\] = \{([^}]*)\}", text)
        return [(name, re.findall(r"\w+", values)) for name, values in found]

    here = numbers(ROOT / "plugins/cuda/src/clika_runtime_cuda/device/grids.cuh")
    assert here == numbers(ROOT / "plugins/cpu/kernels/iq_grids.hpp")
    assert len(here) == 9
