"""Cases and oracles of the functions of one tensor."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def rounded(torch: Any, x: Any, decimals: int) -> Any:
    if abs(decimals) > 38:  # beyond float32's powers of ten torch gives NaN
        return x if decimals > 0 else torch.zeros_like(x)
    return torch.round(x, decimals=decimals) if x.is_floating_point() else torch.round(x)


ORACLES: dict[str, Any] = {
    "neg": lambda torch, x: torch.neg(x),
    "abs": lambda torch, x: torch.abs(x),
    "exp": lambda torch, x: torch.exp(x),
    "log": lambda torch, x: torch.log(x),
    "sqrt": lambda torch, x: torch.sqrt(x),
    "rsqrt": lambda torch, x: torch.rsqrt(x),
    "sin": lambda torch, x: torch.sin(x),
    "cos": lambda torch, x: torch.cos(x),
    "tanh": lambda torch, x: torch.tanh(x),
    "sigmoid": lambda torch, x: torch.sigmoid(x),
    "relu": lambda torch, x: torch.relu(x),
    "erf": lambda torch, x: torch.erf(x),
    "reciprocal": lambda torch, x: torch.reciprocal(x),
    "square": lambda torch, x: torch.square(x),
    "floor": lambda torch, x: torch.floor(x),
    "ceil": lambda torch, x: torch.ceil(x),
    "round": lambda torch, x, decimals: rounded(torch, x, decimals),
    "sign": lambda torch, x: torch.sign(x),
    "silu": lambda torch, x: torch.nn.functional.silu(x),
    "gelu": lambda torch, x, mode: torch.nn.functional.gelu(x, approximate=mode),
}
CASES = [case for name in ORACLES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, ORACLES[case.op])
