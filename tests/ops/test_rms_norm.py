"""Cases and oracle of ``rms_norm``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, input: Any, shape: Any, weight: Any, eps: Any, offset: float) -> Any:
    weight = None if weight is None else weight.float() + offset
    row = shape if isinstance(shape, tuple) else (shape,)
    return torch.nn.functional.rms_norm(input.float(), row, weight, eps).to(input.dtype)


@pytest.mark.parametrize("case", cases("rms_norm"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("rms_norm"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("rms_norm"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
