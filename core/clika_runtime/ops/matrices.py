"""What is made of decompositions of matrices: Python functions over operators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .. import dtypes, ops
from ..errors import UnsupportedError
from ._functions import of_tensors
from ._shapes import dim as front
from ._shapes import fail, text

if TYPE_CHECKING:
    from .._native._core import Tensor

__all__ = [
    "cholesky_inverse",
    "cholesky_solve",
    "cond",
    "eig",
    "eigvals",
    "eigvalsh",
    "linalg_norm",
    "logdet",
    "lstsq",
    "lu",
    "lu_solve",
    "lu_unpack",
    "matrix_exp",
    "matrix_norm",
    "matrix_rank",
    "pinv",
    "svdvals",
    "tensorinv",
    "tensorsolve",
]


def _rows(name: str, x: Any) -> tuple[int, int]:
    if x.ndim < 2:
        fail(name, f"input must be matrices [..., M, N], got {text(x.shape)}")
    return x.shape[-2], x.shape[-1]


def _unit(n: int, like: Any) -> Any:
    return ops.eye(n, dtype=like.dtype, device=like.device)


def _complex(name: str) -> NoReturn:
    raise UnsupportedError(
        f"{name}: eigenvalues of a matrix that is not symmetric are complex, and there is no "
        "complex dtype; eigh and eigvalsh take symmetric matrices",
        "NOT_IMPLEMENTED_FOR_DTYPE",
    )


@of_tensors
def eig(input: Tensor) -> Any:
    """Refused by name: eigenvalues of general matrices are complex. See `eigh`."""
    _complex("eig")


@of_tensors
def eigvals(input: Tensor) -> Any:
    """Refused by name: eigenvalues of general matrices are complex. See `eigvalsh`."""
    _complex("eigvals")


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
    return lu_unpack(*ops.lu_factor(input))


@of_tensors
def lu_unpack(
    LU: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """P, L and U from what `lu_factor` gives; what is not asked for is an empty tensor."""
    m, n = _rows("lu_unpack", LU)
    k = min(m, n)
    if tuple(pivots.shape) != (*LU.shape[:-2], k):
        fail("lu_unpack", f"LU {text(LU.shape)} and pivots {text(pivots.shape)} do not fit")
    empty = ops.zeros(0, dtype=LU.dtype, device=LU.device)
    swap = ops.cast(_permutation(pivots, m), LU.dtype) if unpack_pivots else empty
    if not unpack_data:
        return swap, empty, empty
    lower = ops.tril(ops.narrow(LU, -1, 0, k), -1)
    unit = ops.narrow(_unit(max(m, k), LU), -1, 0, k)
    return swap, ops.add(lower, unit), ops.triu(ops.narrow(LU, -2, 0, k))


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


def _largest(sizes: Any, dim: int, keepdim: bool = False) -> Any:
    """The largest of numbers that are not negative; 0 of none."""
    return (ops.amax if sizes.shape[dim] else ops.sum)(sizes, dim, keepdim)


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
            result = _largest(values, -1) if ord == 2 else ops.amin(values, -1)
        if keepdim:
            for at in sorted((rows, columns)):
                result = ops.unsqueeze(result, at)
        return result
    if ord not in (1, -1, math.inf, -math.inf):
        fail(name, f"ord {ord!r} is not one of 'fro', 'nuc', 1, -1, 2, -2, inf, -inf")
    summed, left = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = ops.sum(ops.abs(input), summed, True)
    result = _largest(sums, left, True) if ord > 0 else ops.amin(sums, left, True)
    if keepdim:
        return result
    for at in sorted((rows, columns), reverse=True):
        result = ops.squeeze(result, at)
    return result


@of_tensors
def linalg_norm(
    input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A norm of vectors or of matrices: `torch.linalg.norm`.

    Without `ord`, the root of the sum of squares over `dim`, or over everything. With it, one dim
    names vectors (`vector_norm`) and two name matrices (`matrix_norm`); without `dim`, input is a
    vector or a matrix itself.
    """
    at = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None:
        return ops.vector_norm(input, 2, at, keepdim, dtype=dtype)
    if at is None and input.ndim not in (1, 2):
        fail(
            "linalg_norm", f"with ord, input must be a vector or a matrix, got {text(input.shape)}"
        )
    if at is not None and len(at) not in (1, 2):
        fail("linalg_norm", f"dim must be one dim or two, got {dim!r}")
    if (input.ndim if at is None else len(at)) == 2:
        return matrix_norm(input, ord, (-2, -1) if at is None else at, keepdim, dtype=dtype)
    if isinstance(ord, str):
        fail("linalg_norm", f"ord {ord!r} is one of matrices; give a number for vectors")
    return ops.vector_norm(input, ord, at, keepdim, dtype=dtype)


