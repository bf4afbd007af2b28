"""Cases and oracle of ``arange``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, start: Any, end: Any, step: Any, dtype: Any, device: Any) -> Any:
    if end is None:
        start, end = 0, start
    return torch.arange(start, end, step, dtype=dtype)


@pytest.mark.parametrize("case", cases("arange"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("arange"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("arange"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
