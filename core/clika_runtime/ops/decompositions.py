"""Decompositions of matrices and systems of equations, over batches [..., M, N] of float32 or
float64; everything is computed in float64 and rounded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._functions import of_tensors
from ._shapes import broadcast, fail, same, text
from .record import Meta, op, static, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native._core import Tensor

WIDE = frozenset(("float32", "float64"))
_GOLUB = "Golub and Van Loan, Matrix Computations, 4th edition, "


def _matrices(name: str, what: str, input: Meta) -> tuple[Any, Any, Any]:
    """The batch, and the rows and columns."""
    if input.ndim < 2:
        fail(name, f"{what} must be matrices [..., M, N], got {text(input.shape)}")
    return tuple(input.shape[:-2]), input.shape[-2], input.shape[-1]


def _square(name: str, what: str, input: Meta) -> tuple[Any, Any]:
    """The batch and the size."""
    batch, m, n = _matrices(name, what, input)
    if not same(m, n):
        fail(name, f"{what} must be square matrices [..., N, N], got {text(input.shape)}")
    return batch, n


def _least(m: Any, n: Any) -> Any:
    return m if same(m, n) or not isinstance(n, int) else n if not isinstance(m, int) else min(m, n)


def _square_like(name: str, input: Meta) -> Meta:
    _square(name, "input", input)
    return Meta(input.shape, input.dtype)


op(
    "cholesky",
    doc="""
    The Cholesky factor of symmetric positive-definite matrices: L with input = L L^T.

    L is lower triangular; with `upper` the result is its transpose. Only that triangle of the input
    is read. A matrix that is not positive definite is an error of the kernel.
    """,
    args=[tensor("input", WIDE), static("upper", "bool", False, keyword_only=True)],
    infer=lambda input, upper: _square_like("cholesky", input),
    source=_GOLUB + "4.2",
)


op(
    "cholesky_ex",
    doc="""
    The factor of `cholesky`, without an error: with int32 info for each matrix.

    info is 0, or the order of the first leading minor that is not positive: that matrix's factor is
    NaN.
    """,
    args=[tensor("input", WIDE), static("upper", "bool", False, keyword_only=True)],
    infer=lambda input, upper: (
        _square_like("cholesky_ex", input),
        Meta(input.shape[:-2], dtypes.int32),
    ),
    outputs=2,
    source=_GOLUB + "4.2",
)


def _lu_factor(name: str, input: Meta) -> tuple[Meta, Meta]:
    batch, m, n = _matrices(name, "input", input)
    return Meta(input.shape, input.dtype), Meta((*batch, _least(m, n)), dtypes.int32)


op(
    "lu_factor",
    doc="""
    The factors of P L U = input with partial pivoting, as one matrix, and the pivots.

    U is the upper triangle, L below it with a diagonal of 1. Row i was exchanged with row
    pivots[i] - 1 (int32), one after the other. A singular matrix has a 0 on U's diagonal.
    """,
    args=[tensor("input", WIDE)],
    infer=lambda input: _lu_factor("lu_factor", input),
    outputs=2,
    source=_GOLUB + "3.4",
)


op(
    "lu_factor_ex",
    doc="""
    The factors and pivots of `lu_factor`, with int32 info for each matrix.

    info is 0, or the place of the first 0 on U's diagonal.
    """,
    args=[tensor("input", WIDE)],
    infer=lambda input: (*_lu_factor("lu_factor_ex", input), Meta(input.shape[:-2], dtypes.int32)),
    outputs=3,
    source=_GOLUB + "3.4",
)


def _det(input: Meta) -> Meta:
    return Meta(_square("det", "input", input)[0], input.dtype)


def _slogdet(input: Meta) -> tuple[Meta, Meta]:
    batch = _square("slogdet", "input", input)[0]
    return Meta(batch, input.dtype), Meta(batch, input.dtype)


op(
    "det",
    doc="The determinant of square matrices [..., N, N]: the product of the pivots of its LU.",
    args=[tensor("input", WIDE)],
    infer=_det,
    source=_GOLUB + "3.4",
)
op(
    "slogdet",
    doc="""
    The sign of the determinant and the logarithm of its size: det = sign * exp(logabsdet).

    A singular matrix has sign 0 and -inf.
    """,
    args=[tensor("input", WIDE)],
    infer=_slogdet,
    outputs=2,
    source=_GOLUB + "3.4",
)


op(
    "inv",
    doc="""
    The inverse of square matrices: input @ inv(input) = 1.

    A singular matrix is an error of the kernel.
    """,
    args=[tensor("input", WIDE)],
    infer=lambda input: _square_like("inv", input),
    source=_GOLUB + "3.4",
)


op(
    "inv_ex",
    doc="""
    The inverse of `inv`, without an error: with int32 info for each matrix.

    info is 0, or the place of the first pivot that is 0: that matrix's inverse is NaN.
    """,
    args=[tensor("input", WIDE)],
    infer=lambda input: (_square_like("inv_ex", input), Meta(input.shape[:-2], dtypes.int32)),
    outputs=2,
    source=_GOLUB + "3.4",
)


def _pair(name: str, A: Meta, B: Meta) -> Meta:
    batch, n = _square(name, "A", A)
    other, rows, _ = _matrices(name, "B", B)
    if A.dtype is not B.dtype:
        fail(name, f"A has dtype {A.dtype.name}, B {B.dtype.name}; convert one with .to()")
    if not same(rows, n) or len(batch) != len(other) or not all(map(same, batch, other)):
        fail(name, f"A {text(A.shape)} does not fit B {text(B.shape)}")
    return Meta(B.shape, B.dtype)


def _one_batch(name: str, A: Any, B: Any) -> tuple[Any, Any]:
    """Both with the common batch."""
    if A.ndim < 2 or B.ndim < 2:
        fail(name, f"A and B must be matrices, got {text(A.shape)} and {text(B.shape)}")
    batch = broadcast(name, tuple(A.shape[:-2]), tuple(B.shape[:-2]))
    return tuple(ops.expand(x, (*batch, *x.shape[-2:])) for x in (A, B))


def _solve_front(call: Callable[..., Any], name: str = "solve") -> Callable[..., Any]:
    @of_tensors
    def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
        vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
        b: Any = ops.unsqueeze(B, -1) if vector else B
        if vector and not left:
            fail(name, f"with left False, B must be matrices, got {text(B.shape)}")
        if left:
            result = call(*_one_batch(name, A, b))
            return ops.squeeze(result, -1) if vector else result
        turned = call(*_one_batch(name, A.mT, b.mT))
        return ops.transpose(turned, -2, -1)

    return solve


op(
    "solve",
    doc="""
    X with A @ X = B, for square matrices A [..., N, N] and B [..., N, K] or vectors [..., N].

    Batches broadcast. With `left` False, X with X @ A = B. A singular matrix is an error of the
    kernel.
    """,
    args=[tensor("A", WIDE, aliases=("input",)), tensor("B", WIDE, aliases=("other",))],
    infer=lambda A, B: _pair("solve", A, B),
    front=_solve_front,
    method=False,
    source=_GOLUB + "3.4",
)


def _solve_ex_front(call: Callable[..., Any]) -> Callable[..., Any]:
    @of_tensors
    def solve_ex(A: Tensor, B: Tensor, *, left: bool = True) -> tuple[Tensor, Tensor]:
        found: list[Any] = []

        def solved(A: Any, B: Any) -> Any:
            result, info = call(A, B)
            found.append(info)
            return result

        return _solve_front(solved, "solve_ex")(A, B, left=left), found[0]

    return solve_ex


op(
    "solve_ex",
    doc="""
    The X of `solve`, without an error: with int32 info for each matrix.

    info is 0, or the place of the first pivot that is 0: that matrix's X is NaN.
    """,
    args=[tensor("A", WIDE, aliases=("input",)), tensor("B", WIDE, aliases=("other",))],
    infer=lambda A, B: (_pair("solve_ex", A, B), Meta(A.shape[:-2], dtypes.int32)),
    front=_solve_ex_front,
    outputs=2,
    method=False,
    source=_GOLUB + "3.4",
)


def _triangular_front(call: Callable[..., Any]) -> Callable[..., Any]:
    @of_tensors
    def solve_triangular(
        A: Tensor, B: Tensor, upper: bool, unitriangular: bool = False, *, left: bool = True
    ) -> Tensor:
        if left:
            result: Tensor = call(*_one_batch("solve_triangular", A, B), upper, unitriangular)
            return result
        if A.ndim < 2 or B.ndim < 2:
            fail("solve_triangular", f"B must be matrices, got {text(B.shape)}")
        turned = call(*_one_batch("solve_triangular", A.mT, B.mT), not upper, unitriangular)
        return ops.transpose(turned, -2, -1)

    return solve_triangular


op(
    "solve_triangular",
    doc="""
    X with A @ X = B, of which one triangle of A is read: the upper one or the lower one.

    A [..., N, N], B [..., N, K]; batches broadcast. With `left` False, X with X @ A = B. With
    `unitriangular`, the diagonal counts as 1; a 0 on it divides otherwise.
    """,
    args=[
        tensor("A", WIDE, aliases=("input",)),
        tensor("B", WIDE, aliases=("other",)),
        static("upper", "bool"),
        static("unitriangular", "bool", False),
    ],
    infer=lambda A, B, *_: _pair("solve_triangular", A, B),
    front=_triangular_front,
    method=False,
    source=_GOLUB + "3.1",
)


def _qr(input: Meta, mode: str | None) -> tuple[Meta, Meta]:
    batch, m, n = _matrices("qr", "input", input)
    least = _least(m, n)
    if mode == "r":
        return Meta((0,), input.dtype), Meta((*batch, least, n), input.dtype)
    inner = m if mode == "complete" else least
    return Meta((*batch, m, inner), input.dtype), Meta((*batch, inner, n), input.dtype)


op(
    "qr",
    doc="""
    Q with orthogonal columns and an upper triangular R: input = Q R.

    mode "reduced": Q [..., M, K] and R [..., K, N] with K the smaller of M and N; "complete": Q
    [..., M, M] and R [..., M, N]; "r": an empty Q and the reduced R. By reflections of Householder,
    whose signs R keeps.
    """,
    args=[
        tensor("input", WIDE),
        static("mode", "str", "reduced", modes=("reduced", "complete", "r")),
    ],
    infer=_qr,
    outputs=2,
    source=_GOLUB + "5.2",
)


def _eigh(input: Meta, triangle: Any) -> tuple[Meta, Meta]:
    batch, n = _square("eigh", "input", input)
    return Meta((*batch, n), input.dtype), Meta(input.shape, input.dtype)


op(
    "eigh",
    doc="""
    Eigenvalues and eigenvectors of symmetric matrices: input = V diag(values) V^T.

    The values ascend, the vectors are the columns of V; the largest element of each is positive.
    `UPLO` names the triangle that is read. By rotations of Jacobi.
    """,
    args=[tensor("input", WIDE), static("UPLO", "str", "L", modes=("L", "U"))],
    infer=_eigh,
    outputs=2,
    source=_GOLUB + "8.5",
)


def _svd(input: Meta, full_matrices: bool) -> tuple[Meta, Meta, Meta]:
    batch, m, n = _matrices("svd", "input", input)
    least = _least(m, n)
    rows, columns = (m, n) if full_matrices else (least, least)
    return (
        Meta((*batch, m, rows), input.dtype),
        Meta((*batch, least), input.dtype),
        Meta((*batch, columns, n), input.dtype),
    )


op(
    "svd",
    doc="""
    Singular values and vectors: input = U diag(S) Vh, with orthogonal columns of U and rows of Vh.

    S descends; the largest element of each column of U (of each further row of Vh) is positive.
    With `full_matrices` U is [..., M, M] and Vh [..., N, N], else [..., M, K] and [..., K, N] with
    K the smaller of M and N. By one-sided rotations of Jacobi.
    """,
    args=[tensor("input", WIDE), static("full_matrices", "bool", True)],
    infer=_svd,
    outputs=3,
    source=_GOLUB + "8.6",
)
