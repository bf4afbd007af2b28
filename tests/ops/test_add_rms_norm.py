"""Cases and oracle of ``add_rms_norm``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(
    torch: Any,
    input: Any,
    residual: Any,
    input_bias: Any,
    residual_bias: Any,
    shape: Any,
    offset: float | None,
    weight: Any,
    bias: Any,
    eps: float,
) -> Any:
    total = input.float() + residual.float()
    for other in (input_bias, residual_bias):
        total = total if other is None else total + other.float()
    total = total.to(input.dtype)
    weight = None if weight is None else weight.float() + (offset or 0.0)
    row = input.shape[-1:] if shape is None else shape if isinstance(shape, tuple) else (shape,)
    normed = torch.nn.functional.rms_norm(total.float(), row, weight, eps)
    normed = normed if bias is None else normed + bias.float()
    return normed.to(input.dtype), total


@pytest.mark.parametrize("case", cases("add_rms_norm"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("add_rms_norm"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("add_rms_norm"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
