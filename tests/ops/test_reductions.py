"""Cases and oracles of reductions."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def dims(x: Any, dim: Any) -> Any:
    return tuple(range(x.ndim)) if dim is None else dim


def product(torch: Any, x: Any, dim: Any, keep: bool, dtype: Any) -> Any:
    """torch multiplies over one dim at a time, and rounds in between."""
    over = dims(x, dim)
    kind = torch.prod(x, dtype=dtype).dtype
    x = x.double() if kind.is_floating_point else x
    for d in (over,) if isinstance(over, int) else over:
        x = torch.prod(x, d, True)
    return (x if keep or x.ndim == 0 else x.squeeze(over)).to(kind)


ORACLES: dict[str, Any] = {
    "sum": lambda torch, x, dim, keep, dtype: torch.sum(x, dims(x, dim), keep, dtype=dtype),
    "mean": lambda torch, x, dim, keep, dtype: torch.mean(x, dims(x, dim), keep, dtype=dtype),
    "prod": product,
    "amax": lambda torch, x, dim, keep: torch.amax(x, dims(x, dim), keep),
    "amin": lambda torch, x, dim, keep: torch.amin(x, dims(x, dim), keep),
    "any": lambda torch, x, dim, keep: torch.any(x, dims(x, dim), keep),
    "all": lambda torch, x, dim, keep: torch.all(x, dims(x, dim), keep),
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
