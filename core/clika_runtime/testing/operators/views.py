"""Views by shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array

_EXACT: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}


def _view_cases(make: Make) -> None:
    x = make.normal((2, 3, 4))
    for shape in ((24,), (6, 4), (2, -1), (2, 1, 3, 1, 4)):
        make.case("to-" + "x".join(map(str, shape)), x, shape)
    make.case("scalar", make.normal(()), (1, 1))
    make.case("empty", make.normal((0, 4), "int64"), (2, 0))
    make.case("stepped", make.normal((3, 4), "bfloat16", "stepped"), (3, 2, 2))


operator(
    "view",
    lambda x, shape: x.reshape(shape),
    _view_cases,
    example="crt.view(crt.arange(6), (2, 3))",
    **_EXACT,
)


def _unflatten(x: Array, dim: int, sizes: tuple[int, ...]) -> Array:
    dim %= x.ndim
    inner = np.empty(x.shape[dim], bool).reshape(sizes).shape
    return x.reshape(*x.shape[:dim], *inner, *x.shape[dim + 1 :])


def _unflatten_cases(make: Make) -> None:
    x = make.normal((2, 12, 3))
    for dim, sizes in ((1, (3, 4)), (-2, (-1, 6)), (0, (2, 1)), (2, (3,))):
        make.case(f"{dim}-{'x'.join(map(str, sizes))}", x, dim, sizes)
    make.case("strided", make.normal((4, 6), "bfloat16", "transposed"), 1, (2, 3))
    make.case("empty", make.normal((0, 3)), 0, (2, 0))


operator(
    "unflatten",
    _unflatten,
    _unflatten_cases,
    example="crt.unflatten(crt.arange(6), 0, (2, 3))",
    **_EXACT,
)


def _slice(x: Array, dim: int, start: Any, end: Any, step: int) -> Array:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _slice_cases(make: Make) -> None:
    x = make.normal((4, 5, 6))
    for name, *args in (
        ("all",),
        ("from", 0, 1),
        ("middle", 1, 1, 4),
        ("steps", 2, 1, 6, 2),
        ("back", -1, -3, -1),
        ("beyond", 0, -9, 99, 3),
        ("none", 1, 3, 2),
    ):
        make.case(name, x, *args)
    make.case("strided", make.normal((6, 5), "bfloat16", "transposed"), 0, 1, 6, 2)
    make.case("empty", make.normal((0, 3), "int64"), 0, 0, 4)


operator(
    "slice",
    _slice,
    _slice_cases,
    example="crt.slice(crt.arange(10), 0, 1, 8, 3)",
    **_EXACT,
)


def _movedim_cases(make: Make) -> None:
    x = make.normal((2, 3, 4))
    for source, to in ((0, 2), (-1, 0), ((0, 1), (2, 0)), ((), ()), (1, 1)):
        make.case(f"{source}-{to}".replace(" ", ""), x, source, to)
    make.case("strided", make.normal((3, 4), "int32", "stepped"), 0, 1)


def _tuple(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


operator(
    "movedim",
    lambda x, source, to: np.moveaxis(x, _tuple(source), _tuple(to)),
    _movedim_cases,
    example="crt.movedim(crt.zeros(2, 3, 4), 0, -1).shape",
    **_EXACT,
)


def _t_cases(make: Make) -> None:
    make.case("matrix", make.normal((2, 3)))
    make.case("vector", make.normal((3,), "int64"))
    make.case("scalar", make.normal(()))
    make.case("strided", make.normal((2, 3), "bfloat16", "stepped"))


def _adjoint_cases(make: Make) -> None:
    make.case("matrix", make.normal((2, 3)))
    make.case("batch", make.normal((2, 3, 4), "bfloat16"))
    make.case("empty", make.normal((0, 3, 4), "bool"))
    make.case("strided", make.normal((3, 4), "float32", "transposed"))


operator("t", lambda x: x.T, _t_cases, example="crt.t(crt.tensor([[1, 2], [3, 4]]))", **_EXACT)
operator(
    "adjoint",
    lambda x: np.swapaxes(x, -1, -2),
    _adjoint_cases,
    example="crt.adjoint(crt.tensor([[1, 2], [3, 4]]))",
    **_EXACT,
)


def _diagonal_cases(make: Make) -> None:
    x = make.normal((3, 5))
    for offset in (0, 2, -1, 5, -3, 9):
        make.case(f"offset{offset}", x, offset)
    batch = make.normal((2, 3, 4), "bfloat16")
    make.case("dims", batch, 1, -1, 0)
    make.case("last", batch, 0, 1, 2)
    make.case("strided", make.normal((4, 4), "int64", "transposed"), 1)


operator(
    "diagonal",
    np.diagonal,
    _diagonal_cases,
    example="crt.diagonal(crt.tensor([[1, 2], [3, 4]]))",
    **_EXACT,
)


def _windows(x: Array, dim: int, size: int, step: int) -> Array:
    if x.ndim == 0:
        return x.reshape(1)[:size]
    dim %= x.ndim
    found = np.lib.stride_tricks.sliding_window_view(x, size, dim) if size else None
    if found is None:  # NumPy has no windows without entries
        return np.zeros((*x.shape[:dim], x.shape[dim] // step + 1, *x.shape[dim + 1 :], 0), x.dtype)
    return found[(slice(None),) * dim + (slice(None, None, step),)]


def _window_cases(make: Make) -> None:
    x = make.normal((3, 8))
    for dim, size, step in ((1, 3, 1), (1, 2, 2), (-1, 3, 4), (0, 3, 1), (1, 8, 99), (1, 0, 3)):
        make.case(f"{dim}-{size}-{step}", x, dim, size, step)
    make.case("scalar", make.normal(()), 0, 1)
    make.case("strided", make.normal((6, 3), "bfloat16", "transposed"), 0, 2, 3)


operator(
    "sliding_window",
    _windows,
    _window_cases,
    example="crt.sliding_window(crt.arange(6), 0, 3, 2)",
    **_EXACT,
)
