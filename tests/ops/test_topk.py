"""Cases and oracle of ``topk``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, input: Any, k: int, dim: int, largest: bool, ordered: bool) -> Any:
    # Not torch.topk: it leaves the order of equal values open.
    values, indices = torch.sort(input, dim=dim, descending=largest, stable=True)
    if input.ndim == 0:
        return values, indices
    return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)


@pytest.mark.parametrize("case", cases("topk"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("topk"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("topk"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
