"""Entries at other places."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array

_EXACT: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}
_DTYPES = ("float32", "bfloat16", "int32", "int64", "bool")


def _tuple(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


def _flip_cases(make: Make) -> None:
    for dtype in _DTYPES:
        make.case(dtype, make.normal((3, 4, 5), dtype), (1,))
    x = make.normal((3, 4, 5))
    for dims in ((0, 2), (-1, 0, 1), ()):
        make.case("by" + "x".join(map(str, dims)), x, dims)
    make.case("strided", make.normal((4, 5), "float32", "transposed"), 0)
    make.case("expanded", make.normal((4, 5), "float32", "expanded"), (0, 1))
    make.case("large", make.normal((70, 90), "float32", "transposed"), (0,))
    make.case("empty", make.normal((0, 3)), (0,))
    make.case("scalar", make.normal(()), (0,))


operator(
    "flip",
    lambda x, dims: np.flip(x, _tuple(dims)) if x.ndim else x,
    _flip_cases,
    example="crt.flip(crt.tensor([[1, 2], [3, 4]]), 1)",
    **_EXACT,
)


def _roll(x: Array, shifts: Any, dims: Any) -> Array:
    if x.ndim == 0:
        return x
    if dims is None or _tuple(dims) == ():
        return np.roll(x, _tuple(shifts))
    return np.roll(x, _tuple(shifts), _tuple(dims))


def _roll_cases(make: Make) -> None:
    for dtype in _DTYPES:
        make.case(dtype, make.normal((3, 4, 5), dtype), 2, 1)
    x = make.normal((3, 4, 5))
    make.case("flat", x, 7)
    make.case("two", x, (1, -2), (0, 2))
    make.case("twice", x, (1, 1), (0, 0))
    make.case("far", x, -13, -1)
    make.case("strided", make.normal((4, 5), "float32", "transposed"), 1, 0)
    make.case("flat-strided", make.normal((4, 5), "float32", "transposed"), 3)
    make.case("empty", make.normal((0, 3)), 1, 0)
    make.case("scalar", make.normal(()), 5)


operator(
    "roll",
    _roll,
    _roll_cases,
    example="crt.roll(crt.tensor([1, 2, 3, 4]), 1)",
    **_EXACT,
)


def _repeat_cases(make: Make) -> None:
    for dtype in _DTYPES:
        make.case(dtype, make.normal((2, 3), dtype), (2, 3))
    make.case("front", make.normal((2, 3)), (4, 1, 2))
    make.case("once", make.normal((2, 3)), (1, 1))
    make.case("ones", make.normal((1, 3, 1)), (5, 1, 6))
    make.case("none", make.normal((2, 3)), (0, 2))
    make.case("scalar", make.normal(()), (3,))
    make.case("no-dims", make.normal(()), ())
    make.case("strided", make.normal((3, 2), "bfloat16", "transposed"), (2, 2))


operator(
    "repeat",
    lambda x, repeats: np.tile(x, repeats),
    _repeat_cases,
    example="crt.repeat(crt.tensor([1, 2]), 2, 2)",
    **_EXACT,
)


def _triangle_cases(make: Make) -> None:
    for dtype in _DTYPES:
        make.case(dtype, make.normal((4, 5), dtype))
    for diagonal in (1, -2, 9, -9):
        make.case(f"diagonal{diagonal}", make.normal((4, 3)), diagonal)
    make.case("batch", make.normal((2, 3, 4, 4)), -1)
    make.case("strided", make.normal((4, 6), "float32", "transposed"), 1)
    make.case("nan", make.operand([[1.0, np.nan], [np.inf, 2.0]], "float32"))
    make.case("empty", make.normal((0, 4, 4)))


operator(
    "tril", np.tril, _triangle_cases, example="crt.tril(crt.tensor([[1, 2], [3, 4]]))", **_EXACT
)
operator(
    "triu", np.triu, _triangle_cases, example="crt.triu(crt.tensor([[1, 2], [3, 4]]))", **_EXACT
)


def _diag_embed(x: Array, offset: int, dim1: int, dim2: int) -> Array:
    side = x.shape[-1] + abs(offset)
    result = np.zeros((*x.shape[:-1], side, side), x.dtype)
    places = np.arange(x.shape[-1])
    result[..., places + max(-offset, 0), places + max(offset, 0)] = x
    return np.moveaxis(result, (-2, -1), (dim1 % result.ndim, dim2 % result.ndim))


def _diag_embed_cases(make: Make) -> None:
    for dtype in _DTYPES:
        make.case(dtype, make.normal((3,), dtype))
    for offset in (1, -2):
        make.case(f"offset{offset}", make.normal((2, 3)), offset)
    make.case("dims", make.normal((2, 3)), 1, 0, 2)
    make.case("swapped", make.normal((2, 3)), -1, -1, 0)
    make.case("strided", make.normal((3, 2), "float32", "transposed"))
    make.case("empty", make.normal((0,)), 2)


operator(
    "diag_embed",
    _diag_embed,
    _diag_embed_cases,
    example="crt.diag_embed(crt.tensor([1, 2]))",
    **_EXACT,
)
