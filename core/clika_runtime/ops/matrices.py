"""What is made of decompositions of matrices: Python functions over operators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from .. import dtypes, ops
from ._functions import of_tensors
from ._shapes import dim as front
from ._shapes import fail, text

if TYPE_CHECKING:
    from .._native._core import Tensor

__all__ = [
    "cholesky_inverse",
    "cholesky_solve",
    "eigvalsh",
    "logdet",
    "lu",
    "lu_solve",
    "matrix_norm",
    "matrix_rank",
    "pinv",
    "svdvals",
]


def _rows(name: str, x: Any) -> tuple[int, int]:
    if x.ndim < 2:
        fail(name, f"input must be matrices [..., M, N], got {text(x.shape)}")
    return x.shape[-2], x.shape[-1]


def _unit(n: int, like: Any) -> Any:
    return ops.eye(n, dtype=like.dtype, device=like.device)


@of_tensors
def eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices in ascending order; see `eigh`."""
    values: Tensor = ops.eigh(input, cast(Any, UPLO))[0]
    return values


@of_tensors
def svdvals(input: Tensor) -> Tensor:
    """The singular values of matrices in descending order; see `svd`."""
    values: Tensor = ops.svd(input, False)[1]
    return values


@of_tensors
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: NaN where it is negative, -inf where it is 0."""
    sign, size = ops.slogdet(input)
    nan = ops.full((), math.nan, dtype=size.dtype, device=size.device)
    return ops.where(ops.lt(sign, 0), nan, size)


def _permutation(pivots: Any, rows: int) -> Any:
    """P of `lu_factor`'s pivots, [..., rows, rows], as float32: P L U is the matrix."""
    batch = tuple(pivots.shape[:-1])
    flat = ops.reshape(pivots, (math.prod(batch), pivots.shape[-1])).tolist()
    orders = []
    for row in flat:
        order = list(range(rows))
        for i, pivot in enumerate(row):
            if not 1 <= pivot <= rows:
                fail("lu_solve", f"pivot {pivot} is outside 1 .. {rows}")
            order[i], order[pivot - 1] = order[pivot - 1], order[i]
        orders.append(order)
    if not orders or not rows:
        return ops.zeros(*batch, rows, rows)
    from .._native._core import tensor

    index = ops.reshape(tensor(orders, dtype=dtypes.int64), (*batch, rows, 1))
    places = ops.arange(0, rows, 1, dtype=dtypes.int64)
    return ops.transpose(ops.cast(ops.eq(index, places), dtypes.float32), -2, -1)


@of_tensors
def lu(input: Tensor) -> Any:
    """P, L and U with P @ L @ U = input: a permutation and the factors of `lu_factor`."""
    m, n = _rows("lu", input)
    packed, pivots = ops.lu_factor(input)
    k = min(m, n)
    lower = ops.tril(ops.narrow(packed, -1, 0, k), -1)
    unit = ops.narrow(_unit(max(m, k), input), -1, 0, k)
    upper = ops.triu(ops.narrow(packed, -2, 0, k))
    return ops.cast(_permutation(pivots, m), input.dtype), ops.add(lower, unit), upper


@of_tensors
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A @ X = B from what `lu_factor` gives for A.

    With `left` False, X with X @ A = B; with `adjoint`, A is transposed.
    """
    n, columns = _rows("lu_solve", LU)
    if n != columns or pivots.shape[-1:] != (n,):
        fail("lu_solve", f"LU {text(LU.shape)} and pivots {text(pivots.shape)} do not fit")
    if not left:
        return lu_solve(LU, pivots, B.mT, adjoint=not adjoint).mT
    swap = ops.cast(_permutation(pivots, n), LU.dtype)
    if adjoint:
        x = ops.solve_triangular(LU.mT, B, False)
        return ops.matmul(swap, ops.solve_triangular(LU.mT, x, True, True))
    x = ops.solve_triangular(LU, ops.matmul(swap.mT, B), False, True)
    return ops.solve_triangular(LU, x, True)


@of_tensors
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A @ X = input from the factor L of `cholesky` of A (its transpose with `upper`)."""
    lower = L.mT if upper else L
    return ops.solve_triangular(lower.mT, ops.solve_triangular(lower, input, False), True)


