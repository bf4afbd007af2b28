"""Cases and oracles of the operators that make tensors from sizes and numbers."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.ops.creation import count_in_triangle
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

CASES = [case for name in ops._GROUPS["creation"].split() for case in cases(name)]


def oracle(name: str) -> Any:
    def call(torch: Any, *args: Any) -> Any:
        *numbers, dtype, _ = args
        if name == "eye":
            return torch.eye(*(n for n in numbers if n is not None), dtype=dtype)
        default = torch.int64 if name.endswith("indices") else torch.float32
        return getattr(torch, name)(*numbers, dtype=dtype or default)

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


def test_size_of_a_triangle() -> None:
    for rows in range(5):
        for columns in range(5):
            for offset in range(-6, 7):
                want = sum(j <= i + offset for i in range(rows) for j in range(columns))
                assert count_in_triangle(rows, columns, offset) == want, (rows, columns, offset)


def test_absurd_sizes_are_refused_before_memory_is_asked_for() -> None:
    for call in (
        lambda: crt.eye(2**62),
        lambda: crt.linspace(0, 1, 2**62),
        lambda: crt.tril_indices(2**40, 2**40),
        lambda: crt.arange(0.0, 1e30, 1e-30),
    ):
        with pytest.raises(crt.InvalidArgumentError):
            call()
    assert tuple(crt.tril_indices(2**62, 0).shape) == (2, 0)
    assert crt.triu_indices(2**62, 3, 1).tolist() == [[0, 0, 1], [1, 2, 2]]
