"""Cases and oracles of writing to places that indices name."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def scatter(torch: Any, x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    if reduce == "none":
        return torch.scatter(x, dim, index.long(), src)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates it
        return torch.scatter(x, dim, index.long(), src, reduce=reduce)


def index_reduce(
    torch: Any, x: Any, dim: int, index: Any, src: Any, how: str, include: bool
) -> Any:
    if how == "sum":  # torch has it under another name
        base = x if include else x.index_fill(dim, index, 0)
        return torch.index_add(base, dim, index, src)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls it a beta
        return torch.index_reduce(x, dim, index, src, how, include_self=include)


ORACLES: dict[str, Any] = {
    "scatter": scatter,
    "scatter_add": lambda torch, x, dim, index, src: torch.scatter_add(x, dim, index.long(), src),
    "scatter_reduce": lambda torch, x, dim, index, src, how, include: torch.scatter_reduce(
        x, dim, index.long(), src, how, include_self=include
    ),
    "index_add": lambda torch, x, dim, index, src, alpha: torch.index_add(
        x, dim, index, src, alpha=alpha
    ),
    "index_copy": lambda torch, x, dim, index, src: torch.index_copy(x, dim, index.long(), src),
    "index_fill": lambda torch, x, dim, index, value: torch.index_fill(x, dim, index.long(), value),
    "index_reduce": index_reduce,
    "put": lambda torch, x, index, src, accumulate: torch.Tensor.put(
        x, index.long(), src, accumulate
    ),
    "masked_scatter": lambda torch, x, mask, src: torch.masked_scatter(
        x.expand(torch.broadcast_shapes(x.shape, mask.shape)), mask, src
    ),
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


@pytest.mark.parametrize("bad", [5, -1, 2**62, -(2**63)])
def test_an_index_outside_is_refused(bad: int) -> None:
    x = crt.zeros(5, 3)
    one = crt.tensor([0, bad])
    grid = crt.tensor([[0, 1, 2], [0, bad, 0]])
    rows = crt.ones(2, 3)
    for call in (
        lambda: crt.scatter(x, 0, grid, rows),
        lambda: crt.scatter(x, 0, grid, 2.0),
        lambda: crt.scatter_add(x, 0, grid, rows),
        lambda: crt.scatter_reduce(x, 0, grid, rows, "amax"),
        lambda: crt.index_add(x, 0, one, rows),
        lambda: crt.index_copy(x, 0, one, rows),
        lambda: crt.index_fill(x, 0, one, 1),
        lambda: crt.index_reduce(x, 0, one, rows, "prod"),
        lambda: crt.put(
            x, crt.tensor([bad * 3 if abs(bad) < 10 else bad]) - 15 * (bad < 0), crt.ones(1)
        ),
    ):
        with pytest.raises(crt.InvalidArgumentError, match="outside"):
            call().tolist()
    assert x.tolist() == [[0.0] * 3] * 5


def test_sources_that_do_not_fit_are_refused() -> None:
    x = crt.zeros(5, 3)
    index = crt.tensor([0, 1])
    for call in (
        lambda: crt.scatter(x, 0, crt.zeros(2, 3, dtype=crt.int64), crt.ones(1, 3)),
        lambda: crt.scatter(x, 0, crt.zeros(2, 4, dtype=crt.int64), crt.ones(2, 4)),
        lambda: crt.scatter(x, 0, index, crt.ones(2)),
        lambda: crt.scatter(
            x, 0, crt.zeros(2, 3, dtype=crt.int64), crt.ones(2, 3, dtype=crt.int64)
        ),
        lambda: crt.index_add(x, 0, index, crt.ones(3, 3)),
        lambda: crt.index_copy(x, 2, index, crt.ones(2, 3)),
        lambda: crt.index_fill(x, 0, index, crt.ones(2)),
        lambda: crt.put(x, index, crt.ones(3)),
        lambda: crt.masked_scatter(x, x == 0, crt.ones(14)).tolist(),
        lambda: crt.scatter_reduce(
            x, 0, crt.zeros(2, 3, dtype=crt.int64), crt.ones(2, 3), "median"
        ),
    ):
        with pytest.raises(crt.InvalidArgumentError):
            call()


def test_int64_stays_exact() -> None:
    x = crt.zeros(2, dtype=crt.int64)
    big = 2**62 + 1
    got = crt.index_add(x, 0, crt.tensor([1]), crt.tensor([1]), alpha=big)
    assert got.tolist() == [0, big]
    assert crt.scatter(x, 0, crt.tensor([0]), big).tolist() == [big, 0]
    with pytest.raises(crt.InvalidArgumentError, match="must be a whole number"):
        crt.index_add(x, 0, crt.tensor([1]), crt.tensor([1]), alpha=0.5).tolist()
    assert crt.index_fill(x, 0, crt.tensor([0]), big).tolist() == [big, 0]


def test_index_put() -> None:
    x = crt.zeros(3, 2)
    got = crt.index_put(x, (crt.tensor([True, False, True]),), crt.tensor(4.0))
    assert got.tolist() == [[4.0, 4.0], [0.0, 0.0], [4.0, 4.0]] and x.tolist() == [[0.0, 0.0]] * 3
    rows, columns = crt.tensor([2, 2]), crt.tensor([1, 1])
    got = crt.index_put(x, (rows, columns), crt.tensor([1.0, 5.0]), accumulate=True)
    assert got.tolist() == [[0.0, 0.0], [0.0, 0.0], [0.0, 6.0]]
    with pytest.raises(crt.InvalidArgumentError, match="does not fit"):
        crt.index_put(x, (crt.tensor([True, False]),), 1.0)
