"""Cases and oracles of the elementary functions."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

ORACLES: dict[str, Any] = {
    name: lambda torch, x, *rest, name=name: getattr(torch, name)(x, *rest)
    for name in (
        "trunc exp2 expm1 log2 log10 log1p tan asin acos atan sinh cosh asinh acosh atanh "
        "deg2rad rad2deg nan_to_num"
    ).split()
}
# torch's frac of an infinity is NaN in its vector path only.
ORACLES["frac"] = lambda torch, x: torch.where(torch.isinf(x), x - x, torch.frac(x))
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
