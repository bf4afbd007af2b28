"""Products of vectors and matrices against torch; its samples are those of `test_opinfo`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError

# Sums of at most 20 float32 products in another order, of numbers around 1.
CLOSE: dict[str, Any] = {"rtol": 2e-6, "atol": 1e-5}


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def pairs(torch: Any, *shapes: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    generator = torch.Generator().manual_seed(len(shapes))
    theirs = [torch.randn(shape, generator=generator) for shape in shapes]
    return theirs, [crt.from_numpy(x.numpy()) for x in theirs]


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", [(3, 4), (4, 5)]),
        ("bmm", [(2, 3, 4), (2, 4, 5)]),
        ("mv", [(3, 4), (4,)]),
        ("dot", [(7,), (7,)]),
        ("vdot", [(7,), (7,)]),
        ("inner", [(2, 3, 4), (5, 4)]),
        ("inner", [(), (5, 4)]),
        ("outer", [(3,), (4,)]),
        ("ger", [(3,), (4,)]),
        ("kron", [(2, 3), (4, 1, 2)]),
        ("addmm", [(5,), (3, 4), (4, 5)]),
        ("addmv", [(3,), (3, 4), (4,)]),
        ("addr", [(3, 1), (3,), (4,)]),
        ("addbmm", [(3, 5), (2, 3, 4), (2, 4, 5)]),
        ("baddbmm", [(3, 5), (2, 3, 4), (2, 4, 5)]),
        ("mm", [(3, 0), (0, 5)]),
    ],
)
def test_products(torch: Any, name: str, shapes: list[tuple[int, ...]]) -> None:
    theirs, ours = pairs(torch, *shapes)
    got, want = getattr(ops, name)(*ours), getattr(torch, name)(*theirs)
    np.testing.assert_allclose(got.numpy(), want.numpy(), **CLOSE)
    if name.startswith(("add", "badd")):
        scales: dict[str, Any] = {"beta": 0.5, "alpha": -2.0}
        got, want = getattr(ops, name)(*ours, **scales), getattr(torch, name)(*theirs, **scales)
        np.testing.assert_allclose(got.numpy(), want.numpy(), **CLOSE)


def test_beta_zero_does_not_look_at_input() -> None:
    nan = crt.full((2, 2), float("nan"))
    assert ops.addmm(nan, crt.ones(2, 3), crt.ones(3, 2), beta=0).tolist() == [[3.0] * 2] * 2


@pytest.mark.parametrize("dims", [0, 1, 2, ([1, 0], [2, 1]), ([-1], [0])])
def test_tensordot(torch: Any, dims: Any) -> None:
    theirs, ours = pairs(
        torch, (4, 5), (5, 4, 5) if dims == 1 or dims == ([-1], [0]) else (4, 4, 5)
    )
    if dims == 2:
        theirs, ours = pairs(torch, (4, 5), (4, 5, 3))
    want = torch.tensordot(theirs[0], theirs[1], dims)
    np.testing.assert_allclose(ops.tensordot(*ours, dims).numpy(), want.numpy(), **CLOSE)


def test_cross_vecdot_and_powers(torch: Any) -> None:
    theirs, ours = pairs(torch, (4, 3), (1, 3))
    for name in ("cross", "vecdot"):
        want = getattr(torch.linalg, name)(*theirs)
        np.testing.assert_allclose(getattr(ops, name)(*ours).numpy(), want.numpy(), **CLOSE)
    (square,), (mine,) = pairs(torch, (2, 3, 3))
    for n in (0, 1, 2, 5):
        want = torch.linalg.matrix_power(square, n)
        np.testing.assert_allclose(
            ops.matrix_power(mine, n).numpy(), want.numpy(), rtol=2e-5, atol=1e-4
        )
    want = torch.linalg.vander(square, N=4)
    np.testing.assert_allclose(ops.vander(mine, 4).numpy(), want.numpy(), **CLOSE)


def test_chain(torch: Any) -> None:
    theirs, ours = pairs(torch, (2, 9), (9, 3), (3, 8), (8,))
    want = torch.linalg.multi_dot(theirs)
    np.testing.assert_allclose(ops.multi_dot(ours).numpy(), want.numpy(), rtol=1e-5, atol=1e-4)


def test_refusals() -> None:
    m, v, b = crt.ones(2, 3), crt.ones(3), crt.ones(2, 2, 2)
    for call, problem in (
        (lambda: ops.mm(m, v), "mat2 must be a matrix"),
        (lambda: ops.mm(m, m), "cannot contract"),
        (lambda: ops.bmm(b, crt.ones(3, 2, 2)), "batches of 2 and 3"),
        (lambda: ops.outer(m, v), "input must be a vector"),
        (lambda: ops.addmm(crt.ones(7, 1, 1), m, crt.ones(3, 2)), "does not broadcast"),
        (lambda: ops.addmm(crt.ones(2, dtype=crt.int32), m, crt.ones(3, 2)), "one dtype"),
        (lambda: ops.tensordot(m, m, 3), "outside 0 .. 2"),
        (lambda: ops.tensordot(m, m, ([0], [1])), "size 2 at dim 0"),
        (lambda: ops.tensordot(m, m, ([0, 0], [0, 0])), "twice"),
        (lambda: ops.cross(m, crt.ones(2, 4)), "broadcast"),
        (lambda: ops.cross(m, m, 0), "must have size 3"),
        (lambda: ops.matrix_power(m, 2), "square"),
        (lambda: ops.chain_matmul(), "no matrices"),
        (lambda: ops.chain_matmul(m, m), "do not fit"),
        (lambda: ops.vander(v, 2**60), "too large"),
    ):
        with pytest.raises(InvalidArgumentError, match=problem):
            call()
    with pytest.raises(TypeError, match="vec must be a tensor"):
        ops.mv(m, [1.0])
