"""Copies, casts, indexing, sorting, reductions, matmul and factories against torch."""

import pytest
import torch
from harness import KernelError, Kernels, usable_levels

LEVELS = usable_levels()
F32, BF16, F16, F64 = torch.float32, torch.bfloat16, torch.float16, torch.float64
INTS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
DTYPES = [F32, BF16, F16, F64, *INTS, torch.bool]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


@pytest.fixture(params=LEVELS, scope="module")
def cpu(request):
    return Kernels(request.param, threads=2)


@pytest.fixture(scope="module")
def plain():
    return Kernels("portable", threads=2)


def numbers(dtype, *shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=g).bool()
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=g, dtype=F64) * 5).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -50, 50, shape, generator=g).to(dtype)


def raw(x):
    return x.view(torch.uint8) if x.dtype.itemsize == 1 else x


# ---------------------------------------------------------------- copies
@pytest.mark.parametrize("dtype", DTYPES + FLOAT8[:1], ids=str)
def test_copy_of_strided_tensors(plain, dtype):
    base = numbers(F32, 4, 6, 10).to(dtype)
    for view in (
        base,
        base.permute(2, 0, 1),
        base[1:3, ::2, 3:],
        base[:, :1].expand(4, 6, 10),
        base[2, 3, 4],
    ):
        out = torch.zeros(view.shape).to(dtype)
        plain("copy", [view], [out])
        assert torch.equal(raw(out), raw(view.contiguous()))


def test_copy_into_broadcasts_and_writes_through_views(plain):
    target = torch.zeros(4, 6)
    view, source = target[:, 1:5:2], torch.arange(2.0)
    plain("copy_", [view, source], [view])
    want = torch.zeros(4, 6)
    want[:, 1:5:2] = source
    assert torch.equal(target, want)


def test_large_copy_is_split(plain):
    x = numbers(F32, 700, 800)
    out = torch.zeros(800, 700)
    plain("copy", [x.t()], [out])
    assert torch.equal(out, x.t())


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(plain, dim):
    parts = [
        numbers(BF16, *[3 + i if d == dim % 3 else 4 for d in range(3)], seed=i) for i in range(3)
    ]
    parts[1] = parts[1].transpose(0, 2).contiguous().transpose(0, 2)
    want = torch.cat(parts, dim)
    (got,) = plain("cat", [parts], [torch.zeros_like(want)], attrs=[dim])
    assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_full(plain, dtype):
    value = torch.tensor(1).to(dtype)
    (got,) = plain("full", [value], [torch.zeros(3, 5).to(dtype)], attrs=[[3, 5], None, None])
    assert torch.equal(got, torch.full((3, 5), 1).to(dtype))


# ---------------------------------------------------------------- casts
@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_cast(cpu, source, to):
    x = numbers(source, 7, 333)
    if not to.is_floating_point and to != torch.bool and source.is_floating_point:
        x = x.abs()
    out = torch.zeros(x.shape).to(to)
    cpu("cast", [x], [out], attrs=[to])
    assert torch.equal(out, x.to(to))
    cpu("cast", [x.t()], [torch.zeros(333, 7).to(to)], attrs=[to])


def test_cast_rounds_once_and_to_even(cpu):
    x = torch.arange(0x3F800000 - 70000, 0x3F800000 + 70000, dtype=torch.int32).view(F32)
    special = torch.tensor(
        [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 65519.9, 65520, 3e38]
    )
    tiny = torch.arange(1, 3000, dtype=torch.int32).mul(5003).view(F32)
    x = torch.cat([x, special, tiny, torch.linspace(-7e-5, 7e-5, 5001)])
    for to in (BF16, F16):
        out = torch.zeros(x.shape, dtype=to)
        cpu("cast", [x], [out], attrs=[to])
        want = x.to(to)
        nan = torch.isnan(want)
        assert torch.equal(torch.isnan(out), nan)
        assert torch.equal(out[~nan].view(torch.int16), want[~nan].view(torch.int16))
        every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(to)
        wide = torch.zeros(every.shape)
        cpu("cast", [every], [wide], attrs=[F32])
        torch.testing.assert_close(wide, every.float(), rtol=0, atol=0, equal_nan=True)
    big = torch.tensor([2**53 + 1, 2**24 + 1, -(2**24) - 3, 2**62 + 2**38 + 1])
    (got,) = cpu("cast", [big], [torch.zeros(4)], attrs=[F32])
    assert torch.equal(got, big.float())


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_float8(plain, dtype):
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
    (wide,) = plain("cast", [every], [torch.zeros(256)], attrs=[F32])
    torch.testing.assert_close(wide, every.float(), rtol=0, atol=0, equal_nan=True)
    g = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(4000, generator=g) * 2.0**e for e in (-18, -10, -7, 0, 5, 8)])
    x = torch.cat([x, wide, torch.tensor([0.0, -0.0, float("nan"), 1e-30, -1e-30])])
    out = torch.zeros(x.shape).to(dtype)
    plain("cast", [x], [out], attrs=[dtype])
    limit = torch.finfo(dtype).max
    inside = (x.abs() <= limit) | torch.isnan(x)  # beyond it libraries differ: some saturate
    assert torch.equal(raw(out)[inside], raw(x.to(dtype))[inside])


