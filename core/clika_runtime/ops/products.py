"""Products of vectors and matrices: Python functions over `matmul`. The 16-bit dtypes are computed
in float32 and rounded once; integers wrap as in `matmul`."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._functions import of_tensors
from ._promotion import BOOL, NUMBERS, result_type
from ._shapes import broadcast, fail, product, text
from ._shapes import dim as front
from .record import Meta

if TYPE_CHECKING:
    from .._native._core import Tensor

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "cross",
    "dot",
    "inner",
    "kron",
    "matrix_power",
    "mm",
    "mv",
    "outer",
    "tensordot",
    "vander",
    "vdot",
    "vecdot",
]


def wide(x: Any) -> Any:
    """The tensor in the dtype that it is computed in."""
    narrow = x.dtype is dtypes.float16 or x.dtype is dtypes.bfloat16
    return ops.cast(x, dtypes.float32) if narrow else x


def _ranks(name: str, **wanted: tuple[Any, int]) -> None:
    for word, (x, rank) in wanted.items():
        if x.ndim != rank:
            kind = {1: "a vector", 2: "a matrix", 3: "a batch of matrices [B, N, M]"}[rank]
            fail(name, f"{word} must be {kind}, got {text(x.shape)}")


def _one_dtype(name: str, *operands: Any) -> Any:
    for other in operands[1:]:
        if other.dtype is not operands[0].dtype:
            fail(
                name,
                f"operands must have one dtype, got {operands[0].dtype.name} and "
                f"{other.dtype.name}; convert one with .to()",
            )
    return operands[0].dtype


def _common(name: str, a: Any, b: Any) -> Any:
    dtype = result_type(*(Meta(tuple(x.shape), x.dtype) for x in (a, b)))
    if dtype.name not in NUMBERS | BOOL:
        fail(name, f"operands of dtype {dtype.name} are not taken; convert them with .to()")
    return dtype


@of_tensors
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, [N, K] and [K, M]: input @ mat2."""
    _ranks("mm", input=(input, 2), mat2=(mat2, 2))
    return ops.matmul(input, mat2)


@of_tensors
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two batches of matrices, [B, N, K] and [B, K, M]; nothing is broadcast."""
    _ranks("bmm", input=(input, 3), mat2=(mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        fail("bmm", f"batches of {input.shape[0]} and {mat2.shape[0]} matrices differ")
    return ops.matmul(input, mat2)


@of_tensors
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix [N, K] and a vector [K]."""
    _ranks("mv", input=(input, 2), vec=(vec, 1))
    return ops.matmul(input, vec)


@of_tensors
def dot(input: Tensor, other: Tensor) -> Tensor:
    """The sum of input[i] * other[i] over two vectors of one length."""
    _ranks("dot", input=(input, 1), other=(other, 1))
    return ops.matmul(input, other)


@of_tensors
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """As `dot`: real numbers are their own conjugates."""
    _ranks("vdot", input=(input, 1), other=(other, 1))
    return ops.matmul(input, other)


@of_tensors
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The dot products of all vectors along the last dims; a 0-d operand multiplies."""
    if not input.ndim or not other.ndim:
        return ops.mul(input, other)
    _one_dtype("inner", input, other)
    if input.shape[-1] != other.shape[-1]:
        fail("inner", f"last dims of {text(input.shape)} and {text(other.shape)} must be equal")
    return tensordot(input, other, ([-1], [-1]))


@of_tensors
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """result[i, j] = input[i] * vec2[j]."""
    _ranks("outer", input=(input, 1), vec2=(vec2, 1))
    return ops.mul(ops.unsqueeze(input, 1), vec2)


def _added(
    name: str, input: Any, product_shape: tuple[int, ...], make: Any, beta: Any, alpha: Any, dt: Any
) -> Any:
    """beta * input + alpha * product; with beta 0, the values of input do not count."""
    shape = broadcast(name, tuple(input.shape), product_shape)
    if shape != product_shape:
        fail(name, f"input {text(input.shape)} does not broadcast to {text(product_shape)}")
    for word, value in (("beta", beta), ("alpha", alpha)):
        if not isinstance(value, (int, float)):
            fail(name, f"{word} must be a number, got {value!r}")
        if not math.isfinite(value) and dt.kind != "f":
            fail(name, f"{word} {value} is no {dt.name}")
    if dt.kind != "f":
        beta, alpha = int(beta), int(alpha)
    result = make()
    if alpha != 1:
        result = ops.mul(result, alpha)
    if beta != 0:
        addend = wide(input)
        result = ops.add(addend if beta == 1 else ops.mul(addend, beta), result)
    return ops.cast(result, dt)


@of_tensors
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) of matrices [N, K] and [K, M]; input broadcasts.

    With beta 0, input is not looked at. Integers take the whole parts of beta and alpha.
    """
    _ranks("addmm", mat1=(mat1, 2), mat2=(mat2, 2))
    dt = _one_dtype("addmm", input, mat1, mat2)
    shape = (mat1.shape[0], mat2.shape[1])
    return _added(
        "addmm", input, shape, lambda: ops.matmul(wide(mat1), wide(mat2)), beta, alpha, dt
    )


