"""Cases and oracles of the activations."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def functional(name: str) -> Any:
    """torch's function; a 16-bit result is its float32 one rounded."""

    def oracle(torch: Any, x: Any, *rest: Any) -> Any:
        narrow = x.dtype in (torch.float16, torch.bfloat16)
        rest = tuple(v.float() if isinstance(v, torch.Tensor) and narrow else v for v in rest)
        result = getattr(torch.nn.functional, name)(x.float() if narrow else x, *rest)
        return result.to(x.dtype) if narrow else result

    return oracle


ORACLES: dict[str, Any] = {
    name: functional(name)
    for name in (
        "softplus elu celu selu hardtanh relu6 hardsigmoid hardswish hardshrink softshrink "
        "tanhshrink softsign mish logsigmoid leaky_relu threshold prelu glu"
    ).split()
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
