"""Elementwise kernels against torch: dtypes, broadcasting, strides, special values, splits."""

import pytest
import torch
from harness import KernelError, Kernels, usable_levels

LEVELS = usable_levels()
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]

UNARY = {
    "neg": torch.neg,
    "abs": torch.abs,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "relu": torch.relu,
    "erf": torch.erf,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "sign": torch.sign,
    "trunc": torch.trunc,
    "frac": torch.frac,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
}
LOGARITHMS = ("log", "log2", "log10")
# Name: torch's function, and the numbers that both take.
ACTIVATIONS = {
    "softplus": (torch.nn.functional.softplus, [2.0, 3.0]),
    "elu": (torch.nn.functional.elu, [0.7]),
    "celu": (torch.nn.functional.celu, [0.7]),
    "selu": (torch.nn.functional.selu, []),
    "hardtanh": (torch.nn.functional.hardtanh, [-0.5, 2.0]),
    "relu6": (torch.nn.functional.relu6, []),
    "hardsigmoid": (torch.nn.functional.hardsigmoid, []),
    "hardswish": (torch.nn.functional.hardswish, []),
    "hardshrink": (torch.nn.functional.hardshrink, [0.8]),
    "softshrink": (torch.nn.functional.softshrink, [0.8]),
    "tanhshrink": (torch.nn.functional.tanhshrink, []),
    "softsign": (torch.nn.functional.softsign, []),
    "mish": (torch.nn.functional.mish, []),
    "logsigmoid": (torch.nn.functional.logsigmoid, []),
    "leaky_relu": (torch.nn.functional.leaky_relu, [0.1]),
    "threshold": (torch.nn.functional.threshold, [0.3, -7.0]),
}
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "remainder": torch.remainder,
    "floor_divide": torch.floor_divide,
}
TESTS = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}


@pytest.fixture(params=LEVELS, scope="module")
def cpu(request):
    return Kernels(request.param)


def numbers(dtype, *shape, scale=3.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=g, dtype=torch.float64) * scale
    if dtype.is_floating_point:
        return x.to(dtype)
    if dtype == torch.bool:
        return x > 0
    low = 0 if dtype == torch.uint8 else -100
    return torch.randint(low, 100, shape, generator=g).to(dtype)


def like(x, shape=None):
    return torch.full(x.shape if shape is None else shape, 77, dtype=x.dtype)