@of_tensors
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec) of a matrix [N, K] and a vector [K]; input broadcasts."""
    _ranks("addmv", mat=(mat, 2), vec=(vec, 1))
    dt = _one_dtype("addmv", input, mat, vec)
    shape = (mat.shape[0],)
    return _added("addmv", input, shape, lambda: ops.matmul(wide(mat), wide(vec)), beta, alpha, dt)


@of_tensors
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2) of batches [B, N, K] and [B, K, M]."""
    _ranks("baddbmm", batch1=(batch1, 3), batch2=(batch2, 3))
    dt = _one_dtype("baddbmm", input, batch1, batch2)
    shape = (batch1.shape[0], batch1.shape[1], batch2.shape[2])
    return _added("baddbmm", input, shape, lambda: bmm(wide(batch1), wide(batch2)), beta, alpha, dt)


@of_tensors
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * (the sum of batch1[i] @ batch2[i]) of [B, N, K] and [B, K, M]."""
    _ranks("addbmm", batch1=(batch1, 3), batch2=(batch2, 3))
    dt = _one_dtype("addbmm", input, batch1, batch2)
    shape = (batch1.shape[1], batch2.shape[2])

    def summed() -> Any:
        if batch1.shape[0] != batch2.shape[0]:
            fail("addbmm", f"batches of {batch1.shape[0]} and {batch2.shape[0]} matrices differ")
        return tensordot(wide(batch1), wide(batch2), ([0, 2], [0, 1]))

    return _added("addbmm", input, shape, summed, beta, alpha, dt)


@of_tensors
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2); for bools, "or" of "and"s. Input broadcasts."""
    _ranks("addr", vec1=(vec1, 1), vec2=(vec2, 1))
    dt = result_type(*(Meta(tuple(x.shape), x.dtype) for x in (input, vec1, vec2)))
    shape = (vec1.shape[0], vec2.shape[0])
    if dt is dtypes.bool:
        beta, alpha = bool(beta), bool(alpha)
        made = _added("addr", ops.cast(input, dtypes.int32), shape,
                      lambda: ops.cast(outer(vec1, vec2), dtypes.int32),
                      int(beta), int(alpha), dtypes.int32)  # fmt: skip
        return ops.ne(made, 0)
    vectors = [wide(ops.cast(vec, dt)) for vec in (vec1, vec2)]
    return _added("addr", ops.cast(input, dt), shape, lambda: outer(*vectors), beta, alpha, dt)


@of_tensors
def tensordot(input: Tensor, other: Tensor, dims: Any = 2) -> Tensor:
    """The sum of products over pairs of dims; the other dims of input come first, then other's.

    `dims`: how many of input's last dims meet as many of other's first ones, or two lists of
    dims that meet in order.
    """
    name = "tensordot"
    if isinstance(dims, int) and not isinstance(dims, bool):
        if not 0 <= dims <= min(input.ndim, other.ndim):
            fail(name, f"dims {dims} is outside 0 .. {min(input.ndim, other.ndim)}")
        left, right = list(range(input.ndim - dims, input.ndim)), list(range(dims))
    else:
        try:
            left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
        except (TypeError, ValueError):
            fail(name, f"dims must be an int or two lists of dims, got {dims!r}")
        left = [front(name, d, input.ndim) for d in left]
        right = [front(name, d, other.ndim) for d in right]
    if len(left) != len(right):
        fail(name, f"{len(left)} dims cannot meet {len(right)}")
    if len(set(left)) != len(left) or len(set(right)) != len(right):
        fail(name, f"dims {dims} name a dimension twice")
    # A dim of size 1 meets any: its operand stands for all of them.
    for a, b in zip(list(left), list(right), strict=True):
        m, n = input.shape[a], other.shape[b]
        if m == n:
            continue
        if m == 1:
            other = ops.sum(other, b, True, dtype=other.dtype)
        elif n == 1:
            input = ops.sum(input, a, True, dtype=input.dtype)
        else:
            fail(name, f"size {m} at dim {a} of input meets size {n} at dim {b} of other")
    rows = [d for d in range(input.ndim) if d not in left]
    columns = [d for d in range(other.ndim) if d not in right]
    shape = [input.shape[d] for d in rows] + [other.shape[d] for d in columns]
    inside = product(input.shape[d] for d in left)
    n, m = (product(x.shape[d] for d in kept) for x, kept in ((input, rows), (other, columns)))
    a = ops.reshape(ops.permute(input, [*rows, *left]), (n, inside))
    b = ops.reshape(ops.permute(other, [*right, *columns]), (inside, m))
    return ops.reshape(ops.matmul(a, b), tuple(shape))


