"""Cases and oracles of comparisons."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle, pair


def isin(torch: Any, x: Any, y: Any, unique: bool, invert: bool) -> Any:
    if x.dtype == torch.bool:  # which torch refuses
        x, y = x.byte(), y.byte()
    return torch.isin(x, y, assume_unique=unique, invert=invert)


ORACLES: dict[str, Any] = {
    "eq": lambda torch, x, y: torch.eq(*pair(torch, x, y)),
    "ne": lambda torch, x, y: torch.ne(*pair(torch, x, y)),
    "lt": lambda torch, x, y: torch.lt(*pair(torch, x, y)),
    "le": lambda torch, x, y: torch.le(*pair(torch, x, y)),
    "gt": lambda torch, x, y: torch.gt(*pair(torch, x, y)),
    "ge": lambda torch, x, y: torch.ge(*pair(torch, x, y)),
    "isnan": lambda torch, x: torch.isnan(x),
    "isinf": lambda torch, x: torch.isinf(x),
    "isfinite": lambda torch, x: torch.isfinite(x),
    "isposinf": lambda torch, x: torch.isposinf(x),
    "isneginf": lambda torch, x: torch.isneginf(x),
    "isreal": lambda torch, x: torch.isreal(x),
    "signbit": lambda torch, x: torch.signbit(x),
    "isclose": lambda torch, x, y, *rest: torch.isclose(*pair(torch, x, y), *rest),
    "isin": lambda torch, x, y, unique, invert: isin(torch, x, y, unique, invert),
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
