"""Cases and oracles of comparisons."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle, pair

ORACLES: dict[str, Any] = {
    "eq": lambda torch, x, y: torch.eq(*pair(torch, x, y)),
    "ne": lambda torch, x, y: torch.ne(*pair(torch, x, y)),
    "lt": lambda torch, x, y: torch.lt(*pair(torch, x, y)),
    "le": lambda torch, x, y: torch.le(*pair(torch, x, y)),
    "gt": lambda torch, x, y: torch.gt(*pair(torch, x, y)),
    "ge": lambda torch, x, y: torch.ge(*pair(torch, x, y)),
    "isnan": lambda torch, x: torch.isnan(x),
    "isinf": lambda torch, x: torch.isinf(x),
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
