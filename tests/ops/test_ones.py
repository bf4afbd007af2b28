"""Cases and oracle of ``ones`` and ``zeros``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

CASES = [*cases("ones"), *cases("zeros")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, lambda torch, shape, dtype, _: getattr(torch, case.op)(shape, dtype=dtype))
