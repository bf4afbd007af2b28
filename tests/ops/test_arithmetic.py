"""Cases and oracles of arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle, pair


def power(torch: Any, input: Any, exponent: Any) -> Any:
    x, y = pair(torch, input, exponent)
    if torch.result_type(x, y).is_floating_point:
        return torch.pow(x, y)
    x, y = torch.broadcast_tensors(*(value.to(torch.result_type(x, y)) for value in (x, y)))
    # torch refuses negative integer exponents; the record says what they give.
    turned = torch.where(x == 1, 1, torch.where(x == -1, 1 - 2 * (y % 2), 0)).to(x.dtype)
    return torch.where(y < 0, turned, torch.pow(x, y.clamp(min=0)))


def heaviside(torch: Any, x: Any, values: Any) -> Any:
    x, values = pair(torch, x, values)
    dtype = torch.result_type(x, values)  # torch wants both in one dtype
    return torch.heaviside(x.to(dtype), values.to(dtype))


def frexp(torch: Any, x: Any) -> Any:
    mantissa, exponent = torch.frexp(x)
    # What the exponent of an infinity or of NaN is, torch leaves to the C library.
    return mantissa, torch.where(torch.isfinite(x), exponent, 0).to(torch.int32)


ORACLES: dict[str, Any] = {
    "add": lambda torch, x, y, alpha: torch.add(*pair(torch, x, y), alpha=alpha),
    "sub": lambda torch, x, y, alpha: torch.sub(*pair(torch, x, y), alpha=alpha),
    "mul": lambda torch, x, y: torch.mul(*pair(torch, x, y)),
    "div": lambda torch, x, y, mode: torch.div(
        *pair(torch, x, y), rounding_mode=None if mode == "none" else mode
    ),
    "pow": power,
    "maximum": lambda torch, x, y: torch.maximum(*pair(torch, x, y)),
    "minimum": lambda torch, x, y: torch.minimum(*pair(torch, x, y)),
    "remainder": lambda torch, x, y: torch.remainder(*pair(torch, x, y)),
    "floor_divide": lambda torch, x, y: torch.floor_divide(*pair(torch, x, y)),
    **{
        name: lambda torch, x, y, name=name: getattr(torch, name)(*pair(torch, x, y))
        for name in (
            "fmod fmax fmin copysign gcd lcm atan2 hypot logaddexp logaddexp2 nextafter "
            "float_power ldexp"
        ).split()
    },
    "heaviside": heaviside,
    "frexp": frexp,
}
CASES = [case for name in ORACLES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, ORACLES[case.op])
