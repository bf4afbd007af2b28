"""linear, dequantize and embedding over the schemes that are no GGUF types, on every level.

The reference takes the blocks apart in NumPy and torch, from what `plugin.h` says of them: e2m1,
e4m3, e5m2 and E8M0 are those of the OCP specifications (torch's own float8 types decode the
latter), NF4 the table of QLoRA."""

import numpy as np
import pytest
import torch
from harness import KernelError, Kernels, Packed, usable_levels
from packed_weights import both_layouts, fast_bound, outlying, same_bits
from test_linear_types import EXACT, FAST, MODES, NAMES, normal, product, run

import clika_runtime as crt
from clika_runtime.io import SCHEMES_BY_NAME

LEVELS = usable_levels()
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1 = np.concatenate([E2M1, 0 - E2M1])  # both zeros are the same number here
NF4 = np.array(
    "-1.0 -0.6961928009986877 -0.5250730514526367 -0.39491748809814453 -0.28444138169288635 "
    "-0.18477343022823334 -0.09105003625154495 0.0 0.07958029955625534 0.16093020141124725 "
    "0.24611230194568634 0.33791524171829224 0.44070982933044434 0.5626170039176941 "
    "0.7229568362236023 1.0".split(),
    np.float32,
)
FLOAT8 = {"FP8_E4M3": torch.float8_e4m3fn, "FP8_E5M2": torch.float8_e5m2}
INTEGER = ["MXFP4_E8M0", "NVFP4_E4M3", "INT4_G32", "INT4_G128", "INT8_G32"]
KINDS = [*INTEGER, "NF4", *FLOAT8]


