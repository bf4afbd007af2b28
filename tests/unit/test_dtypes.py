"""Data types: names, codes of the plugin ABI, sizes, limits against ml_dtypes and NumPy."""

import copy
import doctest
import pickle
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import dtypes

ORACLES = {
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e8m0": ml_dtypes.float8_e8m0fnu,
    "float6_e2m3": ml_dtypes.float6_e2m3fn,
    "float6_e3m2": ml_dtypes.float6_e3m2fn,
    "float4_e2m1": ml_dtypes.float4_e2m1fn,
}
FLOATS = [t for t in dtypes.ALL if t.is_floating_point]
INTEGERS = [t for t in dtypes.ALL if t.is_integer]


def header_codes():
    text = Path(crt.get_include(), "clika_runtime", "plugin.h").read_text()
    body = text[text.index("enum clika_dtype") :]
    rows = re.findall(r"CLIKA_(\w+) = (\d+)", body[: body.index("}")])
    return {name.lower(): int(code) for name, code in rows}


def test_codes_are_those_of_the_header():
    codes = header_codes()
    del codes["undefined"], codes["dtype_count"]
    assert {t.name: t.code for t in dtypes.ALL} == codes


@pytest.mark.parametrize("t", dtypes.ALL, ids=lambda t: t.name)
def test_identity(t):
    assert repr(t) == f"clika_runtime.{t.name}"
    assert dtypes.by_code(t.code) is t
    assert dtypes.by_name(t.name) is t
    assert crt.dtype(t.name) is t
    assert getattr(crt, t.name) is t
    assert isinstance(t, crt.dtype)
    assert pickle.loads(pickle.dumps(t)) is t
    assert copy.deepcopy(t) is copy.copy(t) is t


def oracle(t):
    if t.name in ORACLES:
        return ORACLES[t.name]
    return getattr(ml_dtypes, t.name, None) or np.dtype(t.name)


@pytest.mark.parametrize("t", FLOATS, ids=lambda t: t.name)
def test_finfo(t):
    ours = crt.finfo(t)
    theirs = ml_dtypes.finfo(oracle(t))
    assert ours.bits == t.bits == theirs.bits
    assert ours.dtype == t.name
    for field in ("max", "min", "smallest_normal", "smallest_subnormal", "tiny"):
        assert getattr(ours, field) == float(getattr(theirs, field)), field
    if t.name != "float8_e8m0":
        assert ours.eps == float(theirs.eps)


@pytest.mark.parametrize("t", INTEGERS, ids=lambda t: t.name)
def test_iinfo(t):
    ours = crt.iinfo(t)
    assert ours.bits == t.bits
    assert ours.max - ours.min + 1 == 1 << t.bits
    assert t.is_signed == (ours.min < 0)
    if t.bits >= 8:
        theirs = np.iinfo(t.name)
        assert (ours.min, ours.max) == (theirs.min, theirs.max)


def test_sizes():
    assert [t.itemsize for t in (crt.bool, crt.int8, crt.bfloat16, crt.float64)] == [1, 1, 2, 8]
    assert crt.uint1.nbytes(9) == 2
    assert crt.float6_e2m3.nbytes(4) == 3
    assert not crt.bool.is_subbyte
    assert crt.int4.is_subbyte


def test_short_names():
    assert dtypes.by_name("bf16") is crt.bfloat16
    assert dtypes.by_name("torch.float16") is crt.float16


@pytest.mark.parametrize("name", ["float31", "", None, 7, "complex64", "torch."])
def test_unknown_name(name):
    with pytest.raises(crt.InvalidArgumentError) as caught:
        dtypes.by_name(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("code", [0, 27, -1])
def test_unknown_code(code):
    with pytest.raises(crt.InvalidArgumentError):
        dtypes.by_code(code)


def test_limits_refuse_the_other_kind():
    with pytest.raises(TypeError, match="floating-point"):
        crt.finfo(crt.int8)
    with pytest.raises(TypeError, match="integer"):
        crt.iinfo(crt.bool)


def test_examples():
    assert doctest.testmod(dtypes).failed == 0
