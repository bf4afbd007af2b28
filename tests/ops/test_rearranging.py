"""Cases and oracles of the operators that rearrange entries."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime import ops
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

CASES = [case for name in ops._GROUPS["rearranging"].split() for case in cases(name)]


def oracle(name: str) -> Any:
    def call(torch: Any, x: Any, *args: Any) -> Any:
        if name == "repeat":
            return x.repeat(*args)
        if name == "flip" and x.ndim == 0:
            return x.clone()
        if name == "flip":
            return torch.flip(x, (args[0],) if isinstance(args[0], int) else args[0])
        return getattr(torch, name)(x, *args)

    return call


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle(case.op))
