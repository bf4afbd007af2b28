"""Cases and oracles of the special functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle, pair


def kept(torch: Any, x: Any) -> Any:
    return x.dtype if x.dtype.is_floating_point else torch.float32


def wide(name: str) -> Callable[..., Any]:
    """torch's function in float64, rounded: in float32 some are off by more than a few ulp."""

    def oracle(torch: Any, x: Any, *rest: Any) -> Any:
        given = (*rest, x.double()) if name == "polygamma" else (x.double(), *rest)
        return getattr(torch.special, name)(*given).to(kept(torch, x))

    return oracle


ORACLES: dict[str, Any] = {
    **{
        name: wide(name)
        for name in ("sinc logit erfc erfcx erfinv ndtri log_ndtr digamma i0e i1e entr").split()
    },
    # torch's has no right digits far below 0, and its i0 and i1 of infinity are NaN.
    "ndtr": lambda torch, x: (torch.erfc(-x.double() / 2**0.5) / 2).to(kept(torch, x)),
    "i0": lambda torch, x: torch.where(torch.isinf(x), x.abs(), wide("i0")(torch, x)),
    "i1": lambda torch, x: torch.where(torch.isinf(x), x, wide("i1")(torch, x)),
    "lgamma": wide("gammaln"),
    "mvlgamma": wide("multigammaln"),
    "polygamma": lambda torch, n, x: wide("polygamma")(torch, x, n),
    "xlogy": lambda torch, x, y: torch.xlogy(*pair(torch, x, y)),
    "xlog1py": lambda torch, x, y: torch.special.xlog1py(*pair(torch, x, y)),
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
