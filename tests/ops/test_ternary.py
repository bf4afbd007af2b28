"""Cases and oracles of arithmetic of three operands."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

ORACLES: dict[str, Any] = {
    "lerp": lambda torch, start, end, weight: torch.lerp(start, end, weight),
    "addcmul": lambda torch, x, a, b, value: torch.addcmul(x, a, b, value=value),
    "addcdiv": lambda torch, x, a, b, value: torch.addcdiv(x, a, b, value=value),
    "masked_fill": lambda torch, x, mask, value: torch.masked_fill(x, mask, value),
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
