"""Cases, oracle and refusals of ``bilinear``."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

CASES = cases("bilinear")


def oracle(torch: Any, x: Any, y: Any, weight: Any, bias: Any) -> Any:
    wide = torch.float64 if x.dtype.is_floating_point else torch.int64
    given = [value if value is None else value.to(wide) for value in (x, y, weight, bias)]
    return torch.nn.functional.bilinear(*given).to(x.dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)


X = crt.ones(3, 4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.bilinear(X, X, crt.ones(2, 4, 5)), "does not fit input1 [3, 4]"),
        (lambda: crt.bilinear(X, crt.ones(2, 4), crt.ones(2, 4, 4)), "in all dims but the last"),
        (lambda: crt.bilinear(X, X, crt.ones(4, 4)), "expected input1 [..., A]"),
        (lambda: crt.bilinear(X, X, crt.ones(2, 4, 4), crt.ones(3)), "bias [3] must be [2]"),
        (lambda: crt.bilinear(X, X.to(crt.float16), crt.ones(2, 4, 4)), "must have one dtype"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)
