"""Cases and oracle of ``argmax``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return torch.argmax(input, dim, keepdim).to(dtype or torch.int64)


@pytest.mark.parametrize("case", cases("argmax"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("argmax"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("argmax"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
