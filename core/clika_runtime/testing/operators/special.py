"""Special functions, in NumPy: by sums, quadrature and the standard library, not by the kernels'
formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array
from .elementwise import few

_quantile = NormalDist().inv_cdf


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of one Python float over float64; NaN stays NaN."""

    def over(x: Array) -> Array:
        flat = [math.nan if math.isnan(v) else function(float(v)) for v in np.ravel(x)]
        return np.array(flat, np.float64).reshape(np.shape(x))

    return over


def _erfinv(y: float) -> float:
    if abs(y) >= 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    x = _quantile((1 + y) / 2) / math.sqrt(2)
    if abs(y) > 0.5:
        return x
    # (1 + y) / 2 has lost digits of a small y: Newton's method on erf.
    for _ in range(3):
        x -= (math.erf(x) - y) * math.sqrt(math.pi) / 2 * math.exp(x * x)
    return x


def _ndtri(p: float) -> float:
    if 0 < p < 1:
        return _quantile(p)
    return {0.0: -math.inf, 1.0: math.inf}.get(p, math.nan)


def _erfcx(x: float) -> float:
    if math.isinf(x):
        return 0.0 if x > 0 else math.inf
    if x < 3:
        return math.exp(x * x) * math.erfc(x) if x > -26 else math.inf
    # x / pi times the integral of e^(-t^2) / (t^2 + x^2) over all t; the trapezoidal rule is exact.
    points = 0.125 * np.arange(-56, 57)
    return float(x * 0.125 / math.pi * np.sum(np.exp(-(points**2)) / (points**2 + x * x)))


def _log_ndtr(x: float) -> float:
    if x == -math.inf:
        return x
    if x < -1:
        return math.log(_erfcx(-x / math.sqrt(2)) / 2) - x * x / 2
    return math.log1p(-math.erfc(x / math.sqrt(2)) / 2)


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


def _power_sum(x: float, s: int) -> float:
    """The sum of (x + k)^-s over k >= 0 for s > 1: 2000 terms, and the rest as an integral."""
    start = 2000 + max(0, math.ceil(-x))
    total = math.fsum((x + k) ** -s for k in range(start))
    end = x + start
    return total + end ** (1 - s) / (s - 1) + end**-s / 2 + s * end ** (-s - 1) / 12


def _digamma(x: float) -> float:
    if x == 0 or math.isinf(x):
        return math.copysign(math.inf, -x) if x == 0 else (x if x > 0 else math.nan)
    if x < 0:
        if x == math.floor(x):
            return math.nan
        return _digamma(1 - x) - math.pi / math.tan(math.pi * (x - round(x)))
    shift = math.fsum(1 / (x + k) for k in range(100))
    end = x + 100
    return math.log(end) - 0.5 / end - 1 / (12 * end**2) + 1 / (120 * end**4) - shift


def _polygamma(n: int, x: Array) -> Array:
    if n == 0:
        return each(_digamma)(x)

    def one(v: float) -> float:
        if v <= 0 and v == math.floor(v):
            return math.inf if n % 2 else -math.inf
        return float((-1) ** (n + 1) * math.factorial(n) * _power_sum(v, n + 1))

    return each(one)(x)


def _bessel(order: int, x: Array, scaled: bool) -> Array:
    """i0 is the mean of e^(x cos t) over a circle, i1 that of x sin^2(t) e^(x cos t): sums over
    enough points are exact. For large x, the first terms of the asymptotic series."""
    angles = np.pi * (np.arange(400) + 0.5) / 400
    size = np.abs(np.asarray(x, np.float64))
    weights = np.ones(400) if order == 0 else np.sin(angles) ** 2
    mean = np.mean(np.exp(size[..., None] * (np.cos(angles) - 1)) * weights, -1)
    far = (1 + (1 - 4 * order) / (8 * size)) / np.sqrt(2 * np.pi * size)
    value = np.where(size > 5000, far, mean if order == 0 else size * mean)
    if not scaled:
        value = np.where(size > 5000, np.inf, value * np.exp(size))
    return np.where(np.asarray(x) < 0, -value, value) if order == 1 else value


def _polygamma_cases(make: Make) -> None:
    for n in (0, 1, 2, 5):
        make.case(f"order-{n}", n, make.uniform(0.3, 20, (23,)))
        make.case(f"negative-{n}", n, make.operand([-0.5, -1.25, -7.5, -20.75], "float32"))
    make.case("bfloat16", 1, make.uniform(0.3, 20, (9,), "bfloat16"))
    make.case("int64", 1, make.operand([1, 2, 5], "int64"))
    make.case("poles", 3, make.operand([0.0, -1.0, -4.0], "float32"))
    make.case("high", 60, make.operand([3.5, 40.0], "float32"))
    make.case("empty", 1, make.uniform(1, 2, (0, 3)))


def _mvlgamma(x: Array, p: int) -> Array:
    terms = [each(_lgamma)(x - i / 2) for i in range(p)]
    return p * (p - 1) / 4 * math.log(math.pi) + np.sum(terms, 0)


def _mvlgamma_cases(make: Make) -> None:
    for p in (1, 3):
        make.case(f"float32-{p}", make.uniform(p, 20, (23,)), p)
        make.case(f"bfloat16-{p}", make.uniform(p, 20, (9,), "bfloat16"), p)
    make.case("int64", make.operand([3, 4, 9], "int64"), 2)
    make.case("empty", make.uniform(3, 4, (0,)), 2)


