"""Cases and oracle of ``softmax``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, input: Any, dim: int, dtype: Any) -> Any:
    return torch.softmax(input, dim, dtype=dtype)


@pytest.mark.parametrize("case", cases("softmax"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("softmax"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("softmax"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
