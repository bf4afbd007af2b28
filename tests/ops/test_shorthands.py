"""Python functions over elementwise operators, against torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError

VALUES = [-2.0, -0.0, 0.5, 3.0, math.nan, math.inf]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def test_identities(torch: Any) -> None:
    x = crt.tensor(VALUES)
    assert ops.positive(x) is x and ops.real(x) is x and ops.conj(x) is x
    with pytest.raises(InvalidArgumentError, match="positive: input has dtype bool"):
        ops.positive(crt.tensor([True]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_angle(torch: Any, dtype: str) -> None:
    values = [v for v in VALUES if dtype in ("float32", "bfloat16") or math.isfinite(v)]
    got = ops.angle(crt.tensor(values).to(getattr(crt, dtype)))
    want = torch.angle(torch.tensor(values).to(getattr(torch, dtype)))
    assert got.dtype.name == str(want.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(got.float().numpy(), want.float().numpy())


def test_rsub_and_bounds(torch: Any) -> None:
    x = crt.tensor([1.0, 5.0, math.nan])
    assert ops.rsub(x, 10, alpha=2).tolist()[:2] == [8.0, 0.0]
    assert x.clamp_min(3.0).tolist()[:2] == [3.0, 5.0]
    assert x.clamp_max(crt.tensor([0.0, 9.0, 1.0])).tolist()[:2] == [0.0, 5.0]
    assert math.isnan(x.clamp_min(3.0).tolist()[2])


def test_equal_and_allclose() -> None:
    x = crt.tensor([1.0, 2.0])
    assert ops.equal(x, crt.tensor([1, 2])) and not ops.equal(x, crt.tensor([1.0]))
    assert not ops.equal(crt.tensor([math.nan]), crt.tensor([math.nan]))
    assert ops.equal(crt.zeros(0, 3), crt.zeros(0, 3))
    assert ops.allclose(x, x + 1e-6) and not ops.allclose(x, x + 1e-3)
    assert x.allclose(x + 1e-3, atol=1e-2)
    nan = crt.tensor([math.nan])
    assert ops.allclose(nan, nan, equal_nan=True) and not ops.allclose(nan, nan)


def test_rrelu(torch: Any) -> None:
    x = [-3.0, 2.0]
    want = torch.nn.functional.rrelu(torch.tensor(x), 0.1, 0.3, training=False)
    np.testing.assert_allclose(ops.rrelu(crt.tensor(x), 0.1, 0.3).numpy(), want.numpy(), rtol=1e-6)
    with pytest.raises(InvalidArgumentError, match="training=True"):
        ops.rrelu(crt.tensor(x), training=True)
    with pytest.raises(InvalidArgumentError, match="must not be above upper"):
        ops.rrelu(crt.tensor(x), 0.5, 0.1)


def test_further_names_and_casts(torch: Any) -> None:
    x = crt.tensor([0.25, 0.5])
    assert ops.arcsin is ops.asin and ops.fix is ops.trunc and ops.expit is ops.sigmoid
    assert x.arctan2(x).tolist() == ops.atan2(x, x).tolist()
    names = "float double half bfloat16 long int short char byte bool".split()
    for name in names:
        want = getattr(torch.tensor([0.25, 0.5]), name)()
        got = getattr(x, name)()
        assert got.dtype.name == str(want.dtype).removeprefix("torch.")
        assert got.tolist() == want.tolist()
    whole = crt.tensor([1, -8])
    assert (whole << 2).tolist() == [4, -32] and (whole >> 1).tolist() == [0, -4]
    assert (1 << crt.tensor([3])).tolist() == [8] and (64 >> crt.tensor([3])).tolist() == [8]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_next_after_in_every_dtype(torch: Any, dtype: str) -> None:
    values = [1.0, -1.0, 0.0, -0.0, 65504.0, 1e-7, math.inf, -math.inf, math.nan]
    a = torch.tensor([v for v in values for _ in values]).to(getattr(torch, dtype))
    b = torch.tensor([v for _ in values for v in values]).to(getattr(torch, dtype))
    got = ops.nextafter(*(crt.tensor(x.tolist()).to(getattr(crt, dtype)) for x in (a, b)))
    if dtype == "float16":  # which torch refuses; NumPy has it
        with np.errstate(over="ignore"):
            want = np.nextafter(a.numpy(), b.numpy())
    else:
        want = torch.nextafter(a, b).double().numpy()
    np.testing.assert_array_equal(got.double().numpy(), want.astype(np.float64))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_largest_numbers_for_infinities(torch: Any, dtype: str) -> None:
    given = [math.inf, -math.inf, math.nan]
    want = torch.nan_to_num(torch.tensor(given, dtype=getattr(torch, dtype)))
    got = ops.nan_to_num(crt.tensor(given).to(getattr(crt, dtype)))
    assert got.double().tolist() == want.double().tolist()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_numbers_beside_16_bits_keep_float32(torch: Any, name: str) -> None:
    """0.1 in bfloat16 is 0.10009765625, whose product with 1000 is another number."""
    values = [1000.0, 3.0, -77.0]
    for dtype in ("bfloat16", "float16"):
        x = torch.tensor(values).to(getattr(torch, dtype))
        want = getattr(torch, name)(x, 0.1)
        got = getattr(ops, name)(crt.tensor(values).to(getattr(crt, dtype)), 0.1)
        assert got.dtype.name == dtype and got.float().tolist() == want.float().tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.celu(x, 0.0), "celu: alpha must not be 0"),
        (lambda x: ops.hardtanh(x, 2.0, 1.0), "hardtanh: min_val 2 must not be above max_val 1"),
        (lambda x: ops.hardtanh(x.long(), 2.0, 1.0), "hardtanh: min_val 2 must not be above"),
        (lambda x: ops.softshrink(x, -1.0), "softshrink: lambd must be >= 0, got -1"),
        (lambda x: ops.isclose(x, x, -1.0), "isclose: rtol and atol must be >= 0"),
        (lambda x: ops.polygamma(-1, x), "polygamma: n must be from 0 to 170, got -1"),
        (lambda x: ops.polygamma(171, x), "polygamma: n must be from 0 to 170, got 171"),
        (lambda x: ops.mvlgamma(x, 0), "mvlgamma: p must be from 1 to 10000, got 0"),
        (lambda x: ops.glu(x), "glu: the size 3 at dim 0 of .* is odd"),
        (lambda x: ops.swiglu(x), "swiglu: the size 3 at dim 0 of .* is odd"),
        (lambda x: ops.situ(x, x[:2]), "gate .* and up .* must have one shape"),
        (lambda x: ops.prelu(crt.zeros(2, 4), x), "weight has 3 elements; .* 4 channels at dim 1"),
        (lambda x: ops.prelu(x, crt.zeros(2, 2)), "prelu: weight .* must have one dim, or none"),
        (lambda x: ops.masked_fill(x, x > 0, x), "masked_fill: value must be a number or a 0-d"),
        (lambda x: ops.gcd(x, 3), "gcd: .* computed as float32"),
        (lambda x: ops.bitwise_left_shift(x, 1), "bitwise_left_shift: .* float32"),
        (lambda x: ops.fmod(crt.tensor([1]), 0), "integer division by zero"),
        (lambda x: ops.erfinv(x.to(crt.float8_e4m3)), "erfinv: input has dtype float8_e4m3"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call(crt.tensor([1.0, 2.0, 3.0])).tolist()
