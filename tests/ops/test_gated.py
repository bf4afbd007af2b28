"""Cases and oracles of the gated activations."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def gated(unit: Any) -> Any:
    """unit(torch, gate, ...) * up in float32, rounded; without `up`, of the two halves."""

    def oracle(torch: Any, gate: Any, up: Any, *rest: Any) -> Any:
        wide = torch.float64 if gate.dtype == torch.float64 else torch.float32
        a, b = gate.to(wide).chunk(2, -1) if up is None else (gate.to(wide), up.to(wide))
        return unit(torch, a, b, *rest).to(gate.dtype)

    return oracle


def situ(torch: Any, a: Any, b: Any, beta: float, linear_beta: float) -> Any:
    capped = beta * torch.tanh(a / beta) * torch.sigmoid(a)
    return capped * linear_beta * torch.tanh(b / linear_beta)


ORACLES: dict[str, Any] = {
    "swiglu": gated(lambda torch, a, b: torch.nn.functional.silu(a) * b),
    "geglu": gated(lambda torch, a, b, mode: torch.nn.functional.gelu(a, approximate=mode) * b),
    "reglu": gated(lambda torch, a, b: torch.relu(a) * b),
    "situ": gated(situ),
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