def close(got, want, dtype, ulps=4):
    """Within some units in the last place of the result's dtype; float32 of the 16-bit ones."""
    if not dtype.is_floating_point:
        assert torch.equal(got, want)
        return
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(got, want, rtol=ulps * eps, atol=ulps * eps * 0.05, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", UNARY)
def test_unary_floats(cpu, op, dtype):
    x = numbers(dtype, 5, 131)
    if op in (*LOGARITHMS, "log1p", "sqrt", "rsqrt"):
        x = x.abs() + 0.01
    (got,) = cpu(op, [x], [like(x)])
    # torch rounds intermediate bfloat16 and float16 results in some functions: float32 is the
    # oracle
    want = UNARY[op](x.float() if dtype.itemsize == 2 else x).to(dtype)
    close(got, want, dtype)


@pytest.mark.parametrize("op", ["exp", "sigmoid", "silu", "tanh", "erf"])
def test_functions_are_accurate_over_the_whole_range(cpu, op):
    x = torch.linspace(-87, 88, 40001)
    x = torch.cat([x, x / 40, x / 1e4, torch.tensor([0.0, -0.0, 1e-30, 1e30, -1e30])])
    want = UNARY[op](x.double())
    (got,) = cpu(op, [x], [like(x)])
    error = (got.double() - want).abs()
    spacing = torch.maximum(want.abs(), torch.tensor(1.2e-38, dtype=torch.float64)) * 2.0**-23
    finite = torch.isfinite(want.float())
    assert torch.equal(got[~finite], want.float()[~finite])
    assert (error[finite] / spacing[finite]).max() < (2 if op == "exp" else 4)


@pytest.mark.parametrize("op", ["exp2", "expm1", *LOGARITHMS, "log1p"])
def test_exponentials_and_logarithms_are_accurate(cpu, op):
    """Within 2 units in the last place, subnormal numbers among the arguments."""
    x = torch.linspace(-125, 127, 30001)
    if op in (*LOGARITHMS, "log1p"):
        x = torch.cat([torch.exp2(x), torch.linspace(0.5, 2, 20001), torch.tensor([1e-45, 3e38])])
    if op == "log1p":
        x = torch.cat([x, -1 + torch.exp2(torch.linspace(-23, -1, 999)), -torch.exp2(-x[:9999])])
        x = x[x > -1]
    if op == "expm1":
        x = torch.cat([x / 1.44, x / 100, torch.exp2(-x.abs())])
    want = UNARY[op](x.double())
    (got,) = cpu(op, [x], [like(x)])
    spacing = torch.exp2(torch.floor(torch.log2(want.abs().clamp(min=2.0**-126))) - 23)
    finite = torch.isfinite(want.float())
    assert torch.equal(got[~finite], want.float()[~finite])
    assert ((got.double() - want).abs() / spacing)[finite].max() < 2


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", ACTIVATIONS)
def test_activations(cpu, op, dtype):
    function, given = ACTIVATIONS[op]
    x = numbers(dtype, 5, 131)
    (got,) = cpu(op, [x], [like(x)], scalars=given)
    wide = function(x.double(), *given)
    close(got, wide.to(dtype), dtype, ulps=8)
    tail = x[:, :3].t()
    (got,) = cpu(op, [tail], [like(tail.contiguous())], scalars=given)
    close(got, wide.to(dtype)[:, :3].t(), dtype, ulps=8)


@pytest.mark.parametrize("op", ACTIVATIONS)
def test_special_values_of_activations(cpu, op):
    function, given = ACTIVATIONS[op]
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([nan, inf, 0.0, -0.0, 1e38, 60.0, -60.0, -1e38])
    (got,) = cpu(op, [x], [like(x)], scalars=given)
    want = function(x, *given)
    if op == "threshold":
        want[0] = nan  # torch gives the value for NaN in its scalar loop only
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize(
    "op", ["exp", "tanh", "erf", "sigmoid", "silu", "relu", "abs", "neg", *LOGARITHMS, "log1p"]
)
def test_special_values(cpu, op):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([inf, -inf, nan, 0.0, -0.0, 1e38, -1e38, 1e-45])
    (got,) = cpu(op, [x], [like(x)])
    want = UNARY[op](x)
    if op == "silu":
        want[1] = nan  # -inf / inf: the formula's own value
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("approximate", [0, 1])
def test_gelu(cpu, approximate, dtype):
    x = numbers(dtype, 7, 45)
    (got,) = cpu("gelu", [x], [like(x)], attrs=[approximate])
    wide = x.double()
    if approximate:
        want = wide * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (wide + 0.044715 * wide**3))
        torch.testing.assert_close(want, torch.nn.functional.gelu(wide, approximate="tanh"))
    else:  # torch's own tail cancels even in float64
        want = wide * 0.5 * torch.special.erfc(-wide * 0.5**0.5)
        torch.testing.assert_close(want, torch.nn.functional.gelu(wide))
    close(got, want.to(dtype), dtype, ulps=16)


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("op", ["neg", "abs", "square", "relu", "sign", "floor"])
def test_unary_integers(cpu, op, dtype):
    x = numbers(dtype, 300)
    (got,) = cpu(op, [x], [like(x)])
    assert torch.equal(got, UNARY[op](x))