def test_large_unsigned(plain):
    x = torch.tensor([2.0**63, 2.0**64 - 2048, 5.0], dtype=F64)
    (got,) = plain("cast", [x], [torch.zeros(3, dtype=torch.uint64)], attrs=[torch.uint64])
    assert got.tolist() == [2**63, 2**64 - 2048, 5]
    (back,) = plain("cast", [got], [torch.zeros(3, dtype=F64)], attrs=[F64])
    assert torch.equal(back, x)


# ---------------------------------------------------------------- where, clamp
@pytest.mark.parametrize("dtype", [F32, BF16, torch.int64, torch.uint8], ids=str)
def test_where(plain, dtype):
    c, a, b = numbers(torch.bool, 3, 1, 50), numbers(dtype, 4, 50), numbers(dtype, 3, 4, 1, seed=1)
    want = torch.where(c, a, b)
    (got,) = plain("where", [c, a, b], [torch.zeros_like(want)])
    assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [F32, BF16, F64, torch.int32], ids=str)
def test_clamp(plain, dtype):
    x = numbers(dtype, 5, 60)
    low, high = torch.tensor(-2).to(dtype), numbers(dtype, 60, seed=1).abs()
    for a, b in ((low, high), (low, None), (None, high)):
        want = x if a is None else torch.maximum(x, a)
        want = want if b is None else torch.minimum(want, b)
        (got,) = plain("clamp", [x, a, b], [torch.zeros_like(x)])
        assert torch.equal(got, want)


# ---------------------------------------------------------------- indexing
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select(plain, dim, index_dtype):
    x = numbers(BF16, 5, 6, 7).transpose(0, 1)
    index = torch.tensor([4, 0, 0, 2], dtype=index_dtype)
    want = torch.index_select(x, dim, index.long())
    (got,) = plain("index_select", [x, index], [torch.zeros_like(want).contiguous()], attrs=[dim])
    assert torch.equal(got, want)
    for bad in (-1, 7):
        index[1] = bad
        with pytest.raises(KernelError, match="outside"):
            plain("index_select", [x, index], [torch.zeros_like(want)], attrs=[dim])


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather(plain, dim):
    x = numbers(F32, 5, 6, 7)
    index = torch.randint(0, 5, (3, 4, 5), generator=torch.Generator().manual_seed(0))
    want = torch.gather(x, dim, index)
    (got,) = plain("gather", [x, index], [torch.zeros(want.shape)], attrs=[dim])
    assert torch.equal(got, want)
    index[0, 0, 0] = 99
    with pytest.raises(KernelError, match="outside"):
        plain("gather", [x, index], [torch.zeros(want.shape)], attrs=[dim])


# ---------------------------------------------------------------- order
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [F32, BF16, F64, torch.int32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("dim", [0, -1])
def test_sort(plain, dim, dtype, descending):
    x = numbers(dtype, 40, 90)
    if dtype == F32:
        x[3, 4] = x[7, 70] = x[3, 60] = float("nan")
    values, indices = plain(
        "sort",
        [x],
        [torch.zeros_like(x), torch.zeros(x.shape, dtype=torch.int64)],
        attrs=[dim, descending],
    )
    want = torch.sort(x, dim=dim, descending=descending, stable=True)
    torch.testing.assert_close(values, want.values, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(indices, want.indices)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 5, 40])
@pytest.mark.parametrize("dtype", [F32, BF16, torch.int64], ids=str)
def test_topk(plain, dtype, k, largest):
    x = numbers(dtype, 40, 12)
    outs = [torch.zeros(k, 12, dtype=dtype), torch.zeros(k, 12, dtype=torch.int64)]
    values, indices = plain("topk", [x], outs, attrs=[k, 0, largest, True])
    want = torch.sort(x, dim=0, descending=largest, stable=True)
    assert torch.equal(values, want.values[:k])
    assert torch.equal(indices, want.indices[:k])


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [F32, BF16, F16, F64, torch.int32, torch.uint8], ids=str)
def test_argmax(cpu, dtype, op):
    x = numbers(dtype, 7, 301)
    if dtype.is_floating_point:
        x[3, 200] = x[3, 100] = float("nan")
        x[5] = float("inf")
        x[6] = -float("inf")
    for dim in (None, 0, 1, -1):  # NumPy also lets the first NaN and the first of equals win
        want = torch.as_tensor(getattr(x.double().numpy(), op)(dim))
        (got,) = cpu(op, [x], [torch.zeros(want.shape, dtype=torch.int64)], attrs=[dim, False])
        assert torch.equal(got, want), dim
    t = x.t()
    (got,) = cpu(op, [t], [torch.zeros(301, dtype=torch.int64)], attrs=[1, False])
    (want,) = cpu(op, [t.contiguous()], [torch.zeros(301, dtype=torch.int64)], attrs=[1, False])
    assert torch.equal(got, want)


