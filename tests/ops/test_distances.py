"""Norms and distances against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError

# Sums of a few float32 squares in another order.
CLOSE: dict[str, Any] = {"rtol": 2e-6, "atol": 1e-6}


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def pair(torch: Any, *shape: int) -> tuple[Any, Any]:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))
    return made, crt.from_numpy(made.numpy())


def test_unit_rows(torch: Any) -> None:
    theirs, ours = pair(torch, 6, 7)
    want = torch.nn.functional.normalize(theirs, dim=-1)
    np.testing.assert_allclose(ops.l2_normalize(ours).numpy(), want.numpy(), **CLOSE)
    assert ops.l2_normalize(crt.zeros(2, 3)).tolist() == [[0.0] * 3] * 2
    with pytest.raises(InvalidArgumentError, match="normalize: input has dtype int64"):
        ops.l2_normalize(crt.tensor([[1, 2]]))


def test_cosine_and_distance(torch: Any) -> None:
    (a, x), (b, y) = pair(torch, 4, 6), pair(torch, 6)
    functional = torch.nn.functional
    got = ops.cosine_similarity(x, y, dim=-1)
    np.testing.assert_allclose(got.numpy(), functional.cosine_similarity(a, b, -1).numpy(), **CLOSE)
    for p in (1.0, 2.0, 3.0):
        got = ops.pairwise_distance(x, y, p, keepdim=True)
        want = functional.pairwise_distance(a, b, p, keepdim=True)
        np.testing.assert_allclose(got.numpy(), want.numpy(), **CLOSE)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_all_pairs(torch: Any, p: float) -> None:
    for first, second in (
        ((4, 6), (5, 6)),
        ((2, 4, 3), (1, 5, 3)),
        ((4, 0), (5, 0)),
        ((0, 2), (3, 2)),
    ):
        (a, x), (b, y) = pair(torch, *first), pair(torch, *second)
        want = torch.cdist(a.double(), b.double(), p)
        got = ops.cdist(x, y, p)
        # p 0.5 squares a sum of roots.
        np.testing.assert_allclose(got.numpy(), want.float().numpy(), rtol=1e-5, atol=1e-6)


def test_distances_of_all_pairs_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="cdist: x1 and x2 must be"):
        ops.cdist(crt.ones(2, 3), crt.ones(2, 4))
    with pytest.raises(InvalidArgumentError, match="p must be a number of at least 0"):
        ops.cdist(crt.ones(2, 3), crt.ones(2, 3), -1.0)
