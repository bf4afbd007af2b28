"""Functions over decompositions, against torch's in float64."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError, UnsupportedError

torch = pytest.importorskip("torch")

SHAPES = [(3, 3), (2, 4, 4), (5, 3), (3, 5), (2, 1, 5, 3), (1, 1), (0, 3), (2, 0, 0), (3, 0)]
SQUARE = [shape for shape in SHAPES if shape[-1] == shape[-2]]
# float32: one rounding of what is computed in float64, times the condition of the samples (< 50).
CLOSE = {torch.float32: {"rtol": 2e-5, "atol": 2e-5}, torch.float64: {"rtol": 1e-10, "atol": 1e-10}}
DTYPES = [torch.float32, torch.float64]


def ours(x: Any) -> Any:
    return crt.from_dlpack(x.contiguous())


def theirs(x: Any) -> Any:
    return torch.from_numpy(x.numpy().copy())


def check(got: Any, want: Any, dtype: Any) -> None:
    got = theirs(got)
    assert got.shape == want.shape, f"{list(got.shape)}, torch has {list(want.shape)}"
    if want.dtype.is_floating_point:
        assert got.dtype == dtype
        torch.testing.assert_close(got.double(), want.double(), equal_nan=True, **CLOSE[dtype])
    else:
        torch.testing.assert_close(got, want)


def sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def good(shape: tuple[int, ...], dtype: Any) -> Any:
    """A square one far from singular."""
    return sample(shape, dtype) + 3 * torch.eye(shape[-1], dtype=dtype)


def definite(shape: tuple[int, ...], dtype: Any) -> Any:
    x = sample(shape, dtype)
    return x @ x.mT + torch.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_of_square_matrices(shape: tuple[int, ...], dtype: Any) -> None:
    x, wide = good(shape, dtype), good(shape, dtype).double()
    check(ops.logdet(ours(x)), torch.logdet(wide), dtype)
    check(ops.matrix_exp(ours(x / 2)), torch.matrix_exp(wide / 2), dtype)
    symmetric = definite(shape, dtype)
    factor = ops.cholesky(ours(symmetric))
    for upper in (False, True):
        part = ops.transpose(factor, -2, -1) if upper else factor
        b = sample((*shape[:-1], 2), dtype)
        got = ops.cholesky_solve(ours(b), part, upper)
        check(got, torch.linalg.solve(symmetric.double(), b.double()), dtype)
        check(ops.cholesky_inverse(part, upper), torch.linalg.inv(symmetric.double()), dtype)
    check(ops.eigvalsh(ours(symmetric)), torch.linalg.eigvalsh(symmetric.double()), dtype)
    for p in (None, 2, -2, 1, -1, float("inf"), -float("inf"), "fro", "nuc"):
        if shape[-1]:
            check(ops.cond(ours(x), p), torch.linalg.cond(wide, p), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_of_any_matrices(shape: tuple[int, ...], dtype: Any) -> None:
    x = sample(shape, dtype)
    wide = x.double()
    check(ops.svdvals(ours(x)), torch.linalg.svdvals(wide), dtype)
    check(ops.pinv(ours(x)), torch.linalg.pinv(wide), dtype)
    check(ops.matrix_rank(ours(x)), torch.linalg.matrix_rank(wide), dtype)
    for got, want in zip(ops.lu(ours(x)), torch.linalg.lu(wide), strict=True):
        check(got, want, dtype)
    packed, pivots = torch.linalg.lu_factor(wide)
    for given in ((True, True), (True, False), (False, True)):
        mine = ops.lu_unpack(ours(packed), ours(pivots), *given)
        for got, want in zip(mine, torch.lu_unpack(packed, pivots, *given), strict=True):
            check(got, want, torch.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(left: bool, adjoint: bool, dtype: Any) -> None:
    x, b = good((2, 3, 3), torch.float64), sample((2, 3, 3), torch.float64)
    packed, pivots = torch.linalg.lu_factor(x)
    want = torch.linalg.lu_solve(packed, pivots, b, left=left, adjoint=adjoint)
    given = (ours(packed.to(dtype)), ours(pivots), ours(b.to(dtype)))
    check(ops.lu_solve(*given, left=left, adjoint=adjoint), want, dtype)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (4,)], ids=str)
@pytest.mark.parametrize("keepdim", [True, False])
def test_norms(shape: tuple[int, ...], keepdim: bool) -> None:
    x = sample(shape, torch.float32)
    inf = float("inf")
    for ord, dim in (
        *[(None, dim) for dim in (None, -1, 0)],
        *[(ord, -1) for ord in (0, 1, 2, 3.5, inf, -inf)],
        *[(ord, (0, -1)) for ord in ("fro", "nuc", 1, -1, 2, -2, inf, -inf)],
    ):
        if isinstance(dim, tuple) and len(shape) < 2:
            continue
        want = torch.linalg.norm(x.double(), ord, dim, keepdim)
        check(ops.linalg_norm(ours(x), ord, dim, keepdim), want, torch.float32)
    if len(shape) < 3:
        want = torch.linalg.norm(x.double(), 1, None, keepdim)
        check(ops.linalg_norm(ours(x), 1, None, keepdim), want, torch.float32)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 3), (3, 3)], ids=str)
def test_least_squares(shape: tuple[int, ...], driver: str) -> None:
    a = sample(shape, torch.float64)
    for b in (sample((*shape[:-1], 2), torch.float64, 1), sample(shape[:-1], torch.float64, 2)):
        want = torch.linalg.lstsq(a, b, driver=driver)
        got = ops.lstsq(ours(a), ours(b), driver=driver)
        check(got[0], want.solution, torch.float64)
        if b.ndim == a.ndim:  # torch's sums for vectors are of another shape
            check(got[1], want.residuals, torch.float64)
        if driver != "gels":
            check(got[2], want.rank, torch.float64)
        check(got[3], want.singular_values, torch.float64)


def test_least_squares_of_a_lower_rank() -> None:
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], dtype=torch.float64)
    b = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    x, residuals, rank, _ = ops.lstsq(ours(a), ours(b))
    check(x, torch.linalg.pinv(a) @ b, torch.float64)
    assert residuals.shape == (0,) and rank.item() == 1


def test_tensors_as_matrices() -> None:
    x = sample((2, 3, 6), torch.float64)
    check(ops.tensorinv(ours(x)), torch.linalg.tensorinv(x), torch.float64)
    a, b = sample((2, 3, 6), torch.float64), sample((2, 3), torch.float64)
    check(ops.tensorsolve(ours(a), ours(b)), torch.linalg.tensorsolve(a, b), torch.float64)
    a = sample((6, 2, 3), torch.float64)
    want = torch.linalg.tensorsolve(a, b, (0,))
    check(ops.tensorsolve(ours(a), ours(b), (0,)), want, torch.float64)


def test_exponentials_of_any_size() -> None:
    x = torch.tensor([[[0.0, 1.0], [-1.0, 0.0]], [[-40.0, 30.0], [0.0, -50.0]]]).double()
    check(ops.matrix_exp(ours(x)), torch.matrix_exp(x), torch.float64)
    large = ops.matrix_exp(ours(torch.tensor([[1e300, 0.0], [0.0, float("nan")]]).double()))
    assert not torch.isfinite(theirs(large)).all()


def test_a_singular_matrix_is_badly_conditioned() -> None:
    x = ours(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    assert ops.cond(x, "fro").item() == float("inf")
    assert ops.cond(x).item() > 1e6


def test_refusals() -> None:
    square, flat = crt.ones(2, 2), crt.ones(2, 3)
    for call, problem in (
        (lambda: ops.logdet(flat), "square"),
        (lambda: ops.pinv(crt.ones(3)), "matrices"),
        (lambda: ops.matrix_exp(flat), "square"),
        (lambda: ops.matrix_exp(square.to(crt.int32)), "int32"),
        (lambda: ops.matrix_norm(square, 3), "is not one of"),
        (lambda: ops.matrix_norm(square, "fro", (0, 0)), "twice"),
        (lambda: ops.linalg_norm(crt.ones(2, 2, 2), 2), "vector or a matrix"),
        (lambda: ops.linalg_norm(square, "fro", 0), "one of matrices"),
        (lambda: ops.cond(flat, "fro"), "square"),
        (lambda: ops.lstsq(flat, crt.ones(3, 1)), "does not fit"),
        (lambda: ops.lstsq(flat, crt.ones(2, 1), driver="x"), "is not one of"),
        (lambda: ops.lstsq(flat, crt.ones(2, 1), rcond=float("nan")), "rcond is NaN"),
        (lambda: ops.lstsq(flat, crt.ones(2, 1, dtype=crt.float64)), "dtype float32"),
        (lambda: ops.lu_solve(square, crt.ones(1, dtype=crt.int32), square), "do not fit"),
        (lambda: ops.lu_unpack(square, crt.ones(1, dtype=crt.int32)), "do not fit"),
        (lambda: ops.lu_unpack(square, crt.full((2,), 9, dtype=crt.int32)), "outside 1 .. 2"),
        (lambda: ops.tensorinv(crt.ones(2, 2, 2)), "as many elements"),
        (lambda: ops.tensorsolve(crt.ones(2, 3), crt.ones(2)), "does not fit"),
    ):
        with pytest.raises(InvalidArgumentError, match=problem):
            call()
    for call in (ops.eig, ops.eigvals):
        with pytest.raises(UnsupportedError, match=r"complex.*eigh"):
            call(square)