def _logit(x: Array, eps: float | None) -> Array:
    x = x.astype(np.float64)
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def _logit_cases(make: Make) -> None:
    few(0.01, 0.99)(make)
    make.case("eps", make.uniform(-0.5, 1.5, (29,)), 0.1)
    make.case("eps-zero", make.uniform(-0.5, 1.5, (29,)), 0.0)


def _entr(x: Array) -> Array:
    x = x.astype(np.float64)
    below = np.where(np.isnan(x), x, np.where(x == 0, 0, -np.inf))
    return np.where(x > 0, -x * np.log(np.where(x > 0, x, 1)), below)


def _sinc(x: Array) -> Array:
    x = x.astype(np.float64)
    return np.where(np.isinf(x), np.nan, np.sinc(x))


# ln Phi and the like are near 0 somewhere: there the bound is absolute.
operator(
    "sinc", _sinc, few(), float32=(1, 1), narrow=(1, 1), example="crt.sinc(crt.tensor([0.0, 0.5]))"
)
operator(
    "logit",
    _logit,
    _logit_cases,
    float32=(2, 1),
    narrow=(1, 1),
    example="crt.logit(crt.tensor([0.5, 0.9]))",
)
operator("erfc", each(math.erfc), few(-4, 6), example="crt.erfc(crt.tensor([0.0, 3.0]))")
operator(
    "erfcx", each(_erfcx), few(-3, 40), float32=(8, 0), example="crt.erfcx(crt.tensor([0.0, 30.0]))"
)
operator("erfinv", each(_erfinv), few(-0.999, 0.999), example="crt.erfinv(crt.tensor([0.0, 0.5]))")
operator(
    "ndtr",
    each(lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    few(-8, 8, double=(64, 0)),  # x / sqrt(2) is rounded, and erfc grows that by x^2
    float32=(2, 0),
    example="crt.ndtr(crt.tensor([0.0, 1.0]))",
)
operator(
    "ndtri",
    each(_ndtri),
    few(0.001, 0.999),
    float32=(4, 1),
    narrow=(1, 1),
    example="crt.ndtri(crt.tensor([0.5, 0.975]))",
)
operator(
    "log_ndtr",
    each(_log_ndtr),
    few(-30, 5),
    float32=(8, 1),
    example="crt.log_ndtr(crt.tensor([0.0, -20.0]))",
)
operator(
    "lgamma",
    each(_lgamma),
    few(-9, 30),
    float32=(4, 1),
    example="crt.lgamma(crt.tensor([0.5, 5.0]))",
)
operator(
    "digamma",
    each(_digamma),
    few(-9, 30, double=(16, 1)),
    float32=(4, 1),
    narrow=(1, 1),
    example="crt.digamma(crt.tensor([1.0, 5.0]))",
)
operator(
    "polygamma",
    _polygamma,
    _polygamma_cases,
    float32=(4, 0),
    example="crt.polygamma(1, crt.tensor([1.0, 5.0]))",
)
operator(
    "mvlgamma",
    _mvlgamma,
    _mvlgamma_cases,
    float32=(4, 1),
    narrow=(1, 1),
    example="crt.mvlgamma(crt.tensor([3.0, 5.0]), 2)",
)
for _name, _order, _scaled in (
    ("i0", 0, False),
    ("i0e", 0, True),
    ("i1", 1, False),
    ("i1e", 1, True),
):

    def _one(x: Array, order: int = _order, scaled: bool = _scaled) -> Array:
        return _bessel(order, x, scaled)

    # float64: the quadrature is right to about twenty eps of the largest value.
    operator(
        _name,
        _one,
        few(-40, 40, double=(64, 0)),
        float32=(2, 0),
        example=f"crt.{_name}(crt.tensor([0.0, 1.0]))",
    )
operator(
    "entr",
    _entr,
    few(0, 9),
    float32=(4, 1),
    narrow=(1, 1),
    example="crt.entr(crt.tensor([0.0, 0.5]))",
)


def _pairs(make: Make) -> None:
    make.case("float32", make.uniform(-3, 3, (3, 19)), make.uniform(0.1, 9, (19,)))
    make.case(
        "bfloat16", make.uniform(-3, 3, (19,), "bfloat16"), make.uniform(0.1, 9, (19,), "bfloat16")
    )
    make.case(
        "float64", make.uniform(-3, 3, (7,), "float64"), make.uniform(0.1, 9, (7,), "float64")
    )
    make.case("ints", make.operand([0, 1, 2], "int64"), make.operand([0, 1, 5], "int64"))
    make.case("number", make.uniform(-3, 3, (2, 5)), 2.5)
    make.case("left", 0.0, make.operand([0.0, -5.0, np.nan, np.inf], "float32"))
    make.case(
        "strided", make.uniform(-3, 3, (5, 4), "float32", "transposed"), make.uniform(1, 2, (4,))
    )
    make.case("empty", make.uniform(-3, 3, (0, 4)), make.uniform(1, 2, (4,)))


def _times_log(log: Callable[[Any], Any]) -> Callable[[Any, Any], Array]:
    def function(x: Any, y: Any) -> Array:
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        return np.where(np.isnan(y), np.nan, np.where(x == 0, 0, x * log(y)))

    return function


operator(
    "xlogy",
    _times_log(np.log),
    _pairs,
    example="crt.xlogy(crt.tensor([0.0, 2.0]), crt.tensor([0.0, 3.0]))",
)
operator(
    "xlog1py",
    _times_log(np.log1p),
    _pairs,
    example="crt.xlog1py(crt.tensor([0.0, 2.0]), crt.tensor([-1.0, 3.0]))",
)