@pytest.mark.parametrize("dtype", FLOATS + INTS, ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_binary(cpu, op, dtype):
    a, b = numbers(dtype, 4, 100), numbers(dtype, 4, 100, seed=1)
    if op in ("remainder", "floor_divide") and not dtype.is_floating_point:
        b = torch.where(b == 0, torch.ones_like(b), b)
    (got,) = cpu(op, [a, b], [like(a)])
    half = dtype.itemsize == 2 and dtype.is_floating_point
    want = BINARY[op](a.float(), b.float()).to(dtype) if half else BINARY[op](a, b)
    close(got, want, dtype)


SHAPES = [
    ((8,), (8,)),
    ((3, 4), (4,)),
    ((3, 1), (1, 5)),
    ((2, 1, 4, 1), (3, 1, 6)),
    ((), (5,)),
    ((600,), (1,)),
    ((0, 3), (3,)),
    ((2, 3, 4, 5), (2, 3, 4, 5)),
]


@pytest.mark.parametrize("a_shape, b_shape", SHAPES, ids=str)
def test_broadcasting(cpu, a_shape, b_shape):
    a, b = numbers(torch.float32, *a_shape), numbers(torch.float32, *b_shape, seed=1)
    want = a - b
    (got,) = cpu("sub", [a, b], [like(want)], scalars=[1])
    assert torch.equal(got, want)
    (truth,) = cpu("lt", [a, b], [torch.ones(want.shape, dtype=torch.bool)])
    assert torch.equal(truth, a < b)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int64], ids=str
)
def test_strided_operands_and_results(cpu, dtype):
    base = numbers(dtype, 6, 7, 8)
    a, b = base.permute(2, 0, 1)[::2], numbers(dtype, 7, 6, 4, seed=2).permute(2, 1, 0)
    out = torch.zeros(6, 4, 7, dtype=dtype).transpose(0, 1)
    cpu("add", [a, b], [out], scalars=[1])
    assert torch.equal(out, a + b)
    out = torch.zeros(6, 4, 7, dtype=dtype).transpose(0, 1)
    cpu("neg", [a], [out])
    assert torch.equal(out, -a)


def test_alpha(cpu):
    a, b = numbers(torch.float32, 50), numbers(torch.float32, 50, seed=1)
    (got,) = cpu("add", [a, b], [like(a)], scalars=[2.5])
    assert torch.equal(got, a + 2.5 * b)
    i, j = numbers(torch.int32, 50), numbers(torch.int32, 50, seed=1)
    (got,) = cpu("sub", [i, j], [like(i)], scalars=[3])
    assert torch.equal(got, i - 3 * j)


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64], ids=str)
def test_div(cpu, dtype, mode):
    if mode is None and not dtype.is_floating_point:
        return
    a, b = numbers(dtype, 400, scale=30), numbers(dtype, 400, seed=1)
    if not dtype.is_floating_point:
        b = torch.where(b == 0, torch.ones_like(b), b)
    (got,) = cpu("div", [a, b], [like(a)], attrs=[[None, "trunc", "floor"].index(mode)])
    close(got, torch.div(a, b, rounding_mode=mode), dtype)


def test_floor_division_of_special_values(cpu):
    inf, nan = float("inf"), float("nan")
    v = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.3, -0.3, inf, -inf, nan, 1e30])
    a, b = [x.reshape(-1).contiguous() for x in torch.meshgrid(v, v, indexing="ij")]
    (got,) = cpu("div", [a, b], [like(a)], attrs=[2])
    torch.testing.assert_close(got, torch.div(a, b, rounding_mode="floor"), equal_nan=True)
    (got,) = cpu("remainder", [a, b], [like(a)])
    torch.testing.assert_close(got, torch.remainder(a, b), equal_nan=True)


@pytest.mark.parametrize("op", ["div", "remainder", "floor_divide"])
def test_integer_division_by_zero_is_an_error(cpu, op):
    a, b = torch.tensor([1, 2]), torch.tensor([1, 0])
    with pytest.raises(KernelError, match="division by zero"):
        cpu(op, [a, b], [like(a)], attrs=[2])


def test_extreme_integers_do_not_trap(cpu):
    low = torch.iinfo(torch.int64).min
    a, b = torch.tensor([low, low, low]), torch.tensor([-1, 1, low])
    (got,) = cpu("div", [a, b], [like(a)], attrs=[1])
    assert got.tolist() == [low, low, 1]
    (got,) = cpu("remainder", [a, b], [like(a)])
    assert got.tolist() == [0, 0, 0]
    (got,) = cpu("mul", [a, b], [like(a)])
    assert got.tolist() == [low, low, 0]


