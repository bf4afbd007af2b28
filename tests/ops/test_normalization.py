"""Cases, oracles and refusals of normalizations over channels-last tensors."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.channels import first, last
from tests.ops.support import check_backend, check_oracle

NAMES = ("batch_norm", "instance_norm", "group_norm", "local_response_norm", "normalize")
CASES = [case for name in NAMES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


def oracle(torch: Any, name: str, x: Any, *more: Any) -> Any:
    """torch's function over channels-first float64 (integers as they are)."""
    whole = not x.dtype.is_floating_point

    def wide(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and not whole else value

    function = getattr(torch.nn.functional, name)
    if name == "normalize":
        return function(wide(x), *more).to(x.dtype)
    # Running statistics are copied: torch updates them.
    given = [value.clone() if isinstance(value, torch.Tensor) else value for value in more]
    result = last(function(first(wide(x)), *map(wide, given)))
    return result if whole else result.to(x.dtype)


def _served(case: Any) -> bool:
    if case.op == "local_response_norm" and case.dtype == "int32":
        return False
    return case.name != "empty"


@pytest.mark.parametrize("case", [case for case in CASES if _served(case)], ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, lambda torch, *given: oracle(torch, case.op, *given))


def test_running_statistics_are_only_read() -> None:
    mean, var = crt.zeros(2), crt.ones(2)
    crt.batch_norm(crt.tensor([[1.0, 2.0], [3.0, 6.0]]), mean, var, training=True, momentum=1.0)
    assert mean.tolist() == [0.0, 0.0] and var.tolist() == [1.0, 1.0]


X = crt.ones(2, 3, 4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.batch_norm(X, None, None), "are needed where training is False"),
        (lambda: crt.batch_norm(X, crt.ones(3), crt.ones(4)), "running_mean [3] must be [4]"),
        (lambda: crt.batch_norm(crt.ones(1, 4), None, None, training=True), "expected more than"),
        (lambda: crt.batch_norm(crt.ones(4), None, None, training=True), "must be [N, ..., C]"),
        (lambda: crt.instance_norm(crt.ones(3, 1, 4)), "expected more than one"),
        (lambda: crt.instance_norm(X, use_input_stats=False), "are needed where use_input_stats"),
        (lambda: crt.group_norm(X, 3), "num_groups 3 must divide the 4 channels"),
        (lambda: crt.group_norm(X, 0), "num_groups 0 must divide"),
        (lambda: crt.group_norm(X, 2, crt.ones(2)), "weight [2] must be [4]"),
        (lambda: crt.local_response_norm(crt.ones(3, 4), 3), "must be [N, spatial..., C]"),
        (lambda: crt.local_response_norm(X, 0), "size 0 must be at least 1"),
        (lambda: crt.normalize(X, dim=3), "dim 3 is out of range"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)
