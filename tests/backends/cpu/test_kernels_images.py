"""Large products, convolutions, pooling, resampling, norms of channels and attention, at every
level and split, against torch."""

import pytest
import torch
from harness import Kernels, usable_levels

F = torch.nn.functional
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(params=usable_levels(), scope="module")
def cpu(request):
    return Kernels(request.param, threads=2)


def rand(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def last(x):
    return x.movedim(1, -1).contiguous()


def first(x):
    return x.movedim(-1, 1)


def close(got, want, terms=1):
    """Sums of so many terms of size 1: an error of some roundings of their root."""
    relative = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}[got.dtype]
    absolute = relative * max(1.0, terms**0.5)
    torch.testing.assert_close(got.double(), want.double(), rtol=2 * relative, atol=2 * absolute)


# ---------------------------------------------------------------- products
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(150, 700, 90), (61, 1100, 130), (300, 33, 500)], ids=str)
def test_large_products(cpu, shape, dtype):
    m, k, n = shape
    x, y = rand(m, k, dtype=dtype), rand(k, n, dtype=dtype, seed=1)
    want = x.double() @ y.double()
    for left, right in ((x, y), (x.t().contiguous().t(), y), (x, y.t().contiguous().t())):
        (got,) = cpu("matmul", [left, right], [torch.zeros(m, n, dtype=dtype)])
        close(got, want.to(dtype), k)


def test_rows_of_large_products_do_not_depend_on_the_others():
    x, y = rand(200, 1000), rand(1000, 150, seed=1)
    for level in usable_levels():
        whole = None
        for threads in (1, 2, 5):
            (got,) = Kernels(level, threads=threads)("matmul", [x, y], [torch.zeros(200, 150)])
            whole = got if whole is None else whole
            assert torch.equal(got, whole)
        (few,) = Kernels(level)("matmul", [x[150:153], y], [torch.zeros(3, 150)])
        assert torch.equal(few, whole[150:153])


# ---------------------------------------------------------------- convolutions
CONV = [
    # channels, made, kernel, stride, padding, dilation, groups
    (20, 40, 3, 1, 1, 1, 1),
    (3, 64, 7, 2, 3, 1, 1),
    (16, 33, 1, 1, 0, 1, 1),
    (12, 24, 3, 2, 2, 2, 3),
    (37, 37, 3, 1, 1, 1, 37),
    (18, 36, 3, 2, 1, 1, 18),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", CONV, ids=str)
def test_convolutions(cpu, case, dtype):
    channels, made, kernel, stride, padding, dilation, groups = case
    x = rand(2, channels, 13, 14, dtype=dtype)
    w = rand(made, channels // groups, kernel, kernel, dtype=dtype, seed=1)
    b = rand(made, seed=2)
    want = F.conv2d(x.double(), w.double(), b.double(), stride, padding, dilation, groups)
    attrs = [[stride], [padding], [dilation], groups]
    out = torch.full_like(last(want), 9).to(dtype)
    (got,) = cpu("conv2d", [last(x), last(w), b], [out], attrs)
    close(got, last(want), channels // groups * kernel * kernel)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", CONV, ids=str)
def test_transposed_convolutions(cpu, case, dtype):
    channels, made, kernel, stride, padding, dilation, groups = case
    x = rand(2, channels, 7, 6, dtype=dtype)
    w = rand(channels, made // groups, kernel, kernel, dtype=dtype, seed=1)
    want = F.conv_transpose2d(x.double(), w.double(), None, stride, padding, 0, groups, dilation)
    attrs = [[stride], [padding], [0], groups, [dilation]]
    out = torch.full_like(last(want), 9).to(dtype)
    (got,) = cpu("conv_transpose2d", [last(x), last(w), None], [out], attrs)
    close(got, last(want), channels // groups * kernel * kernel)


# ---------------------------------------------------------------- the rest
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pooling(cpu, dtype):
    x = rand(2, 131, 9, 8, dtype=dtype)
    want, at = F.max_pool2d(x.float(), 3, 2, 1, return_indices=True)
    outs = [torch.full_like(last(want), 9).to(dtype), torch.zeros_like(last(at))]
    attrs = [[3], [2], [1], [1], False, True]
    got, places = cpu("max_pool2d", [last(x)], outs, attrs)
    assert torch.equal(got.float(), last(want)) and torch.equal(places, last(at))
    want = F.avg_pool2d(x.double(), 3, 2, 1, count_include_pad=False)
    out = torch.full_like(last(want), 9).to(dtype)
    (got,) = cpu("avg_pool2d", [last(x)], [out], [[3], [2], [1], False, False, None])
    close(got, last(want))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resampling(cpu, mode, dtype):
    x = rand(2, 5, 9, 8, dtype=dtype)
    want = F.interpolate(x.double(), (5, 20), mode=mode)
    out = torch.full_like(last(want), 9).to(dtype)
    code = {"bilinear": 3, "bicubic": 4}[mode]
    attrs = [[5, 20], None, code, None, None, False]
    (got,) = cpu("interpolate", [last(x)], [out], attrs)
    close(got, last(want), 4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_norms_of_channels(cpu, dtype):
    x = rand(3, 12, 7, 8, dtype=dtype)
    w, b = rand(12, seed=1), rand(12, seed=2)
    want = F.group_norm(x.double(), 3, w.double(), b.double(), 1e-5)
    out = torch.full_like(last(x), 9)
    (got,) = cpu("group_norm", [last(x), w, b], [out], [3], [1e-5])
    close(got, last(want), 4)
    want = F.batch_norm(x.double(), None, None, w.double(), b.double(), True)
    (got,) = cpu("batch_norm", [last(x), None, None, w, b], [out], [True], [0.1, 1e-5])
    close(got, last(want), 4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(cpu, causal, dtype):
    q, k, v = (rand(2, 3, n, 24, dtype=dtype, seed=n) for n in (70, 130, 131))
    v = v[:, :, :130, :21]
    want = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    out = torch.full_like(want, 9).to(dtype)
    inputs = [q, k, v, None]
    op = "scaled_dot_product_attention"
    (got,) = cpu(op, inputs, [out], [causal, False], [0.0, None, 0.0])
    close(got, want, 4)
    (alone,) = cpu(
        op, [q[:, :, 5:6], k, v, None], [out[:, :, :1].clone()], [False, False], [0.0, None, 0.0]
    )
    if not causal:
        assert torch.equal(alone, got[:, :, 5:6])