@of_tensors
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of input times the whole of other, side by side."""
    _common("kron", input, other)
    rank = max(input.ndim, other.ndim)
    a, b = ((1,) * (rank - x.ndim) + tuple(x.shape) for x in (input, other))
    left = ops.reshape(input, tuple(size for n in a for size in (n, 1)))
    right = ops.reshape(other, tuple(size for n in b for size in (1, n)))
    shape = tuple(n * m for n, m in zip(a, b, strict=True))
    return ops.reshape(ops.mul(left, right), shape)


@of_tensors
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors of 3 along `dim`; the shapes broadcast.

    result[i] = input[i + 1] * other[i + 2] - input[i + 2] * other[i + 1], indices modulo 3.
    Without `dim`, it is the first of size 3.
    """
    name = "cross"
    shape = broadcast(name, tuple(input.shape), tuple(other.shape))
    if dim is None:
        at = next((d for d, size in enumerate(shape) if size == 3), -1)
        if at < 0:
            fail(name, f"no dim of {text(shape)} has size 3")
    else:
        at = front(name, dim, len(shape))
    if not shape or any(x.ndim + at < len(shape) or x.shape[at - len(shape)] != 3
                        for x in (input, other)):  # fmt: skip
        fail(name, f"dim {dim} of {text(input.shape)} and {text(other.shape)} must have size 3")
    dt = _common(name, input, other)
    at -= len(shape)
    a, b = (wide(ops.cast(x, dt)) for x in (input, other))
    ahead = [(ops.roll(x, -1, at), ops.roll(x, -2, at)) for x in (a, b)]
    (a1, a2), (b1, b2) = ahead
    return ops.cast(ops.sub(ops.mul(a1, b2), ops.mul(a2, b1)), dt)


@of_tensors
def vecdot(input: Tensor, other: Tensor, dim: int = -1) -> Tensor:
    """The sum of input * other along `dim`; the shapes broadcast."""
    dt = _one_dtype("vecdot", input, other)
    return ops.cast(ops.sum(ops.mul(wide(input), wide(other)), dim), dt)


def chain_matmul(*matrices: Any) -> Any:
    """The product of two or more matrices in the order of the fewest multiplications.

    The first may be a row and the last a column (vectors); their dims are left out of the result.
    The order is that of the dynamic program of Cormen et al., Introduction to Algorithms, 15.2.
    """
    name = "chain_matmul"
    if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)):
        matrices = tuple(matrices[0])
    if not matrices:
        fail(name, "there are no matrices")
    if len(matrices) == 1:
        return ops.copy(matrices[0])
    chain = [*matrices]
    first, last = chain[0].ndim == 1, chain[-1].ndim == 1
    if first:
        chain[0] = ops.unsqueeze(chain[0], 0)
    if last:
        chain[-1] = ops.unsqueeze(chain[-1], 1)
    for i, x in enumerate(chain):
        _ranks(name, **{f"matrix {i}": (x, 2)})
    dt = _one_dtype(name, *chain)
    for i, (a, b) in enumerate(itertools.pairwise(chain)):
        if a.shape[1] != b.shape[0]:
            fail(name, f"matrices {i} {text(a.shape)} and {i + 1} {text(b.shape)} do not fit")
    result = _chained([wide(x) for x in chain])
    if last:
        result = ops.squeeze(result, 1)
    if first:
        result = ops.squeeze(result, 0)
    return ops.cast(result, dt)


def _chained(chain: list[Any]) -> Any:
    n = len(chain)
    sizes = [chain[0].shape[0], *(x.shape[1] for x in chain)]
    cost: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def build(i: int, j: int) -> Any:
        if i == j:
            return chain[i]
        k = cost[i, j][1]
        return ops.matmul(build(i, k), build(k + 1, j))

    return build(0, n - 1)


@of_tensors
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The product of n copies of square matrices [..., M, M], by repeated squaring; n 0 is eye.

    A negative n multiplies inverses.
    """
    name = "matrix_power"
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        fail(name, f"input must be square matrices [..., M, M], got {text(input.shape)}")
    if isinstance(n, bool) or not isinstance(n, int) or abs(n) >= 2**63:
        fail(name, f"n must be an int, got {n!r}")
    if n < 0:
        return matrix_power(ops.inv(input), -n)
    if n == 0:
        unit = ops.eye(input.shape[-1], dtype=input.dtype, device=input.device)
        return ops.copy(ops.expand(unit, tuple(input.shape)))
    result, square = None, wide(input)
    while True:
        if n & 1:
            result = square if result is None else ops.matmul(result, square)
        n >>= 1
        if not n:
            break
        square = ops.matmul(square, square)
    return ops.copy(result) if result is input else ops.cast(result, input.dtype)


@of_tensors
def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Rows of powers of the elements of x [..., n]: 1, x, x^2, ..., N (default n) of them."""
    name = "vander"
    if not x.ndim:
        x = ops.unsqueeze(x, 0)
    count = x.shape[-1] if N is None else N
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        fail(name, f"N must be a positive int, got {count!r}")
    if product(x.shape) * count >= 2**40:
        fail(name, f"N {count} for {text(x.shape)} is too large")
    dt = dtypes.int64 if x.dtype.kind != "f" else x.dtype
    column = ops.unsqueeze(wide(ops.cast(x, dt)), -1)
    parts = [ops.ones(*column.shape, dtype=column.dtype, device=x.device)]
    if count > 1:
        body = ops.expand(column, (*x.shape, count - 1))
        parts.append(ops.cumprod(body, -1))
    return ops.cast(ops.cat(parts, -1), dt)
