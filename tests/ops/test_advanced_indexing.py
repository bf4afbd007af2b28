"""Cases and oracles of index and index_put_."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

CASES = [*cases("index"), *cases("index_put_")]


def at(x: Any, indices: Any, dims: Any) -> tuple[Any, ...]:
    index: list[Any] = [slice(None)] * x.ndim
    for d, one in zip(range(len(indices)) if dims is None else dims, indices, strict=True):
        index[d] = one.long()
    return tuple(index)


def oracle(name: str) -> Any:
    def index(torch: Any, x: Any, indices: Any, dims: Any) -> Any:
        return x[at(x, indices, dims)]

    def put(torch: Any, x: Any, indices: Any, values: Any, dims: Any, accumulate: bool) -> Any:
        x = x.clone()
        values = torch.as_tensor(values, dtype=x.dtype)
        if not accumulate:
            x[at(x, indices, dims)] = values
            return x
        return x.index_put_(tuple(one.long() for one in indices), values, accumulate=True)

    return index if name == "index" else put


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle(case.op))


@pytest.mark.parametrize("bad", [4, -5, 2**40])
def test_an_index_outside_writes_nothing(bad: int) -> None:
    x = crt.zeros(4)
    index = crt.tensor([0, bad])
    with pytest.raises(crt.InvalidArgumentError, match=f"index {bad} is outside dim 0 of size 4"):
        crt.index(x, [index]).tolist()
    y = crt.zeros(4)
    with pytest.raises(crt.InvalidArgumentError, match=f"index {bad} is outside dim 0 of size 4"):
        crt.index_put_(y, [index], 1.0).tolist()
    y.clear_failure()
    assert y.tolist() == [0.0] * 4


def test_refusals() -> None:
    x = crt.zeros(2, 3)
    i = crt.tensor([0, 1])
    for call, message in (
        (lambda: crt.index(x, []), "expected at least one index"),
        (lambda: crt.index(x, [i, i, i]), r"dims 2 is out of range"),
        (lambda: crt.index(x, [i, i], (1, 0)), r"dims \[1, 0\] must be different and in order"),
        (lambda: crt.index(x, [i.float()]), "indices has dtype float32"),
        (lambda: crt.index(x, [i, crt.tensor([0, 1, 1])]), "cannot broadcast"),
        (lambda: crt.index(crt.zeros(()), [i]), "input has no dims"),
        (lambda: crt.index(crt.zeros(0, 3), [i]), "dim 0 has size 0"),
        (lambda: crt.index(x, [crt.zeros((1,) * 8, dtype=crt.int64)]), "over the limit of 8"),
        (lambda: crt.index_put_(x, [i], crt.zeros(3, 3)), "do not broadcast to the shape"),
    ):
        with pytest.raises(crt.InvalidArgumentError, match=message):
            call()
