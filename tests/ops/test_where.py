"""Cases and oracle of ``where``."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, condition: Any, input: Any, other: Any) -> Any:
    return torch.where(condition, input, other)


@pytest.mark.parametrize("case", cases("where"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("where"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("where"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)


def test_method() -> None:
    x = crt.tensor([1.0, -2.0])
    assert x.where(x > 0, 0.0).tolist() == [1.0, 0.0]
    assert x.where(x > 0, crt.tensor([[5.0], [6.0]])).tolist() == [[1.0, 5.0], [1.0, 6.0]]
