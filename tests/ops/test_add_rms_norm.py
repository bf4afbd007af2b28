"""Cases and oracle of ``add_rms_norm``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, input: Any, residual: Any, weight: Any, eps: float, offset: float) -> Any:
    total = input + residual
    weight = None if weight is None else weight.float() + offset
    row = (input.shape[-1],)
    normed = torch.nn.functional.rms_norm(total.float(), row, weight, eps)
    return total, normed.to(input.dtype)


@pytest.mark.parametrize("case", cases("add_rms_norm"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("add_rms_norm"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("add_rms_norm"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
