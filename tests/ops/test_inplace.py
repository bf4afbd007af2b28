"""In-place forms as functions and as methods."""

from __future__ import annotations

import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError


def test_in_place_functions_write_through() -> None:
    x = crt.tensor([[1.0, -2.0], [3.0, 4.0]])
    row = x[0]
    assert crt.add_(row, crt.tensor([1.0, 1.0]), alpha=2) is row
    assert x.tolist() == [[3.0, 0.0], [3.0, 4.0]]
    crt.sub_(x, 5)
    crt.relu_(x)
    assert x.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    crt.add_(x, 7)
    crt.mul_(row, 3)
    crt.div_(x, 2, rounding_mode="floor")
    crt.clamp_(x, max=5.0)
    assert x.tolist() == [[5.0, 5.0], [3.0, 3.0]]


def test_in_place_methods() -> None:
    x = crt.tensor([1, -2])
    assert x.mul_(3) is x and x.clamp_(min=0).tolist() == [3, 0]
    assert x.fmod_(2).tolist() == [1, 0] and x.float().exp2_().tolist() == [2.0, 1.0]


def test_a_result_that_does_not_fit() -> None:
    x = crt.zeros(2)
    with pytest.raises(InvalidArgumentError, match=r"a result of shape \[3, 2\] cannot be written"):
        crt.add_(x, crt.zeros(3, 2))
    with pytest.raises(InvalidArgumentError, match="float32 cannot be written into int64"):
        crt.mul_(crt.tensor([1]), 0.5)
    assert x.tolist() == [0.0, 0.0]