@of_tensors
def cond(input: Tensor, p: Any = None) -> Tensor:
    """The condition number of matrices: norm(A) norm(A^-1), infinite where A is singular.

    `p` is a norm of `matrix_norm`; None is 2, the quotient of the largest and the smallest singular
    value, which matrices that are not square have too.
    """
    m, n = _rows("cond", input)
    if not m or not n:
        return ops.zeros(*input.shape[:-2], dtype=input.dtype, device=input.device)
    if p in (None, 2, -2):
        values = svdvals(input)
        most, least = ops.amax(values, -1), ops.amin(values, -1)
        return ops.div(least, most) if p == -2 else ops.div(most, least)
    if m != n:
        fail("cond", f"p {p!r} takes square matrices, got {text(input.shape)}")
    wide = ops.cast(input, dtypes.float64)
    inverse, info = ops.inv_ex(wide)
    result = ops.mul(matrix_norm(wide, p), matrix_norm(inverse, p))
    infinite = ops.full((), math.inf, dtype=dtypes.float64, device=input.device)
    return ops.cast(ops.where(ops.ne(info, 0), infinite, result), input.dtype)


_DRIVERS = (None, "gels", "gelsy", "gelsd", "gelss")


@of_tensors
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """X that makes the sum of squares of A @ X - B least, and the shortest such X.

    A is [..., M, N]; B [..., M, K], or vectors [..., M]. Gives the solution, the sums of squares
    for each column of B, the ranks and the singular values. Values up to `rcond` times the largest
    count as 0; the default is max(M, N) eps. All drivers of LAPACK compute the same here, by way of
    `svd`, and say what is given beside the solution: sums with all but "gelsy" (the default), where
    M > N and every A has rank N; ranks with all but "gels"; singular values with "gelsd" and
    "gelss". What is not given is an empty tensor.
    """
    name = "lstsq"
    m, n = _rows(name, A)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    b = ops.unsqueeze(B, -1) if vector else B
    if b.ndim < 2 or b.shape[-2] != m:
        fail(name, f"A {text(A.shape)} does not fit B {text(B.shape)}")
    if A.dtype is not B.dtype:
        fail(name, f"A has dtype {A.dtype.name}, B {B.dtype.name}; convert one with .to()")
    if driver not in _DRIVERS:
        fail(name, f"driver {driver!r} is not one of {', '.join(map(repr, _DRIVERS[1:]))}")
    if rcond is not None and rcond != rcond:
        fail(name, "rcond is NaN; it must be a number, or None for the default")
    wide, right = ops.cast(A, dtypes.float64), ops.cast(b, dtypes.float64)
    nothing = ops.zeros(0, dtype=A.dtype, device=A.device)
    u, values, vh = ops.svd(wide, False)
    if values.shape[-1]:
        eps = 2.0**-23 if A.dtype is dtypes.float32 else 2.0**-52
        least = ops.mul(ops.amax(values, -1, True), max(m, n) * eps if rcond is None else rcond)
        kept = ops.gt(values, least)
        inverse = ops.where(kept, ops.reciprocal(ops.where(kept, values, 1.0)), 0.0)
        part = ops.mul(ops.unsqueeze(inverse, -1), ops.matmul(u.mT, right))
        x = ops.matmul(vh.mT, part)
    else:
        kept = values
        x = ops.matmul(ops.zeros(*A.shape[:-2], n, m, dtype=dtypes.float64), right)
    rank = ops.sum(ops.cast(kept, dtypes.int64), -1)
    residuals = nothing
    if m > n and driver not in (None, "gelsy") and bool(ops.all(ops.eq(rank, n)).item()):
        apart = ops.sub(ops.matmul(wide, x), right)
        residuals = ops.cast(ops.sum(ops.square(apart), -2), A.dtype)
    solution = ops.cast(ops.squeeze(x, -1) if vector else x, A.dtype)
    return (
        solution,
        residuals,
        ops.zeros(0, dtype=dtypes.int64) if driver == "gels" else rank,
        ops.cast(values, A.dtype) if driver in ("gelsd", "gelss") else nothing,
    )


