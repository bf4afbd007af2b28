"""Special functions. Integers and bool are computed as float32, as in PyTorch; kernels compute in
double and round once."""

from __future__ import annotations

from ._promotion import ALL, NUMBERS, to_float
from ._rules import binary, unary
from ._shapes import fail
from .record import ELEMENTWISE, Meta, op, scalar, static, tensor

_AS = "Abramowitz and Stegun, Handbook of Mathematical Functions"

unary("sinc", "sin(pi x) / (pi x), and 1 at 0.", ALL, floats=True)
unary(
    "logit",
    """
    ln(x / (1 - x)), the inverse of sigmoid; NaN beyond [0, 1].

    With `eps`, x is first clamped to [eps, 1 - eps].
    """,
    ALL,
    floats=True,
    extra=[scalar("eps", "float", None)],
)
unary("erfc", "1 - erf(x), without cancellation for large x.", ALL, floats=True)
unary("erfcx", "e^(x^2) erfc(x), the scaled complement of the error function.", ALL, floats=True)
unary(
    "erfinv",
    "The inverse of erf: -inf and inf at -1 and 1, NaN beyond.",
    ALL,
    floats=True,
    source=f"{_AS}, 26.2.23, refined by Halley's method",
)
unary(
    "ndtr",
    "The normal distribution function Phi(x) = (1 + erf(x / sqrt(2))) / 2.",
    ALL,
    floats=True,
)
unary(
    "log_ndtr",
    "ln Phi(x) of the normal distribution function, exact in both tails.",
    ALL,
    floats=True,
)
unary(
    "ndtri",
    "The quantile of the normal distribution: the inverse of ndtr; NaN beyond [0, 1].",
    ALL,
    floats=True,
    source=f"{_AS}, 26.2.23, refined by Halley's method",
)
unary("lgamma", "ln |Gamma(x)|; inf at 0, -1, -2, ...", ALL, floats=True)
unary(
    "digamma",
    "The derivative of lgamma; -inf or inf at 0, NaN at the poles -1, -2, ...",
    ALL,
    floats=True,
    source=f"{_AS}, 6.3.7 and 6.3.18",
)


def _check_order(name: str, word: str, n: int, least: int, most: int) -> None:
    if not isinstance(n, int) or not least <= n <= most:
        fail(name, f"{word} must be from {least} to {most}, got {n}")


def _polygamma(n: int, input: Meta) -> Meta:
    _check_order("polygamma", "n", n, 0, 170)
    return Meta(input.shape, to_float(input.dtype))


op(
    "polygamma",
    doc="""
    The derivative of order `n` of digamma: (-1)^(n+1) n! * sum over k >= 0 of 1 / (x + k)^(n+1).

    `n` is from 0 (digamma itself) to 170, the last whose factorial is a float64.
    """,
    args=[static("n", "int"), tensor("input", ALL)],
    infer=_polygamma,
    promote=lambda n, input: to_float(input.dtype),
    traits={ELEMENTWISE},
    method=False,
    source="the Euler-Maclaurin formula",
)


def _mvlgamma(input: Meta, p: int) -> Meta:
    _check_order("mvlgamma", "p", p, 1, 10000)
    return Meta(input.shape, to_float(input.dtype))


op(
    "mvlgamma",
    doc="""
    The logarithm of the multivariate gamma function of dimension `p`.

    p (p - 1) / 4 * ln(pi) + the sum of lgamma(x - i / 2) over i from 0 to p - 1; defined for x
    above (p - 1) / 2.
    """,
    args=[tensor("input", NUMBERS), static("p", "int")],
    infer=_mvlgamma,
    promote=lambda input, p: to_float(input.dtype),
    traits={ELEMENTWISE},
)
unary(
    "i0",
    "The modified Bessel function of order 0.",
    ALL,
    floats=True,
    source=f"{_AS}, 9.6.10, 9.7.1",
)
unary(
    "i0e",
    "e^-|x| i0(x), which does not overflow.",
    ALL,
    floats=True,
    source=f"{_AS}, 9.6.10, 9.7.1",
)
unary(
    "i1",
    "The modified Bessel function of order 1.",
    ALL,
    floats=True,
    source=f"{_AS}, 9.6.10, 9.7.1",
)
unary(
    "i1e",
    "e^-|x| i1(x), which does not overflow.",
    ALL,
    floats=True,
    source=f"{_AS}, 9.6.10, 9.7.1",
)
unary("entr", "The entropy -x ln(x): 0 at 0, -inf below.", ALL, floats=True)
binary("xlogy", "input * ln(other); 0 where input is 0 and other is not NaN.", compute=to_float)
binary(
    "xlog1py", "input * ln(1 + other); 0 where input is 0 and other is not NaN.", compute=to_float
)
