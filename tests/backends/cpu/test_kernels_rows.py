"""Norms, softmax, rotary, swiglu: right against torch, and the same bits for every batch and
split."""

import pytest
import torch
from harness import Kernels, usable_levels

LEVELS = usable_levels()
FLOATS = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


@pytest.fixture(params=LEVELS, scope="module")
def level(request):
    return request.param


def rand(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(got, want, tolerance=None):
    t = tolerance or TOLERANCE[got.dtype]
    torch.testing.assert_close(got.double(), want.double(), rtol=4 * t, atol=2 * t)


def bits(x):
    return x.view(torch.int32 if x.dtype == torch.float32 else torch.int16)


def outputs_like(inputs, op):
    return [torch.full_like(inputs[0], 9) for _ in range(2 if op == "add_rms_norm" else 1)]


# ---------------------------------------------------------------- values
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("length", [1, 7, 64, 100, 576])
@pytest.mark.parametrize("weight", [None, "same", torch.float32])
def test_rms_norm(level, length, weight, dtype):
    cpu = Kernels(level)
    x = rand(3, 4, length, dtype=dtype)
    w = None if weight is None else rand(length, seed=1).to(dtype if weight == "same" else weight)
    for offset in (0.0, 1.0):
        (got,) = cpu("rms_norm", [x, w], [torch.zeros_like(x)], scalars=[1e-5, offset])
        y = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-5).sqrt()
        close(got, y if w is None else y * (w.double() + offset))


def test_rms_norm_of_strided_rows(level):
    x = rand(5, 6, 96)
    view = x[:, ::2, 32:64]
    w = rand(32, seed=1)
    cpu = Kernels(level, threads=2)
    (got,) = cpu("rms_norm", [view, w], [torch.zeros(5, 3, 32)], scalars=[1e-6, 0.0])
    (want,) = cpu("rms_norm", [view.contiguous(), w], [torch.zeros(5, 3, 32)], scalars=[1e-6, 0.0])
    assert torch.equal(got, want)
    turned = x.transpose(1, 2)
    (got,) = cpu("rms_norm", [turned, None], [torch.zeros(5, 96, 6)], scalars=[1e-6, 0.0])
    (want,) = cpu(
        "rms_norm", [turned.contiguous(), None], [torch.zeros(5, 96, 6)], scalars=[1e-6, 0.0]
    )
    assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_add_rms_norm_is_add_and_norm_to_the_bit(level, dtype):
    cpu = Kernels(level)
    x, r, w = (
        rand(5, 70, dtype=dtype),
        rand(5, 70, dtype=dtype, seed=1),
        rand(70, dtype=dtype, seed=2),
    )
    norm, total = cpu(
        "add_rms_norm",
        [x, r, None, None, w, None],
        [torch.zeros_like(x), torch.zeros_like(x)],
        attrs=[None],
        scalars=[0.0, 1e-5],
    )
    assert torch.equal(total, x + r)
    (want,) = cpu("rms_norm", [total, w], [torch.zeros_like(x)], scalars=[1e-5, 0.0])
    assert torch.equal(bits(norm), bits(want))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("length", [1, 13, 64, 100])
