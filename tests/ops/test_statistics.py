"""Cases and oracles of covariance and correlation."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

ORACLES: dict[str, Any] = {
    "cov": lambda torch, x, fweights, aweights, correction: torch.cov(
        x, correction=correction, fweights=fweights, aweights=aweights
    ),
    "corrcoef": lambda torch, x: torch.corrcoef(x),
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