def as_float8(codes: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    return torch.from_numpy(np.ascontiguousarray(codes)).view(dtype).float().numpy()


def pairs(codes: np.ndarray, even_low: bool = True) -> np.ndarray:
    """[..., n] bytes as [..., 2 n] codes."""
    low, high = codes & 15, codes >> 4
    both = (low, high) if even_low else (high, low)
    return np.stack(both, -1).reshape(*codes.shape[:-1], -1)


def halves(codes: np.ndarray) -> np.ndarray:
    """[..., n] bytes as codes, of each 16 bytes: 16 low halves, then 16 high ones."""
    split = codes.reshape(*codes.shape[:-1], -1, 16)
    return np.concatenate([split & 15, split >> 4], -1).reshape(*codes.shape[:-1], -1)


def floats(blocks: np.ndarray, at: int) -> np.ndarray:
    return np.ascontiguousarray(blocks[..., at : at + 4]).view(np.float32)


def decode(kind: str, blocks: np.ndarray) -> np.ndarray:
    """Blocks uint8 [rows, n, bytes] as float32 [rows, columns]."""
    columns = blocks.shape[1] * SCHEMES_BY_NAME[kind].columns
    if not blocks.size:
        return np.zeros((blocks.shape[0], columns), np.float32)
    with np.errstate(all="ignore"):
        if kind == "MXFP4_E8M0":
            e = blocks[..., 16:17].astype(np.int32)
            power = np.where(e == 255, np.nan, np.ldexp(1.0, e - 127)).astype(np.float32)
            values = E2M1[pairs(blocks[..., :16])] * power
        elif kind == "NVFP4_E4M3":
            scale = as_float8(blocks[..., 4:8], torch.float8_e4m3fn) * floats(blocks, 0)
            values = E2M1[pairs(blocks[..., 8:])] * np.repeat(scale, 16, -1)
        elif kind == "NF4":
            values = NF4[pairs(blocks[..., 4:], even_low=False)] * floats(blocks, 0)
        elif kind in FLOAT8:
            values = as_float8(blocks[..., 4:], FLOAT8[kind]) * floats(blocks, 0)
        elif kind == "INT8_G32":
            values = blocks[..., 4:].view(np.int8).astype(np.float32) * floats(blocks, 0)
        else:  # the sum is exact: the scales of these tests are float16, the zeros small
            codes = halves(blocks[..., 8:]).astype(np.float32)
            values = codes * floats(blocks, 0) + floats(blocks, 4)
    return values.astype(np.float32).reshape(blocks.shape[0], columns)


def random_blocks(kind: str, rows: int, count: int, seed: int = 0) -> np.ndarray:
    """Every code, scales of moderate size and both signs; no NaN."""
    own = SCHEMES_BY_NAME[kind]
    rng = np.random.default_rng([seed, rows, count, own.number])
    blocks = rng.integers(0, 256, (rows, count, own.nbytes), dtype=np.uint8)
    half = rng.uniform(0.01, 0.1, (rows, count, 1)) * rng.choice([-1, 1], (rows, count, 1))
    scale = half.astype(np.float16).astype(np.float32)
    if kind == "MXFP4_E8M0":
        blocks[..., 16] = rng.integers(118, 130, (rows, count))
        return blocks
    blocks[..., :4] = scale.view(np.uint8)
    if kind == "NVFP4_E4M3":
        blocks[..., 4:8] = rng.integers(0, 0x58, (rows, count, 4))
    elif kind in FLOAT8:
        codes = blocks[..., 4:]
        codes[(codes & 0x7F) >= (0x7F if kind == "FP8_E4M3" else 0x60)] = 0x05
    elif kind.startswith("INT4"):
        zero = rng.integers(0, 16, scale.shape).astype(np.float32)
        blocks[..., 4:8] = (-scale * zero).view(np.uint8)
    return blocks


def packed(kind: str, blocks: np.ndarray) -> Packed:
    own = SCHEMES_BY_NAME[kind]
    shape = (blocks.shape[0], blocks.shape[1] * own.columns)
    return Packed(torch.from_numpy(blocks.reshape(-1)), shape, own.number)


def weight_and_values(kind: str, rows: int, count: int) -> tuple[Packed, torch.Tensor]:
    blocks = random_blocks(kind, rows, count)
    return packed(kind, blocks), torch.tensor(decode(kind, blocks))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_values(level, kind):
    """dequantize and embedding give the values to the bit, published and packed."""
    kernels = Kernels(level)
    for rows, count in ((1, 1), (9, 3), (17, 4), (0, 2)):
        weight, dense = weight_and_values(kind, rows, count)
        for form in both_layouts(kernels, weight):
            (out,) = kernels("dequantize", [form], [torch.empty(weight.shape)], [torch.float32])
            assert out.shape == dense.shape
            if rows:
                assert same_bits(out, dense)
                ids = torch.tensor([rows - 1, 0])
                out = torch.empty(2, weight.shape[1])
                kernels("embedding", [form, ids], [out], [torch.float32])
                assert same_bits(out, dense[ids])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_byte(level, kind):
    """All bytes at all places of codes and small scales: subnormal numbers, infinities and NaN too.
    A product with one hot column is the column's value."""
    own = SCHEMES_BY_NAME[kind]
    kernels = Kernels(level)
    blocks = random_blocks(kind, 256, 1)
    every = (np.arange(256)[:, None] + np.arange(own.nbytes)[None]).astype(np.uint8)[:, None]
    kept = {"MXFP4_E8M0": 0, "INT4_G32": 8, "INT4_G128": 8}.get(kind, 4)
    blocks[..., kept:] = every[..., kept:]
    if kind == "NVFP4_E4M3":
        blocks[..., 4:8] &= 0x7F
    dense = torch.from_numpy(decode(kind, blocks))
    weight = packed(kind, blocks)
    for form in both_layouts(kernels, weight):
        (out,) = kernels("dequantize", [form], [torch.empty(weight.shape)], [torch.float32])
        assert torch.equal(out.isnan(), dense.isnan())
        assert torch.equal(out.nan_to_num(7.0), dense.nan_to_num(7.0))
        if not kind.startswith("MXFP4"):  # values that an infinite neighbour does not touch
            assert dense.isfinite().any()
        for column in (0, 1, own.columns - 1):
            x = torch.zeros(1, own.columns)
            x[0, column] = 1.0
            product_of_one = run(kernels, x, form)[0]
            clean = dense.isfinite().all(1)
            assert torch.equal(product_of_one[clean], dense[clean, column])
            assert product_of_one[dense.isnan().any(1)].isnan().all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_exact_mode(level, kind):
    """The bits of the float32 product with the decoded weight, which is within float32's rounding
    of the float64 one."""
    kernels = Kernels(level)
    for rows, count in ((1, 1), (9, 3), (70, 2)):
        weight, dense = weight_and_values(kind, rows, count)
        form = kernels.pack(weight, EXACT)
        for tokens in (1, 7):
            x = normal(tokens, weight.shape[1])
            out = run(kernels, x, form)
            bound = product(x.abs(), dense.abs()) * (weight.shape[1] + 4) * 2.0**-24 + 1e-30
            assert ((out.double() - product(x, dense)).abs() <= bound).all()
            assert same_bits(out, run(kernels, x, dense))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_fast_mode(level, kind):
    """Integer products for whole codes; the exact mode for codes that are floats."""
    kernels = Kernels(level)
    for rows, count in ((9, 3), (70, 6)):
        weight, dense = weight_and_values(kind, rows, count)
        form = kernels.pack(weight, FAST)
        for tokens in (1, 7):
            x = outlying(tokens, weight.shape[1])
            out = run(kernels, x, form, mode=FAST)
            if kind in INTEGER:
                error = (out.double() - product(x, dense)).abs()
                assert (error <= fast_bound(x, dense)).all()
            else:
                assert same_bits(out, run(kernels, x, form))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_the_same_bits_in_every_batch_split_and_layout(level, kind, mode):
    kernels = Kernels(level)
    weight, _ = weight_and_values(kind, 45, 6)
    x = outlying(20, weight.shape[1])
    bias = normal(45)
    published, form = both_layouts(kernels, weight)
    out = run(kernels, x, form, bias, mode)
    for i in (0, 19):
        assert same_bits(run(kernels, x[i : i + 1], form, bias, mode)[0], out[i])
    assert same_bits(run(kernels, x, published, bias, mode), out)
    assert same_bits(run(kernels, x[:1], published, bias, mode), out[:1])
    split = Kernels(level, threads=2, grain=1)
    assert same_bits(run(split, x, form, bias, mode), out)


@pytest.mark.parametrize("kind", KINDS)
def test_refusals(kind):
    kernels = Kernels()
    own = SCHEMES_BY_NAME[kind]
    weight, _ = weight_and_values(kind, 9, 2)
    columns = weight.shape[1]
    needed = 18 * own.nbytes
    with pytest.raises(KernelError, match=f"needs {needed} bytes, its payload has {needed - 1}"):
        run(kernels, normal(2, columns), Packed(weight.data[:-1], (9, columns), weight.scheme))
    short = columns - own.columns // 2
    with pytest.raises(KernelError, match=f"multiple of {own.columns} columns"):
        run(kernels, normal(2, short), Packed(weight.data, (9, short), weight.scheme))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", NAMES)
def test_through_the_core(kind, mode):
    weight, _ = weight_and_values(kind, 40, 2)
    tensor = crt.Tensor.from_buffer(
        weight.data.numpy(), weight.shape, crt.float32, scheme=weight.scheme, mapped=False
    )
    form = crt.pack_weight(tensor, "both")
    x = normal(7, weight.shape[1])
    out = np.asarray(crt.linear(crt.tensor(x.numpy()), form, mode=mode).numpy())
    kernels = Kernels()
    expected = run(kernels, x, kernels.pack(weight, 2), None, NAMES.index(mode))
    assert out.tobytes() == expected.numpy().tobytes()