def test_layer_norm(level, length, dtype):
    cpu = Kernels(level)
    x = rand(7, length, dtype=dtype) + 3
    w, b = rand(length, dtype=dtype, seed=1), rand(length, seed=2)
    for weight, bias in ((w, b), (w, None), (None, b), (None, None)):
        (got,) = cpu("layer_norm", [x, weight, bias], [torch.zeros_like(x)], scalars=[1e-5])
        want = torch.nn.functional.layer_norm(
            x.double(),
            (length,),
            None if weight is None else weight.double(),
            None if bias is None else bias.double(),
            1e-5,
        )
        close(got, want, None if dtype != torch.float32 else 4e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("dim", [-1, 0, 1])
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax(level, op, dim, dtype):
    cpu = Kernels(level)
    x = (rand(5, 33, 70) * 10).to(dtype)
    (got,) = cpu(op, [x], [torch.zeros_like(x)], attrs=[dim])
    close(got, getattr(torch, op)(x.double(), dim), 4e-6 if dtype == torch.float32 else None)


def test_softmax_of_extremes(level):
    inf = float("inf")
    x = torch.tensor([[0.0, -inf, 5, -300], [inf, 0, 0, 0], [-inf] * 4, [1e38, -1e38, 0, 1e38]])
    (got,) = Kernels(level)("softmax", [x], [torch.zeros_like(x)], attrs=[-1])
    torch.testing.assert_close(got, x.softmax(-1), equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_swiglu(level, dtype):
    gate, up = rand(4, 2, 50, dtype=dtype), rand(4, 2, 50, dtype=dtype, seed=1)
    fused = torch.cat([gate, up], -1)
    (got,) = Kernels(level)("swiglu", [fused[..., :50], fused[..., 50:]], [torch.zeros_like(gate)])
    close(got, torch.nn.functional.silu(gate.double()) * up.double())


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_geglu(level, dtype, approximate):
    gate, up = rand(4, 2, 50, dtype=dtype), rand(4, 2, 50, dtype=dtype, seed=1)
    fused = torch.cat([gate, up], -1)
    inputs = [fused[..., :50], fused[..., 50:]]
    (got,) = Kernels(level)(
        "geglu", inputs, [torch.zeros_like(gate)], attrs=[approximate == "tanh"]
    )
    close(got, torch.nn.functional.gelu(gate.double(), approximate=approximate) * up.double())


def rotary_reference(x, positions, frequencies, interleaved, scale):
    angle = positions.float()[:, None] * frequencies[None]
    cos, sin = (angle.double().cos() * scale)[:, None], (angle.double().sin() * scale)[:, None]
    x = x.double()
    r = frequencies.shape[-1]
    a, b = (
        (x[..., 0 : 2 * r : 2], x[..., 1 : 2 * r : 2])
        if interleaved
        else (x[..., :r], x[..., r : 2 * r])
    )
    first, second = a * cos - b * sin, b * cos + a * sin
    turned = (
        torch.stack([first, second], -1).flatten(-2)
        if interleaved
        else torch.cat([first, second], -1)
    )
    return torch.cat([turned, x[..., 2 * r :]], -1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("size, turned", [(64, 64), (80, 80), (96, 24), (6, 2)])
def test_rotary(level, size, turned, interleaved, dtype):
    x = rand(9, 3, size, dtype=dtype)
    positions = torch.tensor([0, 1, 2, 3, 100, 4095, 131071, 7, 500000])
    frequencies = 10000.0 ** (-torch.arange(turned // 2) / max(1, turned // 2))
    for p in (positions, positions.to(torch.int32)):
        (got,) = Kernels(level)(
            "rotary",
            [x, p, frequencies],
            [torch.zeros_like(x)],
            attrs=[interleaved],
            scalars=[1.25],
        )
        close(got, rotary_reference(x, positions, frequencies, interleaved, 1.25))


def test_rotary_of_strided_heads_and_several_axes(level):
    cpu = Kernels(level)
    fused = rand(5, 4, 96)
    x = fused[..., 32:64]
    positions = torch.arange(15, dtype=torch.int32).reshape(3, 5)
    frequencies = torch.zeros(3, 16)
    for axis, part in enumerate((slice(0, 5), slice(5, 11), slice(11, 16))):
        frequencies[axis, part] = 0.9 ** torch.arange(part.start, part.stop)
    (got,) = cpu(
        "rotary", [x, positions, frequencies], [torch.zeros(5, 4, 32)], attrs=[False], scalars=[1.0]
    )
    angle = (positions.float()[:, :, None] * frequencies[:, None]).sum(0)
    for t in range(5):
        want = rotary_reference(x[t : t + 1], torch.ones(1), angle[t], False, 1.0)
        close(got[t : t + 1], want)


# ---------------------------------------------------------------- bits
CASES = {
    "rms_norm": lambda x: ([x, rand(x.shape[-1], seed=3)], [], [1e-6, 0.0]),
    "add_rms_norm": lambda x: (
        [x, x * 0.5, None, None, rand(x.shape[-1], seed=3), None],
        [None],
        [0.0, 1e-6],
    ),
    "layer_norm": lambda x: ([x, rand(x.shape[-1], seed=3), None], [], [1e-6]),
    "softmax": lambda x: ([x], [-1], []),
    "log_softmax": lambda x: ([x], [-1], []),
    "swiglu": lambda x: ([x, x * 0.5], [], []),
    "geglu": lambda x: ([x, x * 0.5], [1], []),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("op", CASES)
@pytest.mark.parametrize("length", [576, 101])
def test_rows_do_not_depend_on_batch_or_split(level, op, length, dtype):
    x = rand(64, length, dtype=dtype)
    inputs, attrs, scalars = CASES[op](x)
    whole = Kernels(level)(op, inputs, outputs_like(inputs, op), attrs, scalars)
    split = Kernels(level, threads=2, grain=5)(op, inputs, outputs_like(inputs, op), attrs, scalars)
    for a, b in zip(whole, split, strict=True):
        assert torch.equal(bits(a), bits(b))
    cpu = Kernels(level)
    for size in (1, 5, 7):
        for begin in range(0, 21, size):
            part, _, _ = CASES[op](x[begin : begin + size])
            got = cpu(op, part, outputs_like(part, op), attrs, scalars)
            for a, b in zip(got, whole, strict=True):
                assert torch.equal(bits(a), bits(b[begin : begin + size]))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_does_not_depend_on_batch_or_split(level, interleaved):
    x, positions = rand(64, 5, 36), torch.arange(1000, 1064, dtype=torch.int32)
    frequencies = 0.8 ** torch.arange(18)

    def run(cpu, part):
        y = torch.zeros_like(x[part])
        return cpu("rotary", [x[part], positions[part], frequencies], [y], [interleaved], [1.0])[0]

    whole = run(Kernels(level), slice(0, 64))
    assert torch.equal(whole, run(Kernels(level, threads=2, grain=3), slice(0, 64)))
    for size in (1, 7):
        for begin in range(0, 28, size):
            part = slice(begin, begin + size)
            assert torch.equal(whole[part], run(Kernels(level), part))