@of_tensors
def tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """The inverse of input seen as a matrix whose rows are the first `ind` dims."""
    if isinstance(ind, bool) or not isinstance(ind, int) or ind < 1:
        fail("tensorinv", f"ind must be a positive int, got {ind!r}")
    front_, back = tuple(input.shape[:ind]), tuple(input.shape[ind:])
    rows, columns = math.prod(front_), math.prod(back)
    if rows != columns:
        fail("tensorinv", f"{text(front_)} and {text(back)} must have as many elements")
    return ops.reshape(ops.inv(ops.reshape(input, (rows, columns))), (*back, *front_))


@of_tensors
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B.

    `dims` of A are moved to its end before.
    """
    if dims is not None:
        moved = [front("tensorsolve", d, A.ndim) for d in dims]
        A = ops.movedim(A, moved, tuple(range(A.ndim - len(moved), A.ndim)))
    back = tuple(A.shape[B.ndim :])
    rows = math.prod(B.shape)
    if math.prod(A.shape[: B.ndim]) != rows or math.prod(back) != rows:
        fail("tensorsolve", f"A {text(A.shape)} does not fit B {text(B.shape)}")
    flat = ops.solve(ops.reshape(A, (rows, rows)), ops.reshape(B, (rows,)))
    return ops.reshape(flat, back)


_TERMS = 18  # 1 / 19! is below the spacing of float64 at 1


@of_tensors
def matrix_exp(input: Tensor) -> Tensor:
    """The sum over k of input^k / k! of square matrices [..., N, N].

    By scaling and squaring (Higham, Functions of Matrices, chapter 10) in float64: the series of
    input / 2^s, whose norm is at most 1, squared s times.
    """
    m, n = _rows("matrix_exp", input)
    if m != n:
        fail("matrix_exp", f"input must be square matrices, got {text(input.shape)}")
    if input.dtype.kind != "f":
        fail("matrix_exp", f"input has dtype {input.dtype.name}; convert it with .to()")
    if not math.prod(input.shape):
        return ops.copy(input)
    wide = ops.cast(input, dtypes.float64)
    size = ops.amax(ops.sum(ops.abs(wide), -2, True), -1, True)
    power = ops.clamp(ops.ceil(ops.log2(size)), 0.0, 1024.0)
    power = ops.nan_to_num(power, 0.0)
    small = ops.mul(wide, ops.exp2(ops.neg(power)))
    unit = _unit(n, wide)
    result = ops.add(unit, ops.zeros_like(small))
    for k in range(_TERMS, 0, -1):
        result = ops.add(unit, ops.div(ops.matmul(small, result), k))
    for k in range(int(ops.amax(power).item())):
        result = ops.where(ops.gt(power, k), ops.matmul(result, result), result)
    return ops.cast(result, input.dtype)
