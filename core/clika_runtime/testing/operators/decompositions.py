"""Decompositions of matrices, in float64 by NumPy's LAPACK; signs as the records fix them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array


def _each(function: Any, *stacks: Array) -> tuple[Array, ...]:
    """The function of each matrix of the batch, its results stacked again."""
    batch = stacks[0].shape[:-2]
    found = [function(*(stack[at] for stack in stacks)) for at in np.ndindex(batch)]
    return tuple(
        np.reshape(np.stack(part), (*batch, *part[0].shape)) for part in zip(*found, strict=True)
    )


def _cholesky(x: Array, upper: bool) -> Array:
    factor: Array = np.linalg.cholesky(x)
    return np.swapaxes(factor, -1, -2) if upper else factor


def _cholesky_ex(x: Array, upper: bool) -> tuple[Array, Array]:
    """A minor is positive where the determinants of all smaller ones are."""
    rows = range(1, x.shape[-1] + 1)
    minors = np.stack([np.linalg.det(x[..., :k, :k]) for k in rows], -1)
    bad = minors <= 0
    info = np.where(bad.any(-1), bad.argmax(-1) + 1, 0)
    whole = np.where((info > 0)[..., None, None], np.eye(x.shape[-1]), x)
    return np.where((info > 0)[..., None, None], np.nan, _cholesky(whole, upper)), info


def _with_info(function: Any) -> Any:
    """Results of a function of square matrices, NaN for singular ones, and the first pivot that
    is 0."""

    def reference(A: Array, *more: Array) -> tuple[Array, Array]:
        factors = _each(_lu_one, A)[0]
        bad = np.diagonal(factors, 0, -2, -1) == 0
        info = np.where(bad.any(-1), bad.argmax(-1) + 1, 0)
        singular = (info > 0)[..., None, None]
        result = function(np.where(singular, np.eye(A.shape[-1]), A), *more)
        return np.where(singular, np.nan, result), info

    return reference


def _lu_ex(x: Array) -> tuple[Array, ...]:
    factors, pivots = _each(_lu_one, x)
    bad = np.diagonal(factors, 0, -2, -1) == 0
    return factors, pivots, np.where(bad.any(-1), bad.argmax(-1) + 1, 0)


def _lu_one(x: Array) -> tuple[Array, Array]:
    a = x.copy()
    m, n = a.shape
    pivots = np.zeros(min(m, n), np.int64)
    for k in range(min(m, n)):
        p = k + int(np.argmax(np.abs(a[k:, k])))
        pivots[k] = p + 1
        a[[k, p]] = a[[p, k]]
        if a[k, k]:
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, pivots


def _triangular(A: Array, B: Array, upper: bool, unit: bool) -> Array:
    part = np.triu(A) if upper else np.tril(A)
    if unit:
        part = part - part * np.eye(A.shape[-1]) + np.eye(A.shape[-1])
    result: Array = np.linalg.solve(part, B)
    return result


def _qr(x: Array, mode: str) -> tuple[Array, Array]:
    if mode == "r":
        return np.zeros((0,)), np.linalg.qr(x, "reduced")[1]
    q, r = np.linalg.qr(x, mode)  # type: ignore[call-overload]
    return q, r


def _signs(vectors: Array) -> Array:
    """1 or -1 for each column: the sign of its largest element."""
    at = np.argmax(np.abs(vectors), -2)
    result: Array = np.where(np.take_along_axis(vectors, at[..., None, :], -2) < 0, -1.0, 1.0)
    return result


def _eigh(x: Array, triangle: Any) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(x, triangle)
    return values, vectors * _signs(vectors)


def _svd(x: Array, full: bool) -> tuple[Array, ...]:
    u, s, vh = np.linalg.svd(x, full)
    v = np.swapaxes(vh, -1, -2)
    k = s.shape[-1]
    signs = _signs(u)[..., :k]
    u = u * _signs(u)
    v = np.concatenate([v[..., :k] * signs, v[..., k:] * _signs(v[..., k:])], -1)
    return u, s, np.swapaxes(v, -1, -2)


_DTYPES = ("float32", "float64")


def _square(
    make: Make, *batch: int, n: int = 4, dtype: str = "float32", layout: str = "plain"
) -> Any:
    """Well-conditioned: a strong diagonal."""
    values = make.rng.normal(size=(*batch, n, n)) + 3 * np.eye(n)
    return make.operand(values, dtype, layout)


def _symmetric(make: Make, *batch: int, n: int = 4, dtype: str = "float32") -> Any:
    x = make.rng.normal(size=(*batch, n, n))
    return make.operand(x @ np.swapaxes(x, -1, -2) + np.eye(n), dtype)


def _cases_of(build: Any) -> Any:
    """One square matrix, a batch, one element, a batch of nothing."""

    def cases(make: Make) -> None:
        for dtype in _DTYPES:
            make.case(f"{dtype}-one", build(make, dtype=dtype))
            make.case(f"{dtype}-batch", build(make, 2, 3, n=3, dtype=dtype))
        make.case("single", build(make, n=1))
        make.case("larger", build(make, n=20))

    return cases


def _cholesky_cases(make: Make) -> None:
    _cases_of(_symmetric)(make)
    make.case("upper", _symmetric(make, 2), True)


_SINGULAR = np.array([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 1.0]]])


def _singular(make: Make) -> Any:
    """A good matrix, one whose second pivot is 0, and one whose first is."""
    return make.operand(_SINGULAR, "float32")


def _cholesky_ex_cases(make: Make) -> None:
    _cholesky_cases(make)
    make.case("not-definite", _singular(make))
    make.case("not-definite-upper", _singular(make), True)


def _inv_ex_cases(make: Make) -> None:
    _cases_of(_square)(make)
    make.case("singular", _singular(make))


def _lu_ex_cases(make: Make) -> None:
    _rectangles(make)
    make.case("singular", _singular(make))


def _solve_ex_cases(make: Make) -> None:
    _solve_cases(make)
    make.case("singular", _singular(make), make.normal((3, 2, 4)))


def _det_cases(make: Make) -> None:
    _cases_of(_square)(make)
    make.case("transposed", _square(make, layout="transposed"))


def _rectangles(make: Make, *more: Any) -> None:
    for dtype in _DTYPES:
        make.case(f"{dtype}-tall", make.normal((2, 5, 4), dtype), *more)
        make.case(f"{dtype}-flat", make.normal((2, 4, 5), dtype), *more)
    make.case("square", make.normal((6, 6)), *more)
    make.case("transposed", make.normal((6, 5), "float32", "transposed"), *more)


def _solve_cases(make: Make) -> None:
    for dtype in _DTYPES:
        make.case(f"{dtype}-one", _square(make, dtype=dtype), make.normal((4, 2), dtype))
        make.case(f"{dtype}-batch", _square(make, 2, dtype=dtype), make.normal((2, 4, 3), dtype))
    make.case("single", _square(make, n=1), make.normal((1, 1)))


def _triangular_cases(make: Make) -> None:
    for upper in (True, False):
        for unit in (True, False):
            a, b = _square(make, 2), make.normal((2, 4, 3))
            make.case(f"upper-{upper}-unit-{unit}", a, b, upper, unit)
    make.case("float64", _square(make, dtype="float64"), make.normal((4, 1), "float64"), True)


def _qr_cases(make: Make) -> None:
    for mode in ("reduced", "complete", "r"):
        make.case(f"{mode}-tall", make.normal((2, 5, 3)), mode)
        make.case(f"{mode}-flat", make.normal((3, 5)), mode)
    make.case("float64", make.normal((6, 4), "float64"))
    make.case("transposed", make.normal((6, 4), "float32", "transposed"))


def _eigh_cases(make: Make) -> None:
    _cases_of(_symmetric)(make)
    make.case("upper", make.normal((2, 4, 4)), "U")
    make.case("lower", make.normal((2, 4, 4)), "L")


def _svd_cases(make: Make) -> None:
    _rectangles(make, True)
    make.case("reduced-tall", make.normal((7, 3)), False)
    make.case("reduced-flat", make.normal((3, 7)), False)


# float32 is one rounding; float64 as many as the condition of the matrix (below 100) brings.
_BOUNDS: dict[str, Any] = {"float32": (2, 200)}
_M = "crt.tensor([[4.0, 2.0], [2.0, 3.0]])"


def _example(name: str) -> str:
    return f"crt.{name}({_M})"


operator("cholesky", _cholesky, _cholesky_cases, example=_example("cholesky"), **_BOUNDS)
operator(
    "lu_factor", lambda x: _each(_lu_one, x), _rectangles, example=_example("lu_factor"), **_BOUNDS
)
operator(
    "cholesky_ex",
    _cholesky_ex,
    _cholesky_ex_cases,
    example="crt.cholesky_ex(crt.tensor([[1.0, 2.0], [2.0, 1.0]]))[1]",
    **_BOUNDS,
)
operator(
    "lu_factor_ex",
    _lu_ex,
    _lu_ex_cases,
    example="crt.lu_factor_ex(crt.tensor([[1.0, 2.0], [2.0, 4.0]]))[2]",
    **_BOUNDS,
)
operator(
    "inv_ex",
    _with_info(np.linalg.inv),
    _inv_ex_cases,
    example="crt.inv_ex(crt.tensor([[1.0, 2.0], [2.0, 4.0]]))[1]",
    **_BOUNDS,
)
operator(
    "solve_ex",
    _with_info(np.linalg.solve),
    _solve_ex_cases,
    example=f"crt.solve_ex({_M}, crt.tensor([1.0, 2.0]))",
    **_BOUNDS,
)
operator("det", np.linalg.det, _det_cases, example=_example("det"), **_BOUNDS)
operator(
    "slogdet",
    lambda x: tuple(np.linalg.slogdet(x)),
    _det_cases,
    example=_example("slogdet"),
    **_BOUNDS,
)
operator("inv", np.linalg.inv, _det_cases, example=_example("inv"), **_BOUNDS)
operator(
    "solve",
    np.linalg.solve,
    _solve_cases,
    example=f"crt.solve({_M}, crt.tensor([1.0, 2.0]))",
    **_BOUNDS,
)
operator(
    "solve_triangular",
    _triangular,
    _triangular_cases,
    example=f"crt.solve_triangular({_M}, crt.tensor([[1.0], [2.0]]), upper=True)",
    **_BOUNDS,
)
operator("qr", _qr, _qr_cases, example=_example("qr"), **_BOUNDS)
operator("eigh", _eigh, _eigh_cases, example=_example("eigh"), **_BOUNDS)
operator("svd", _svd, _svd_cases, example=_example("svd"), **_BOUNDS)