def test_pow(cpu):
    a, b = numbers(torch.float32, 200).abs(), numbers(torch.float32, 200, seed=1)
    (got,) = cpu("pow", [a, b], [like(a)])
    close(got, torch.pow(a, b), torch.float32)
    i = torch.arange(-5, 6).repeat(8)
    e = torch.arange(8).repeat_interleave(11)
    (got,) = cpu("pow", [i, e], [like(i)])
    assert torch.equal(got, torch.pow(i, e))
    (got,) = cpu(
        "pow", [torch.tensor([1, -1, -1, 2, 0]), torch.tensor([-3, -3, -2, -1, 0])], [like(i[:5])]
    )
    assert got.tolist() == [1, -1, 1, 0, 1]


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extremum_hands_nan_on(cpu, op):
    nan = float("nan")
    a, b = torch.tensor([nan, 1.0, nan, 2.0]), torch.tensor([1.0, nan, nan, 3.0])
    (got,) = cpu(op, [a, b], [like(a)])
    torch.testing.assert_close(got, BINARY[op](a, b), equal_nan=True)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str
)
@pytest.mark.parametrize("op", TESTS)
def test_comparisons(cpu, op, dtype):
    a, b = numbers(dtype, 3, 300), numbers(dtype, 3, 300, seed=1)
    b[0] = a[0]
    if dtype == torch.float32:
        b[1, :9] = float("nan")
    (got,) = cpu(op, [a, b], [torch.zeros(a.shape, dtype=torch.bool)])
    assert torch.equal(got, TESTS[op](a, b))


def test_isnan_isinf_logical_not(cpu):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1.0])
    for op, want in (
        ("isnan", torch.isnan(x)),
        ("isinf", torch.isinf(x)),
        ("logical_not", torch.logical_not(x)),
    ):
        (got,) = cpu(op, [x], [torch.zeros(5, dtype=torch.bool)])
        assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.bool], ids=str)
def test_bits(cpu, dtype):
    a, b = numbers(dtype, 99), numbers(dtype, 99, seed=1)
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        (got,) = cpu(op, [a, b], [like(a)])
        assert torch.equal(got, getattr(torch, op)(a, b))
    (got,) = cpu("bitwise_not", [a], [like(a)])
    assert torch.equal(got, torch.bitwise_not(a))
    if dtype == torch.bool:
        for op in ("logical_and", "logical_or", "logical_xor"):
            (got,) = cpu(op, [a, b], [like(a)])
            assert torch.equal(got, getattr(torch, op)(a, b))


def test_bool_sum_and_product(cpu):
    a, b = numbers(torch.bool, 40), numbers(torch.bool, 40, seed=1)
    (got,) = cpu("add", [a, b], [like(a)], scalars=[1])
    assert torch.equal(got, a | b)
    (got,) = cpu("mul", [a, b], [like(a)])
    assert torch.equal(got, a & b)


def test_unsigned_64_bits_compare_as_unsigned(cpu):
    a = torch.tensor([-1, 1, 5]).view(torch.uint64)
    b = torch.tensor([1, -1, 5]).view(torch.uint64)
    (got,) = cpu("gt", [a, b], [torch.zeros(3, dtype=torch.bool)])
    assert got.tolist() == [True, False, False]


@pytest.mark.parametrize("level", LEVELS)
def test_any_split_gives_the_same_bits(level):
    x, y = numbers(torch.bfloat16, 300, 257), numbers(torch.bfloat16, 257, seed=1)
    whole = Kernels(level)
    split = Kernels(level, threads=2, grain=1001)
    for op, inputs in (
        ("silu", [x]),
        ("gelu", [x]),
        ("tanh", [x]),
        ("mul", [x, y]),
        ("add", [x, y]),
    ):
        (a,) = whole(op, inputs, [like(x)])
        (b,) = split(op, inputs, [like(x)])
        assert torch.equal(a.view(torch.int16), b.view(torch.int16))


def test_in_place(cpu):
    x = numbers(torch.float32, 1000)
    want = x + x
    cpu("add", [x, x], [x], scalars=[1])
    assert torch.equal(x, want)