@of_tensors
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A from its factor L of `cholesky` (its transpose with `upper`)."""
    return cholesky_solve(_unit(_rows("cholesky_inverse", L)[0], L), L, upper)


def _threshold(x: Any, values: Any, atol: Any, rtol: Any) -> Any:
    """max(atol, rtol * largest value), [..., 1]; rtol is max(M, N) eps unless atol is given."""
    m, n = x.shape[-2:]
    if rtol is None:
        eps = 2.0**-23 if x.dtype is dtypes.float32 else 2.0**-52
        default = max(m, n) * eps
        rtol = default if atol is None else 0.0
        if hasattr(atol, "ndim"):
            rtol = ops.where(ops.gt(atol, 0), 0.0, default)
    most = ops.amax(values, -1, True)
    # A tensor has one entry for each matrix.
    rtol, atol = (ops.unsqueeze(v, -1) if hasattr(v, "ndim") else v for v in (rtol, atol))
    bound = ops.mul(most, rtol)
    return bound if atol is None else ops.maximum(bound, atol)


def _spectrum(x: Any, hermitian: bool) -> Any:
    return ops.abs(eigvalsh(x)) if hermitian else svdvals(x)


@of_tensors
def matrix_rank(
    input: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """How many singular values are above max(atol, rtol * the largest), int64.

    `tol` is another name of atol; rtol is max(M, N) times the dtype's eps unless atol is given.
    With `hermitian` the values are the sizes of eigenvalues.
    """
    m, n = _rows("matrix_rank", input)
    if not m or not n:
        return ops.zeros(tuple(input.shape[:-2]), dtype=dtypes.int64)
    values = _spectrum(input, hermitian)
    bound = _threshold(input, values, tol if atol is None else atol, rtol)
    return ops.sum(ops.gt(values, bound), -1)


@of_tensors
def pinv(
    input: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The pseudo-inverse of Moore and Penrose, V diag(1 / S) U^T, without values near 0.

    `rcond` is another name of rtol; what is near 0 is as in `matrix_rank`.
    """
    m, n = _rows("pinv", input)
    if not m or not n:
        return ops.zeros(*input.shape[:-2], n, m, dtype=input.dtype)
    if hermitian:
        values, u = ops.eigh(input)
        sizes, v = ops.abs(values), u
    else:
        u, values, vh = ops.svd(input, False)
        sizes, v = values, vh.mT
    kept = ops.gt(sizes, _threshold(input, sizes, atol, rcond if rtol is None else rtol))
    inverse = ops.where(kept, ops.reciprocal(ops.where(kept, values, 1.0)), 0.0)
    return ops.matmul(ops.mul(v, ops.unsqueeze(ops.cast(inverse, v.dtype), -2)), u.mT)


@of_tensors
def matrix_norm(
    input: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """A norm of the matrices along two dims.

    "fro": the root of the sum of squares; "nuc": the sum of singular values; 2 and -2: the largest
    and the smallest one; 1 and -1: the largest and the smallest sum of a column's sizes; inf and
    -inf: of a row's.
    """
    name = "matrix_norm"
    if input.ndim < 2 or not isinstance(dim, (list, tuple)) or len(dim) != 2:
        fail(name, f"dim must be two dims of {text(input.shape)}, got {dim!r}")
    rows, columns = (front(name, d, input.ndim) for d in dim)
    if rows == columns:
        fail(name, f"dim {tuple(dim)} names a dimension twice")
    if dtype is not None:
        input = ops.cast(input, dtype)
    if ord == "fro":
        return ops.vector_norm(input, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        values = svdvals(ops.movedim(input, (rows, columns), (-2, -1)))
        if ord == "nuc":
            result = ops.sum(values, -1)
        else:
            result = (ops.amax if ord == 2 else ops.amin)(values, -1)
        if keepdim:
            for at in sorted((rows, columns)):
                result = ops.unsqueeze(result, at)
        return result
    if ord not in (1, -1, math.inf, -math.inf):
        fail(name, f"ord {ord!r} is not one of 'fro', 'nuc', 1, -1, 2, -2, inf, -inf")
    summed, left = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = ops.sum(ops.abs(input), summed, True)
    result = (ops.amax if ord > 0 else ops.amin)(sums, left, True)
    if keepdim:
        return result
    for at in sorted((rows, columns), reverse=True):
        result = ops.squeeze(result, at)
    return result
