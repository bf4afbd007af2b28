"""Cases and oracle of ``embedding``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, weight: Any, ids: Any, dtype: Any) -> Any:
    rows = torch.nn.functional.embedding(ids, weight)
    return rows if dtype is None else rows.to(dtype)


@pytest.mark.parametrize("case", cases("embedding"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("embedding"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("embedding"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
