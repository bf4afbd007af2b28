"""Cases and oracle of ``sort``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, input: Any, dim: int, descending: bool, _: bool) -> Any:
    values, indices = torch.sort(input, dim=dim, descending=descending, stable=True)
    return values, indices


@pytest.mark.parametrize("case", cases("sort"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("sort"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("sort"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
