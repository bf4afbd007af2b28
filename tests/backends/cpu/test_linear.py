"""linear on every level: values, error bounds, and the same bits for every batch, split and
layout."""

import numpy as np
import pytest
import torch
from harness import KernelError, Kernels, Packed, usable_levels
from packed_weights import (
    both_layouts,
    extreme_rows,
    fast_bound,
    outlying,
    random_weight,
    same_bits,
    values,
)

import clika_runtime as crt

LEVELS = usable_levels()
FLOATS = [torch.float32, torch.bfloat16, torch.float16]
EXACT, FAST = 0, 1
MODES = [EXACT, FAST]
SCHEMES = ["Q4_0", "Q4_1", "Q8_0"]  # test_linear_types.py has the others
SHAPES = [(1, 32), (7, 64), (8, 96), (9, 576), (17, 32), (40, 160)]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def run(kernels, x, weight, bias=None, mode=EXACT) -> torch.Tensor:
    out = torch.full((*x.shape[:-1], weight.shape[0]), float("nan"), dtype=x.dtype)
    kernels("linear", [x, weight, bias], [out], [mode])
    return out


def product(x: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return x.double() @ dense.double().T


def rounding(x: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """A bound of what a float32 sum over K in order may be off by."""
    k = x.shape[-1]
    return product(x.abs(), dense.abs()) * (k + 4) * 2.0**-24 + 1e-30


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_exact_mode_is_within_float32_rounding(level, kind, rows, columns):
    kernels = Kernels(level)
    weight = random_weight(kind, rows, columns)
    dense = values(kind, weight)
    packed = kernels.pack(weight, EXACT)
    for tokens in (1, 2, 3, 5, 17):
        x = normal(tokens, columns)
        out = run(kernels, x, packed)
        assert ((out.double() - product(x, dense)).abs() <= rounding(x, dense)).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_fast_mode_is_within_its_bound(level, kind, rows, columns):
    kernels = Kernels(level)
    weight = random_weight(kind, rows, columns)
    dense = values(kind, weight)
    packed = kernels.pack(weight, FAST)
    for tokens in (1, 2, 3, 5, 17):
        for x in (normal(tokens, columns), outlying(tokens, columns)):
            error = (run(kernels, x, packed, mode=FAST).double() - product(x, dense)).abs()
            assert (error <= fast_bound(x, dense)).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_fast_mode_is_exact_on_its_codes(level, kind):
    """With the largest code in every block the codes are the activations: only the sums may
    round."""
    kernels = Kernels(level)
    weight = random_weight(kind, 19, 96)
    x = torch.randint(-127, 128, (6, 96), generator=torch.Generator().manual_seed(3)).float()
    x.view(6, 3, 32)[:, :, 5] = 127
    x.view(6, 3, 32)[:, 1, 6] = -127
    dense = values(kind, weight)
    out = run(kernels, x, kernels.pack(weight, FAST), mode=FAST)
    tolerance = (product(x.abs(), dense.abs()) + product(x.abs(), torch.ones(19, 96))) * 2.0**-21
    assert ((out.double() - product(x, dense)).abs() <= tolerance).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_second_codes_pay(level, kind):
    """A row in which one block has nearly all of the size: without second codes its error would be
    that of a step of that block."""
    kernels = Kernels(level)
    weight = random_weight(kind, 33, 576)
    dense = values(kind, weight)
    x = normal(9, 576)
    x[:, 40] = 500.0
    out = run(kernels, x, kernels.pack(weight, FAST), mode=FAST)
    error = (out.double() - product(x, dense)).square().mean()
    rough = (500 / 127) ** 2 / 12 * dense[:, 32:64].double().square().sum(1).mean()
    assert error <= rough / 400


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_extreme_codes_do_not_saturate(level, kind):
    """Every code at its end, and the codes of every activation at theirs: sums of 16 bits reach
    their most."""
    kernels = Kernels(level)
    for code in (0x00, 0xFF, 0x80, 0x7F):
        weight = random_weight(kind, 16, 192)
        blocks = weight.data.view(16, 6, -1)
        blocks[:, :, 2 if kind != "Q4_1" else 4 :] = code
        dense = values(kind, weight)
        x = extreme_rows(192)
        size = product(x.abs(), dense.abs()) + product(x.abs(), torch.full_like(dense, 0.2))
        for mode in MODES:
            out = run(kernels, x, kernels.pack(weight, 2), mode=mode)
            assert ((out.double() - product(x, dense)).abs() <= size * 2.0**-19).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tokens", [2, 7, 64, 300])
def test_a_row_has_the_same_bits_in_every_batch(level, kind, mode, tokens):
    kernels = Kernels(level)
    weight = random_weight(kind, 21, 288)
    bias = normal(21)
    x = outlying(tokens, 288)
    published, packed = both_layouts(kernels, weight)
    out = run(kernels, x, packed, bias, mode)
    for i in range(0, tokens, 1 if tokens < 10 else 11):
        assert same_bits(run(kernels, x[i : i + 1], packed, bias, mode)[0], out[i])
    for chunk in (1, 5, 64):
        if tokens < 300 or chunk > 1:
            parts = [run(kernels, part, packed, bias, mode) for part in x.split(chunk)]
            assert same_bits(torch.cat(parts), out)
    assert same_bits(run(kernels, x, published, bias, mode), out)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tokens", [1, 3, 65])
def test_threads_and_splits_change_no_bit(level, kind, mode, tokens):
    weight = random_weight(kind, 195, 192)
    x = outlying(tokens, 192)
    one = Kernels(level)
    expected = run(one, x, one.pack(weight, 2), mode=mode)
    for threads, grain in ((2, None), (2, 1), (3, 2), (1, 1)):
        kernels = Kernels(level, threads=threads, grain=grain)
        for form in both_layouts(kernels, weight):
            assert same_bits(run(kernels, x, form, mode=mode), expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_inputs_round_once_at_the_end(level, kind, mode, dtype):
    kernels = Kernels(level)
    weight = random_weight(kind, 18, 192)
    packed = kernels.pack(weight, 2)
    for tokens in (1, 6):
        x = outlying(tokens, 192, dtype=dtype)
        bias = normal(18, dtype=dtype)
        wide = run(kernels, x.float(), packed, bias.float(), mode)
        assert same_bits(run(kernels, x, packed, bias, mode), wide.to(dtype))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("weight_dtype", FLOATS)
@pytest.mark.parametrize("x_dtype", FLOATS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 5), (9, 576), (17, 33), (40, 130)])
def test_dense(level, weight_dtype, x_dtype, rows, columns):
    kernels = Kernels(level)
    dense = normal(rows, columns, seed=5).to(weight_dtype)
    bias = normal(rows, dtype=x_dtype)
    for tokens in (1, 2, 3, 7, 64):
        x = normal(tokens, columns, dtype=x_dtype)
        out = run(kernels, x, dense, bias)
        wide = run(kernels, x.float(), dense, bias.float())
        assert same_bits(out, wide.to(x_dtype))
        expected = product(x, dense) + bias.double()
        bound = rounding(x, dense) + bias.double().abs() * 2.0**-23
        assert ((wide.double() - expected).abs() <= bound).all()
        for i in range(0, tokens, 9):
            assert same_bits(run(kernels, x[i : i + 1], dense, bias)[0], out[i])
        two = Kernels(level, threads=2, grain=1)
        assert same_bits(run(two, x, dense, bias), out)


@pytest.mark.parametrize("level", LEVELS)
def test_exact_equals_dense_over_the_decoded_weight(level):
    """One order of sums for all: packed exact products have the bits of dense float32 ones."""
    kernels = Kernels(level)
    x = normal(7, 288)
    for kind in SCHEMES:
        weight = random_weight(kind, 21, 288)
        packed = kernels.pack(weight, EXACT)
        assert same_bits(run(kernels, x, packed), run(kernels, x, values(kind, weight)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", MODES)
def test_empty_sizes(level, mode):
    kernels = Kernels(level)
    weight = random_weight("Q4_1", 9, 64)
    assert run(kernels, torch.empty(0, 64), weight, mode=mode).shape == (0, 9)
    assert run(kernels, torch.empty(2, 0, 64), weight, mode=mode).shape == (2, 0, 9)
    assert run(kernels, normal(3, 64), random_weight("Q4_1", 0, 64), mode=mode).shape == (3, 0)
    bias = normal(4)
    out = run(kernels, torch.empty(3, 0), torch.empty(4, 0), bias)
    assert same_bits(out, bias.expand(3, 4))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", MODES)
def test_leading_sizes_are_tokens(level, mode):
    kernels = Kernels(level)
    weight = kernels.pack(random_weight("Q8_0", 9, 64), 2)
    x = normal(2, 3, 64)
    flat = run(kernels, x.view(6, 64), weight, mode=mode)
    assert same_bits(run(kernels, x, weight, mode=mode), flat.view(2, 3, 9))
    assert same_bits(run(kernels, x[0, 0], weight, mode=mode), flat[0])
    swapped = normal(64, 6).t()  # the core makes it contiguous first
    assert same_bits(
        run(kernels, swapped, weight, mode=mode),
        run(kernels, swapped.contiguous(), weight, mode=mode),
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_activations_that_are_zero_tiny_or_not_finite(level, kind):
    kernels = Kernels(level)
    weight = kernels.pack(random_weight(kind, 9, 64), 2)
    x = normal(5, 64)
    clean = run(kernels, x, weight, mode=FAST)
    x[1, :32] = 0.0
    x[2] = 1e-40
    x[3, 7] = float("nan")
    x[4, 40] = float("inf")
    out = run(kernels, x, weight, mode=FAST)
    assert same_bits(out[0], clean[0])
    assert torch.isfinite(out[1]).all()
    assert (out[2].abs() < 1e-35).all()
    assert torch.isnan(out[3]).all()
    assert not torch.isfinite(out[4]).any()
    assert same_bits(run(kernels, torch.zeros(1, 64), weight, mode=FAST), torch.zeros(1, 9))


@pytest.mark.parametrize("level", LEVELS)
def test_refusals(level):
    kernels = Kernels(level)
    weight = random_weight("Q4_1", 9, 64)
    with pytest.raises(KernelError, match="got 32 and 64"):
        run(kernels, normal(2, 32), weight)
    with pytest.raises(KernelError, match="the bias must have the weight's 9 rows"):
        run(kernels, normal(2, 64), weight, normal(8))
    with pytest.raises(KernelError, match="needs 360 bytes, its payload has 359"):
        run(kernels, normal(2, 64), Packed(weight.data[:-1], (9, 64), weight.scheme))
    with pytest.raises(KernelError, match="multiple of 32 columns"):
        run(kernels, normal(2, 60), Packed(weight.data, (9, 60), weight.scheme))
    with pytest.raises(KernelError, match="layout 5"):
        run(kernels, normal(2, 64), Packed(weight.data, (9, 64), weight.scheme, 5))
    other = Kernels(LEVELS[0] if level != LEVELS[0] else LEVELS[-1]).pack(weight, 2)
    if other.layout != kernels.pack(weight, 2).layout:
        with pytest.raises(KernelError, match="groups of"):
            run(kernels, normal(2, 64), other)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_levels_agree_within_rounding(level, kind):
    weight = random_weight(kind, 24, 576)
    x = normal(5, 576)
    outs = {}
    for name in {level, "portable"}:
        kernels = Kernels(name)
        outs[name] = [run(kernels, x, kernels.pack(weight, 2), mode=mode) for mode in MODES]
    for a, b in zip(outs[level], outs["portable"], strict=True):
        # A quantized activation at a rounding tie may fall either way between levels.
        assert (a - b).abs().max() <= 2e-5 * b.abs().max()


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_through_the_core(kind, mode):
    weight = random_weight(kind, 40, 576)
    tensor = crt.Tensor.from_buffer(
        weight.data.numpy(), weight.shape, crt.float32, scheme=weight.scheme, mapped=False
    )
    packed = crt.pack_weight(tensor, "both")
    x = normal(7, 576)
    inputs = crt.tensor(x.numpy())
    bias = crt.tensor(normal(40).numpy())
    out = np.asarray(crt.linear(inputs, packed, bias, mode=mode).numpy())
    kernels = Kernels()
    expected = run(kernels, x, kernels.pack(weight, 2), normal(40), MODES[mode == "fast"])
    assert out.tobytes() == expected.numpy().tobytes()
    published = crt.linear(inputs, tensor, bias, mode=mode).numpy()
    assert np.asarray(published).tobytes() == out.tobytes()