def test_argmax_of_a_vocabulary_takes_the_first_of_equals(cpu):
    x = numbers(F32, 2, 49152)
    x[0, 40000] = x[0, 300] = x[1, 49151] = 99.0
    (got,) = cpu("argmax", [x], [torch.zeros(2, dtype=torch.int64)], attrs=[-1, False])
    assert got.tolist() == [300, 49151]


# ---------------------------------------------------------------- reductions
DIMS = [None, 0, 1, -1, [0, 2], [1, 2], [0, 1, 2]]


@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16, F64, torch.int64], ids=str)
@pytest.mark.parametrize("op", ["sum", "mean", "prod", "amax", "amin"])
def test_reductions(cpu, op, dtype, dim):
    if op == "mean" and not dtype.is_floating_point:
        return
    x = numbers(dtype, 6, 35, 40)
    if op == "prod":
        x = torch.where(x > 4, torch.ones_like(x), x / x if dtype.is_floating_point else x.sign())
        x = torch.where(x == 0, torch.ones_like(x), x)
        if dtype.is_floating_point:
            x = (x + 0.001).nan_to_num(nan=1.0)
    wide = x if dtype in (F64, torch.int64) else x.double()
    if op == "prod":
        want = wide
        for d in sorted(
            range(3) if dim is None else [dim] if isinstance(dim, int) else dim, reverse=True
        ):
            want = want.prod(d)
    elif dim is None:
        want = getattr(wide, op)()
    else:
        want = getattr(wide, op)(dim)
    out = torch.zeros(want.shape, dtype=dtype)
    cpu(
        op,
        [x],
        [out],
        attrs=[None if dim is None else [dim] if isinstance(dim, int) else dim, False],
    )
    tolerance = {F32: 2e-6, BF16: 8e-3, F64: 1e-12, torch.int64: 0}[dtype]
    if op == "prod" and dtype == F32:
        tolerance = x.numel() / want.numel() * 2.0**-24  # each product rounds once
    scale = wide.abs().sum().item() * 1e-9 if tolerance and op == "sum" else tolerance * 4
    torch.testing.assert_close(
        out.to(want.dtype), want, rtol=tolerance, atol=max(scale, tolerance * 20)
    )
    turned = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)  # the same values, other strides
    again = torch.zeros_like(out)
    cpu(
        op,
        [turned],
        [again],
        attrs=[None if dim is None else [dim] if isinstance(dim, int) else dim, False],
    )
    torch.testing.assert_close(
        again.to(want.dtype), want, rtol=tolerance, atol=max(scale, tolerance * 20)
    )


def test_reductions_hand_nan_on_and_take_empty(cpu):
    x = numbers(F32, 3, 500)
    x[1, 250] = float("nan")
    for op in ("sum", "mean", "prod", "amax", "amin"):
        (got,) = cpu(op, [x], [torch.zeros(3)], attrs=[[1], False])
        assert torch.isnan(got).tolist() == [False, True, False]
        (got,) = cpu(op, [x.t().contiguous()], [torch.zeros(3)], attrs=[[0], False])
        assert torch.isnan(got).tolist() == [False, True, False]
    empty = torch.zeros(2, 0)
    for op, want in (("sum", 0.0), ("prod", 1.0), ("mean", float("nan"))):
        (got,) = cpu(op, [empty], [torch.full((2,), 9.0)], attrs=[[1], False])
        torch.testing.assert_close(got, torch.full((2,), want), equal_nan=True)


def test_sums_do_not_depend_on_batch_or_split(cpu):
    x = numbers(F32, 70, 1003)
    (whole,) = cpu("sum", [x], [torch.zeros(70)], attrs=[[1], False])
    for i in range(5):
        (one,) = cpu("sum", [x[i : i + 1]], [torch.zeros(1)], attrs=[[1], False])
        assert torch.equal(one, whole[i : i + 1])


def test_truth(plain):
    x = numbers(torch.bool, 30, 40)
    x[3], x[4] = True, False
    for op in ("any", "all"):
        for dim in (0, 1):
            (got,) = plain(
                op, [x], [torch.zeros(x.shape[1 - dim], dtype=torch.bool)], attrs=[[dim], False]
            )
            assert torch.equal(got, getattr(torch, op)(x, dim))


