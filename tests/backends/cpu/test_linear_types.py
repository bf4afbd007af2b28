"""linear over every quantized type on every level: values, error bounds, and the same bits for
every batch, split and layout. test_linear.py has more shapes of three types."""

import numpy as np
import pytest
import torch
from harness import KernelError, Kernels, Packed, usable_levels
from packed_weights import (
    BLOCK,
    BLOCK_BYTES,
    SCHEMES,
    both_layouts,
    extreme_rows,
    fast_bound,
    outlying,
    random_weight,
    same_bits,
    values,
)

import clika_runtime as crt
from clika_runtime.testing import _numpy as kit

LEVELS = usable_levels()
EXACT, FAST = 0, 1
MODES = [EXACT, FAST]
NAMES = ["exact", "fast"]
#: (rows, blocks of a row): one row, a part of a group, more than a panel of four groups.
SHAPES = [(1, 1), (9, 3), (70, 2)]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def run(kernels, x, weight, bias=None, mode=EXACT) -> torch.Tensor:
    out = torch.full((*x.shape[:-1], weight.shape[0]), float("nan"), dtype=x.dtype)
    kernels("linear", [x, weight, bias], [out], [mode])
    return out


def product(x: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return x.double() @ dense.double().T


def enough(kind: str) -> int:
    """Columns of at least six blocks of 32: a row in which blocks may be refined."""
    return -(-192 // BLOCK[kind]) * BLOCK[kind]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_exact_mode(level, kind):
    """The bits of the float32 product with the decoded weight, which is within float32's rounding
    of the float64 one."""
    kernels = Kernels(level)
    for rows, blocks in SHAPES:
        columns = blocks * BLOCK[kind]
        weight = random_weight(kind, rows, columns)
        dense = values(kind, weight)
        packed = kernels.pack(weight, EXACT)
        for tokens in (1, 7):
            x = normal(tokens, columns)
            out = run(kernels, x, packed)
            bound = product(x.abs(), dense.abs()) * (columns + 4) * 2.0**-24 + 1e-30
            assert ((out.double() - product(x, dense)).abs() <= bound).all()
            assert same_bits(out, run(kernels, x, dense))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_fast_mode(level, kind):
    kernels = Kernels(level)
    for rows, blocks in (*SHAPES, (19, enough(kind) // BLOCK[kind])):
        columns = blocks * BLOCK[kind]
        weight = random_weight(kind, rows, columns)
        dense = values(kind, weight)
        packed = kernels.pack(weight, FAST)
        for tokens in (1, 7):
            for x in (normal(tokens, columns), outlying(tokens, columns)):
                error = (run(kernels, x, packed, mode=FAST).double() - product(x, dense)).abs()
                assert (error <= fast_bound(x, dense)).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_extreme_bytes(level, kind):
    """Codes and small scales at their ends, and activations whose bytes are: no sum saturates."""
    kernels = Kernels(level)
    columns = enough(kind)
    random = random_weight(kind, 16, columns).data.view(16 * columns // BLOCK[kind], -1)
    for byte in (0x00, 0xFF, 0x80, 0x7F, 0x55):
        blocks = torch.full_like(random, byte)
        for at in kit.SCHEMES[kind]:
            blocks[:, at : at + 2] = random[:, at : at + 2]
        if kind == "IQ1_M":
            blocks[:, 49::2] = (blocks[:, 49::2] & 15) | (random[:, 49::2] & 240)
        if kind == "MXFP4":
            blocks[:, 0] = random[:, 0]
        weight = Packed(blocks.reshape(-1), (16, columns), SCHEMES[kind])
        dense = values(kind, weight)
        packed = kernels.pack(weight, 2)
        x = extreme_rows(columns)
        expected = product(x, dense)
        # The codes and the minimum may cancel, each is at most 0.02 * 63; sums are float32.
        bound = product(x.abs(), dense.abs() + 0.02 * 63 * 2) * (columns + 4) * 2.0**-24
        for mode in MODES:
            out = run(kernels, x, packed, mode=mode)
            assert ((out.double() - expected).abs() <= bound).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("mode", MODES)
def test_the_same_bits_in_every_batch_split_and_layout(level, kind, mode):
    columns = enough(kind) + BLOCK[kind]
    weight = random_weight(kind, 45, columns)
    bias = normal(45)
    x = outlying(20, columns)
    kernels = Kernels(level)
    published, packed = both_layouts(kernels, weight)
    out = run(kernels, x, packed, bias, mode)
    for i in (0, 7, 19):
        assert same_bits(run(kernels, x[i : i + 1], packed, bias, mode)[0], out[i])
    parts = [run(kernels, part, packed, bias, mode) for part in x.split(7)]
    assert same_bits(torch.cat(parts), out)
    assert same_bits(run(kernels, x, published, bias, mode), out)
    assert same_bits(run(kernels, x[:1], published, bias, mode), out[:1])
    for threads, grain in ((2, None), (2, 1)):
        split = Kernels(level, threads=threads, grain=grain)
        for form in (published, packed):
            assert same_bits(run(split, x, form, bias, mode), out)
    narrow, short = x.bfloat16(), bias.bfloat16()
    wide = run(kernels, narrow.float(), packed, short.float(), mode)
    assert same_bits(run(kernels, narrow, packed, short, mode), wide.bfloat16())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_refusals(level, kind):
    kernels = Kernels(level)
    columns = 2 * BLOCK[kind]
    weight = random_weight(kind, 9, columns)
    needed = 18 * BLOCK_BYTES[kind]
    with pytest.raises(KernelError, match=f"needs {needed} bytes, its payload has {needed - 1}"):
        run(kernels, normal(2, columns), Packed(weight.data[:-1], (9, columns), weight.scheme))
    short = columns - BLOCK[kind] // 2
    with pytest.raises(KernelError, match=f"multiple of {BLOCK[kind]} columns"):
        run(kernels, normal(2, short), Packed(weight.data, (9, short), weight.scheme))
    packed = kernels.pack(weight, 2)
    cut = Packed(packed.data[:-1], packed.shape, packed.scheme, packed.layout)
    with pytest.raises(KernelError, match="its payload has"):
        run(kernels, normal(2, columns), cut)


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("mode", NAMES)
def test_through_the_core(kind, mode):
    """The kernel is chosen by its name, also for the weight as published."""
    columns = enough(kind)
    weight = random_weight(kind, 40, columns)
    tensor = crt.Tensor.from_buffer(
        weight.data.numpy(), weight.shape, crt.float32, scheme=weight.scheme, mapped=False
    )
    packed = crt.pack_weight(tensor, "both")
    x = outlying(7, columns)
    out = np.asarray(crt.linear(crt.tensor(x.numpy()), packed, mode=mode).numpy())
    kernels = Kernels()
    expected = run(kernels, x, kernels.pack(weight, 2), None, NAMES.index(mode))
    assert out.tobytes() == expected.numpy().tobytes()
    published = crt.linear(crt.tensor(x.numpy()), tensor, mode=mode).numpy()
    assert np.asarray(published).tobytes() == out.tobytes()
