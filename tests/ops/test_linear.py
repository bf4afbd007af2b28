"""Cases and oracle of ``linear``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, input: Any, weight: Any, bias: Any, mode: str) -> Any:
    bias = None if bias is None else bias.to(input.dtype)
    return torch.nn.functional.linear(input, weight.to(input.dtype), bias)


@pytest.mark.parametrize("case", cases("linear"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("linear"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("linear"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
