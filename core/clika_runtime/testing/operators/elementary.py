"""Elementary functions of one tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array
from .elementwise import few, real

exact: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}

operator("trunc", np.trunc, few(-9, 9), **exact, example="crt.trunc(crt.tensor([1.7, -1.7]))")
operator(
    "frac",
    lambda x: np.where(np.isinf(x), np.nan, x - np.trunc(x)),
    few(-9, 9, ints=False),
    **exact,
    example="crt.frac(crt.tensor([1.75, -1.75]))",
)
operator("exp2", real(np.exp2), few(-20, 20), example="crt.exp2(crt.tensor([3.0, 0.5]))")
operator("expm1", real(np.expm1), few(-5, 20), example="crt.expm1(crt.tensor([1e-6, 1.0]))")
operator("log2", real(np.log2), few(0.01, 30), example="crt.log2(crt.tensor([8.0, 0.5]))")
operator("log10", real(np.log10), few(0.01, 30), example="crt.log10(crt.tensor([1000.0, 0.1]))")
operator("log1p", real(np.log1p), few(-0.9, 30), example="crt.log1p(crt.tensor([1e-6, 1.0]))")
operator("tan", real(np.tan), few(-9, 9), example="crt.tan(crt.tensor([0.0, 0.5]))")
operator("asin", real(np.arcsin), few(-1, 1), example="crt.asin(crt.tensor([0.5, 1.0]))")
operator("acos", real(np.arccos), few(-1, 1), example="crt.acos(crt.tensor([0.5, 1.0]))")
operator("atan", real(np.arctan), few(-9, 9), example="crt.atan(crt.tensor([0.5, 1.0]))")
operator("sinh", real(np.sinh), few(-9, 9), example="crt.sinh(crt.tensor([0.0, 1.0]))")
operator("cosh", real(np.cosh), few(-9, 9), example="crt.cosh(crt.tensor([0.0, 1.0]))")
operator("asinh", real(np.arcsinh), few(-9, 9), example="crt.asinh(crt.tensor([0.0, 1.0]))")
operator("acosh", real(np.arccosh), few(1, 9), example="crt.acosh(crt.tensor([1.0, 2.0]))")
operator("atanh", real(np.arctanh), few(-0.95, 0.95), example="crt.atanh(crt.tensor([0.0, 0.5]))")
operator(
    "deg2rad",
    lambda x: x * (math.pi / 180),
    few(-400, 400),
    example="crt.deg2rad(crt.tensor([90, 180]))",
)
operator(
    "rad2deg",
    lambda x: x * (180 / math.pi),
    few(-9, 9),
    example="crt.rad2deg(crt.tensor([1.0, 3.0]))",
)


def _nan_to_num(x: Array, nan: float, posinf: Any, neginf: Any) -> Array:
    if x.dtype.kind != "f":
        return x
    most = float(np.finfo(np.float32).max)
    given: Any = {
        "nan": nan,
        "posinf": most if posinf is None else posinf,
        "neginf": -most if neginf is None else neginf,
    }
    return np.nan_to_num(x, **given)


def _nan_to_num_cases(make: Make) -> None:
    few()(make)
    values = [math.nan, math.inf, -math.inf, 1.5, -0.0]
    make.case("given", make.operand(values, "float32"), 7.0, 8.0, -9.0)
    make.case("half", make.operand(values, "bfloat16"), 0.5, 8.0, -9.0)
    make.case("bool", make.operand([True, False], "bool"))


operator(
    "nan_to_num",
    _nan_to_num,
    _nan_to_num_cases,
    **exact,
    example='crt.nan_to_num(crt.tensor([1.0, float("nan"), float("inf")]), posinf=9.0)',
)
