"""Cases and oracles of running sums, differences and integrals."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def integral(function: Any, y: Any, x: Any, dx: Any, dim: int) -> Any:
    if x is not None:
        return function(y, x, dim=dim)
    return function(y, dx=1 if dx is None else dx, dim=dim)


ORACLES: dict[str, Any] = {
    "cumsum": lambda torch, x, dim, dtype: torch.cumsum(x, dim, dtype=dtype),
    "cumprod": lambda torch, x, dim, dtype: torch.cumprod(x, dim, dtype=dtype),
    "cummax": lambda torch, x, dim: tuple(torch.cummax(x, dim)),
    "cummin": lambda torch, x, dim: tuple(torch.cummin(x, dim)),
    "logcumsumexp": lambda torch, x, dim: torch.logcumsumexp(x, dim),
    "diff": lambda torch, x, n, dim, before, after: torch.diff(
        x, n, dim, prepend=before, append=after
    ),
    "trapezoid": lambda torch, y, x, dx, dim: integral(torch.trapezoid, y, x, dx, dim),
    "cumulative_trapezoid": lambda torch, y, x, dx, dim: integral(
        torch.cumulative_trapezoid, y, x, dx, dim
    ),
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
