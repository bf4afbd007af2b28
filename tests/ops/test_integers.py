"""64-bit integers stay exact beside Python numbers: nothing goes through a float on the way."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError

MOST = 2**63 - 1
EDGES = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, MOST, -MOST, -MOST - 1]


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


#: What each operator gives for two integers, by Python's.
EXACT: dict[str, Callable[[int, int], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "maximum": max,
    "minimum": min,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("name", EXACT)
def test_binary(name: str) -> None:
    x = crt.tensor(EDGES)
    for number in EDGES:
        want = [EXACT[name](value, number) for value in EDGES]
        want = [value if isinstance(value, bool) else wrapped(value) for value in want]
        assert getattr(ops, name)(x, number).tolist() == want, f"{name} by {number}"
        other = crt.full((len(EDGES),), number, dtype=crt.int64)
        assert getattr(ops, name)(x, other).tolist() == want, f"{name} by a tensor of {number}"


@pytest.mark.parametrize("number", EDGES)
def test_numbers_that_are_stored(number: int) -> None:
    x = crt.tensor([5, 6])
    assert crt.full((2,), number).tolist() == [number, number]
    assert ops.fill(x, number).tolist() == [number, number]
    assert ops.masked_fill(x, crt.tensor([True, False]), number).tolist() == [number, 6]
    assert ops.where(crt.tensor([True, False]), x, number).tolist() == [5, number]
    assert ops.clamp(crt.tensor(EDGES), min=number).tolist() == [max(v, number) for v in EDGES]
    assert ops.clamp(crt.tensor(EDGES), max=number).tolist() == [min(v, number) for v in EDGES]
    assert ops.pad(x, (1, 0), value=number).tolist() == [number, 5, 6]
    assert ops.index_fill(x, 0, crt.tensor([1]), number).tolist() == [5, number]
    assert ops.isin(x, crt.tensor([number])).tolist() == [False, False]
    assert ops.floor_divide(crt.tensor([MOST]), number or 3).tolist() == [MOST // (number or 3)]
    x[0] = number
    assert x.tolist() == [number, 6]


def test_division_by_minus_one_wraps() -> None:
    x = crt.tensor([-MOST - 1])
    for call in (ops.floor_divide, lambda a, b: ops.div(a, b, rounding_mode="trunc")):
        assert call(x, -1).tolist() == [-MOST - 1]
    assert ops.remainder(x, -1).tolist() == [0] and ops.fmod(x, -1).tolist() == [0]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**30])
def test_larger_numbers_are_refused(number: int) -> None:
    x = crt.tensor([1, 2])
    for call in (
        lambda: ops.add(x, number),
        lambda: ops.eq(x, number),
        lambda: ops.clamp(x, max=number),
        lambda: crt.full((2,), number),
        lambda: ops.masked_fill(x, x > 1, number),
        lambda: ops.narrow(x, 0, number, 1),
        lambda: ops.arange(0, number, dtype=crt.int64),
        lambda: ops.pad(x, (1, 0), value=number),
    ):
        with pytest.raises(InvalidArgumentError, match="64 bits"):
            call()


def test_sums_wrap_like_numpy() -> None:
    x = np.array([MOST, MOST, 5], np.int64)
    ours = crt.from_numpy(x)
    assert ops.sum(ours).item() == int(x.sum()) and ops.prod(ours).item() == int(x.prod())
    assert ops.cumsum(ours, 0).tolist() == x.cumsum().tolist()
