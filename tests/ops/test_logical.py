"""Cases and oracles of logic over truth values."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle, pair

ORACLES: dict[str, Any] = {
    "logical_not": lambda torch, x: torch.logical_not(x),
    "logical_and": lambda torch, x, y: torch.logical_and(*pair(torch, x, y)),
    "logical_or": lambda torch, x, y: torch.logical_or(*pair(torch, x, y)),
    "logical_xor": lambda torch, x, y: torch.logical_xor(*pair(torch, x, y)),
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