# ---------------------------------------------------------------- matmul
SHAPES = [
    ((5,), (5,)),
    ((3, 5), (5,)),
    ((5,), (5, 7)),
    ((1, 300), (300, 33)),
    ((13, 70), (70, 100)),
    ((2, 3, 4, 16), (3, 16, 9)),
    ((3, 1, 6, 8), (1, 4, 8, 6)),
    ((4, 0), (0, 3)),
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize("dtype", [F32, BF16, F16, F64, torch.int32], ids=str)
@pytest.mark.parametrize("a, b", SHAPES, ids=str)
def test_matmul(cpu, a, b, dtype):
    x, y = numbers(dtype, *a), numbers(dtype, *b, seed=1)
    want = torch.matmul(x.double(), y.double()).to(dtype)
    (got,) = cpu("matmul", [x, y], [torch.zeros(want.shape, dtype=dtype)])
    tolerance = {F32: 1e-5, BF16: 8e-3, F16: 1e-3, F64: 1e-12, torch.int32: 0}[dtype]
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * 100)


def test_matmul_of_transposed_operands(cpu):
    x, y = numbers(F32, 40, 30), numbers(F32, 50, 40, seed=1)
    want = torch.matmul(x.t().contiguous().double(), y.t().contiguous().double()).float()
    (got,) = cpu("matmul", [x.t(), y.t()], [torch.zeros(30, 50)])
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-3)


def test_matmul_rows_do_not_depend_on_batch_or_split():
    for level in LEVELS:
        x, y = numbers(F32, 64, 200), numbers(F32, 200, 77, seed=1)
        (whole,) = Kernels(level)("matmul", [x, y], [torch.zeros(64, 77)])
        (split,) = Kernels(level, threads=2, grain=1)("matmul", [x, y], [torch.zeros(64, 77)])
        assert torch.equal(whole, split)
        for size in (1, 5, 13):
            (part,) = Kernels(level)("matmul", [x[:size], y], [torch.zeros(size, 77)])
            assert torch.equal(part, whole[:size])


# ---------------------------------------------------------------- factories
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, F32, BF16, F64], ids=str)
def test_arange(plain, dtype):
    for args in ((300,), (5, 300), (3, 100, 7), (100, 3, -3)):
        want = torch.arange(*args, dtype=F64).to(dtype)
        attrs = [*args, *[None, None, 1][len(args) :]] if len(args) < 3 else list(args)
        (got,) = plain(
            "arange", [], [torch.zeros(want.shape, dtype=dtype)], attrs=[*attrs, dtype, None]
        )
        assert torch.equal(got, want)
    if dtype.is_floating_point:
        want = torch.arange(0.5, 40.0, 0.25, dtype=F64).to(dtype)
        (got,) = plain(
            "arange",
            [],
            [torch.zeros(want.shape, dtype=dtype)],
            attrs=[0.5, 40.0, 0.25, dtype, None],
        )
        assert torch.equal(got, want)


def philox(key, low, high=0):
    """The definition, with Python integers."""
    mask = 0xFFFFFFFF
    c = [low & mask, low >> 32 & mask, high & mask, high >> 32 & mask]
    k = [key & mask, key >> 32 & mask]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
        k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
    return c


def test_philox_known_answers():
    ones = (1 << 64) - 1
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(ones, ones, ones) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize("dtype", [F32, BF16, F64], ids=str)
def test_rand(plain, dtype):
    seed, offset = 0x1234567890ABCDEF, 3
    (got,) = plain(
        "rand", [], [torch.zeros(101).to(dtype)], attrs=[[101], None, None], scalars=[seed, offset]
    )
    want = torch.tensor([(philox(seed, i // 4, offset)[i % 4] >> 8) * 2.0**-24 for i in range(101)])
    assert torch.equal(got, want.to(dtype))


def test_randn(plain):
    (got,) = plain("randn", [], [torch.zeros(40001)], attrs=[[40001], None, None], scalars=[7, 0])
    assert abs(got.mean()) < 0.02
    assert abs(got.std() - 1) < 0.02
    words = philox(7, 0)
    u, v = ((words[0] >> 8) + 1) * 2.0**-24, (words[1] >> 8) * 2.0**-24
    r = (-2 * torch.tensor(u, dtype=F64).log()).sqrt()
    angle = torch.tensor(2 * torch.pi * v, dtype=F64)
    torch.testing.assert_close(
        got[:2].double(), torch.stack([r * angle.cos(), r * angle.sin()]), rtol=1e-5, atol=1e-6
    )
    (again,) = plain("randn", [], [torch.zeros(10)], attrs=[[10], None, None], scalars=[7, 0])
    assert torch.equal(again, got[:10])
