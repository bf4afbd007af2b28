"""Cases and oracles of operations on bits."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle, pair

ORACLES: dict[str, Any] = {
    "bitwise_not": lambda torch, x: torch.bitwise_not(x),
    "bitwise_and": lambda torch, x, y: torch.bitwise_and(*pair(torch, x, y)),
    "bitwise_or": lambda torch, x, y: torch.bitwise_or(*pair(torch, x, y)),
    "bitwise_xor": lambda torch, x, y: torch.bitwise_xor(*pair(torch, x, y)),
    "bitwise_left_shift": lambda torch, x, y: torch.bitwise_left_shift(*pair(torch, x, y)),
    "bitwise_right_shift": lambda torch, x, y: torch.bitwise_right_shift(*pair(torch, x, y)),
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
