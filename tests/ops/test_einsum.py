"""Sums of products named by indices, against torch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("iji->j", [(3, 2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij->", [(2, 3)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("b i j , b i j -> b", [(2, 3, 4), (2, 3, 4)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("i...->...", [(2, 3, 4)]),
        ("...a,a", [(2, 3), (3,)]),
        ("ab,bc,cd->da", [(2, 3), (3, 4), (4, 5)]),
        ("abc,abd,acd->bcd", [(2, 3, 4), (2, 3, 5), (2, 4, 5)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("ij,jk->ik", [(2, 0), (0, 4)]),
        ("i,i->", [(0,), (0,)]),
        (",ij->ji", [(), (2, 3)]),
        ("Aa,aA->", [(2, 3), (3, 2)]),
    ],
)
def test_equations(equation: str, shapes: list[tuple[int, ...]]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(len(equation))
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    want = torch.einsum(equation, *map(torch.from_numpy, arrays))
    got = ops.einsum(equation, *(crt.from_numpy(array) for array in arrays))
    # At most 60 float32 products of numbers around 1, in another order.
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-6, atol=1e-5)
    whole = [np.asarray(np.rint(array * 3), np.int64) for array in arrays]
    want = torch.einsum(equation, *map(torch.from_numpy, whole))
    got = ops.einsum(equation, [crt.from_numpy(array) for array in whole])
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize(
    ("equation", "problem"),
    [
        ("ij,jk,kl", "names 3 operands, 2 are given"),
        ("ijk,jk", "operand 0 has 2 dims"),
        ("i,jk", "operand 0 has 2 dims"),
        ("ij,jk->ii", "names 'i' twice"),
        ("ij,jk->z", "no operand has the result's 'z'"),
        ("ij,jk->i1", "'1' is no letter"),
        ("ij,jk->i->k", "'-' is no letter"),
        ("......ij,jk", "more than one ellipsis"),
        ("ij,ji->", "size 4 at 'i'"),
    ],
)
def test_refusals(equation: str, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        ops.einsum(equation, crt.ones(2, 3), crt.ones(3, 4))


def test_what_is_no_operand() -> None:
    with pytest.raises(InvalidArgumentError, match="has no operands"):
        ops.einsum("i")
    with pytest.raises(InvalidArgumentError, match="one dtype"):
        ops.einsum("i,i", crt.ones(2), crt.ones(2, dtype=crt.int32))
    bad: Any = [1.0]
    with pytest.raises(TypeError, match="operand 1 must be a tensor"):
        ops.einsum("i,i", crt.ones(1), bad)
