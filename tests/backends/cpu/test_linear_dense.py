"""Dense weights with their rows interleaved: the packed form and the way back on every level, and
products, rows and values with the bits of the weight as published."""

import pytest
import torch
from harness import DTYPES, KernelError, Kernels, Packed, usable_levels
from packed_weights import outlying, random_weight, same_bits

LEVELS = usable_levels()
FLOATS = [torch.float32, torch.bfloat16, torch.float16]
GROUP = 32
SHAPES = [(32, 1), (33, 7), (64, 130), (100, 577), (95, 64)]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def packed(kernels: Kernels, weight: torch.Tensor) -> Packed:
    found = kernels.pack(weight, 2)
    assert found is not None
    return found


def linear(kernels, x, weight, bias=None) -> torch.Tensor:
    out = torch.full((*x.shape[:-1], weight.shape[0]), float("nan"), dtype=x.dtype)
    kernels("linear", [x, weight, bias], [out], [0])
    return out


def every_number(dtype: torch.dtype) -> torch.Tensor:
    """All numbers of a 16-bit dtype (NaNs too), or as many random bit patterns."""
    if dtype is torch.float32:
        generator = torch.Generator().manual_seed(1)
        bits = torch.randint(-(2**31), 2**31, (256, 256), generator=generator)
        return bits.to(torch.int32).view(dtype)
    return torch.arange(65536).to(torch.int32).to(torch.int16).view(dtype).reshape(256, 256)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_packed_form(level, dtype, rows, columns):
    """Column k of row r lies at (group * K + k) * 32 + r % 32, whatever the level; zeros follow."""
    weight = normal(rows, columns, dtype=dtype)
    found = packed(Kernels(level), weight)
    groups = -(-rows // GROUP)
    whole = torch.zeros(groups * GROUP, columns, dtype=dtype)
    whole[:rows] = weight
    expected = whole.view(groups, GROUP, columns).transpose(1, 2).contiguous()
    assert (found.layout, found.scheme, found.dtype) == (GROUP, 0, DTYPES[dtype])
    assert torch.equal(found.data, expected.view(torch.uint8).reshape(-1))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_unpacked_is_as_published(level, dtype):
    for weight in (every_number(dtype), *(normal(*shape, dtype=dtype) for shape in SHAPES)):
        for threads, grain in ((1, None), (2, 1)):
            kernels = Kernels(level, threads=threads, grain=grain)
            form = packed(kernels, weight)
            bits = weight.reshape(-1).view(torch.uint8)
            assert torch.equal(kernels.unpack(form).data, bits)


@pytest.mark.parametrize("level", LEVELS)
def test_what_stays_as_published(level):
    """Few rows, no columns, other dtypes, other ranks, rows that do not follow each other."""
    kernels = Kernels(level)
    for mode in (0, 1, 2):
        assert kernels.pack(torch.zeros(31, 64), mode) is None
        assert kernels.pack(torch.zeros(64, 64, dtype=torch.float64), mode) is None
        assert kernels.pack(torch.zeros(64, 64, dtype=torch.int32), mode) is None
        assert kernels.pack(torch.zeros(2, 64, 64), mode) is None
        assert kernels.pack(torch.zeros(64, 0), mode) is None
        assert kernels.pack(torch.zeros(64, 128)[:, ::2], mode) is None
        assert kernels.pack(torch.zeros(64, 64).t()[:, :32], mode) is None


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("weight_dtype", FLOATS)
@pytest.mark.parametrize("x_dtype", FLOATS)
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_both_forms_give_the_same_bits(level, weight_dtype, x_dtype, rows, columns):
    """For every number of tokens, beside the product in float64."""
    kernels = Kernels(level)
    weight = normal(rows, columns, seed=5, dtype=weight_dtype)
    form = packed(kernels, weight)
    bias = normal(rows, dtype=x_dtype)
    x = outlying(40, columns, dtype=x_dtype) if columns > 7 else normal(40, columns, dtype=x_dtype)
    expected = linear(kernels, x, weight, bias)
    exact = x.double() @ weight.double().T
    size = x.double().abs() @ weight.double().abs().T + bias.double().abs()
    off = (linear(kernels, x.float(), form, bias.float()).double() - exact - bias.double()).abs()
    assert (off <= size * (columns + 5) * 2.0**-24 + 1e-30).all()
    for tokens in (*range(1, 10), 17, 40):
        assert same_bits(linear(kernels, x[:tokens], form, bias), expected[:tokens]), tokens
    assert same_bits(linear(kernels, x[9], form), linear(kernels, x[9], weight))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("tokens", [1, 3, 8, 65])
def test_threads_and_splits_change_no_bit(level, dtype, tokens):
    weight = normal(195, 192, dtype=dtype)
    x = outlying(tokens, 192)
    one = Kernels(level)
    expected = linear(one, x, weight)
    for threads, grain in ((1, None), (2, None), (2, 1), (3, 2), (1, 1)):
        kernels = Kernels(level, threads=threads, grain=grain)
        assert same_bits(linear(kernels, x, packed(kernels, weight)), expected)


def gated(a: torch.Tensor, b: torch.Tensor, kernels: Kernels) -> torch.Tensor:
    out = torch.empty_like(a)
    kernels("swiglu", [a, b], [out])
    return out


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("x_dtype", FLOATS)
@pytest.mark.parametrize("mode", [0, 1])
def test_several_products_are_those_of_linear(level, dtype, x_dtype, mode):
    """However many tokens, threads and splits; other weights, and such as published, beside
    them."""
    sizes = (100, 100, 33, 64)
    weights = [normal(rows, 96, seed=i, dtype=dtype) for i, rows in enumerate(sizes)]
    biases = [normal(rows, seed=9) for rows in sizes]
    one = Kernels(level)
    quantized = random_weight("Q8_0", 64, 96)
    for tokens in (1, 3, 8, 20):
        x = outlying(tokens, 96, dtype=x_dtype)
        wanted = [linear(one, x, w, b) for w, b in zip(weights, biases, strict=True)]
        other = torch.empty(tokens, 64, dtype=x_dtype)
        one("linear", [x, quantized, biases[3]], [other], [mode])
        for threads, grain in ((1, None), (2, 1), (3, 2)):
            kernels = Kernels(level, threads=threads, grain=grain)
            forms = [packed(kernels, weight) for weight in weights]
            for given, expected in (
                (forms, wanted),
                ([forms[0], weights[1], forms[2], quantized], [*wanted[:3], other]),
            ):
                found = [torch.empty_like(y) for y in expected]
                kernels("linears", [x, given, biases], found, [mode])
                assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))
            expected = gated(wanted[0], wanted[1], one)
            for pair in (forms[:2], [forms[0], weights[1]], weights[:2]):
                out = torch.empty_like(expected)
                kernels("gated_linear", [x, *pair, *biases[:2]], [out], [0, mode])
                assert same_bits(out, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_that_are_tiny_or_not_finite(level, dtype):
    """Each number of the weight meets a one alone: it comes out as it is."""
    kernels = Kernels(level)
    weight = every_number(dtype)
    form = packed(kernels, weight)
    for tokens in (1, 5, 20):
        for first in (0, 117):
            x = torch.zeros(tokens, 256)
            for t in range(tokens):
                x[t, (first + t) % 256] = 1.0
            found, wanted = linear(kernels, x, form), linear(kernels, x, weight)
            both = torch.isnan(found) & torch.isnan(wanted)
            assert (both | (found == wanted)).all()
            column = weight[:, first].float()
            clean = torch.isfinite(weight.float()).all(1)
            assert torch.equal(found[0][clean], column[clean])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
def test_rows_and_values(level, source, target):
    kernels = Kernels(level, threads=2, grain=1)
    table = normal(70, 37, dtype=source)
    form = packed(kernels, table)
    ids = torch.tensor([[69, 0, 31], [32, 32, 7]])
    rows = torch.empty(2, 3, 37, dtype=target)
    kernels("embedding", [form, ids], [rows], [target])
    assert same_bits(rows, table[ids].to(target))
    values = torch.empty(70, 37, dtype=target)
    kernels("dequantize", [form], [values], [target])
    assert same_bits(values, table.to(target))


@pytest.mark.parametrize("level", LEVELS)
def test_refusals(level):
    kernels = Kernels(level)
    weight = normal(40, 64)
    form = packed(kernels, weight)
    cut = Packed(form.data[:-1], form.shape, 0, form.layout)
    other = Packed(form.data, form.shape, 0, 16)
    x = normal(2, 64)
    rows, values = torch.empty(1, 64), torch.empty(40, 64)
    for wrong, message in ((cut, "needs 16384 bytes, its payload has 16383"), (other, "layout 16")):
        with pytest.raises(KernelError, match=message):
            linear(kernels, x, wrong)
        with pytest.raises(KernelError, match=message):
            kernels("embedding", [wrong, torch.tensor([39])], [rows], [None])
        with pytest.raises(KernelError, match=message):
            kernels("dequantize", [wrong], [values], [None])
        with pytest.raises(KernelError, match=message):
            kernels.unpack(wrong)
    with pytest.raises(KernelError, match="the output needs 10240 bytes, it has 10239"):
        kernels.unpack(form, short=1)
    with pytest.raises(KernelError, match="got 32 and 64"):
        linear(kernels, normal(2, 32), form)
    with pytest.raises(KernelError, match="packed already, in layout 32"):
        kernels.pack(form, 2)
