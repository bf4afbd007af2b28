"""Cases of ``mask_logits``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases, check_rule
from tests.ops.support import check_backend

CASES = cases("mask_logits")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_rule(case)
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)
