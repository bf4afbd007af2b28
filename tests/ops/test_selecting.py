"""Cases and oracles of picking by truth and by flat positions, and of one-hot rows."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle, has_fixed_shapes

ORACLES: dict[str, Any] = {
    "nonzero": lambda torch, x: torch.nonzero(x),
    "nonzero_static": lambda torch, x, size, fill: torch.nonzero_static(
        x, size=size, fill_value=fill
    ),
    "masked_select": lambda torch, x, mask: torch.masked_select(x, mask),
    "take": lambda torch, x, index: torch.take(x, index.long()),
    "take_along_dim": lambda torch, x, index, dim: torch.take_along_dim(
        x, index.long() % x.numel() if dim is None else index.long(), dim
    ),
    "one_hot": lambda torch, x, classes: torch.nn.functional.one_hot(x.long(), classes),
}
CASES = [case for name in ORACLES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", list(filter(has_fixed_shapes, CASES)), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, ORACLES[case.op])


def test_nonzero_as_tuple() -> None:
    x = crt.tensor([[0, 3], [1, 2]])
    rows, columns = crt.nonzero(x, as_tuple=True)
    assert rows.tolist() == [0, 1, 1] and columns.tolist() == [1, 0, 1]
    assert crt.index(x, [rows, columns]).tolist() == [3, 1, 2]
    (only,) = crt.nonzero(crt.tensor([0, 5, 7]), as_tuple=True)
    assert only.tolist() == [1, 2]
    (scalar,) = crt.nonzero(crt.tensor(4), as_tuple=True)
    assert scalar.tolist() == [0]


def test_an_index_outside_is_refused_at_the_border() -> None:
    x = crt.zeros(3, 5)
    for index in (15, -16, 2**62, -(2**63)):
        with pytest.raises(crt.InvalidArgumentError, match=r"outside 0 \.\. 14"):
            crt.take(x, crt.tensor([0, index])).tolist()
    for index in (5, -6):
        with pytest.raises(crt.InvalidArgumentError, match=r"outside 0 \.\. 4"):
            crt.take_along_dim(x, crt.tensor([[index]] * 3), 1).tolist()
    for classes in (3, -1):
        with pytest.raises(crt.InvalidArgumentError, match="outside"):
            crt.one_hot(crt.tensor([0, -1]), classes).tolist()
    with pytest.raises(crt.InvalidArgumentError, match="outside"):
        crt.one_hot(crt.tensor([2**63 - 1]))
    with pytest.raises(crt.OutOfMemoryError):
        crt.one_hot(crt.tensor([2**41]))
    with pytest.raises(crt.InvalidArgumentError):
        crt.nonzero_static(x, size=-1)
