"""Picking elements by truth and by flat positions; one-hot rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array

_EXACT: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}
_KINDS = ("float32", "bfloat16", "int32", "int64", "bool")


def _places(x: Array) -> Array:
    if x.ndim == 0:
        return np.zeros((int(x != 0), 0), np.int64)
    return np.argwhere(x)


def _nonzero_cases(make: Make) -> None:
    for dtype in _KINDS:
        make.case(dtype, make.normal((3, 4, 5), dtype, scale=0.2))
    make.case("long", make.normal((2000,), "int32", scale=0.2))
    make.case("nan", make.operand([np.nan, 0.0, -0.0, 1.0], "float32"))
    make.case("transposed", make.normal((6, 5), "int64", "transposed", 0.2))
    make.case("none", make.operand(np.zeros((3, 2)), "float32"))
    make.case("empty", make.normal((3, 0)))
    make.case("scalar", make.operand(2.0, "float32"))


operator(
    "nonzero",
    _places,
    _nonzero_cases,
    example="crt.nonzero(crt.tensor([[0, 1], [2, 0]]))",
)


def _static(x: Array, size: int, fill: int) -> Array:
    found = _places(x)[:size]
    return np.concatenate([found, np.full((size - len(found), x.ndim), fill, np.int64)])


def _static_cases(make: Make) -> None:
    for dtype in _KINDS:
        x = make.normal((3, 5), dtype, scale=0.2)
        make.case(f"{dtype}-few", x, 2)
        make.case(f"{dtype}-many", x, 20, -7)
    make.case("none", make.normal((3,)), 0)
    make.case("scalar", make.normal(()), 3)
    make.case("transposed", make.normal((6, 5), "int64", "transposed", 0.2), 9)


operator(
    "nonzero_static",
    _static,
    _static_cases,
    example="crt.nonzero_static(crt.tensor([0, 1, 2]), size=3)",
)


def _masked_cases(make: Make) -> None:
    for dtype in _KINDS:
        make.case(dtype, make.normal((3, 5), dtype), make.normal((3, 5), "bool"))
    make.case("rows", make.normal((3, 5)), make.normal((5,), "bool"))
    make.case("spread", make.normal((5,)), make.normal((3, 5), "bool"))
    make.case("both", make.normal((3, 1)), make.normal((4,), "bool"))
    make.case("scalar", make.normal(()), make.operand(True, "bool"))
    make.case("none", make.normal((4,)), make.operand([False] * 4, "bool"))
    make.case(
        "strided",
        make.normal((6, 5), "float32", "transposed"),
        make.normal((6, 5), "bool", "stepped"),
    )


operator(
    "masked_select",
    lambda x, mask: np.broadcast_arrays(x, mask)[0][np.broadcast_arrays(x, mask)[1]],
    _masked_cases,
    **_EXACT,
    example="crt.masked_select(crt.tensor([1, 2, 3]), crt.tensor([True, False, True]))",
)


def _take_cases(make: Make) -> None:
    for dtype in _KINDS:
        make.case(dtype, make.normal((3, 5), dtype), make.integers(-15, 15, (2, 4)))
    make.case("int32-index", make.normal((3, 5)), make.integers(0, 15, (7,), "int32"))
    make.case(
        "transposed", make.normal((6, 5), "float32", "transposed"), make.integers(0, 30, (9,))
    )
    make.case("stepped", make.normal((6,)), make.integers(0, 6, (5,), "int64", "stepped"))
    make.case("scalar", make.normal(()), make.integers(0, 1, ()))
    make.case("none", make.normal((0,)), make.integers(0, 1, (0,)))


operator(
    "take",
    lambda x, index: np.take(x, index),
    _take_cases,
    **_EXACT,
    example="crt.take(crt.tensor([[1, 2], [3, 4]]), crt.tensor([0, -1]))",
)


def _along_cases(make: Make) -> None:
    for dtype in _KINDS:
        make.case(dtype, make.normal((3, 5), dtype), make.integers(0, 5, (3, 2)), 1)
    x = make.normal((3, 5))
    make.case("flat", x, make.integers(-15, 15, (2, 3)))
    make.case("index-broadcast", x, make.integers(0, 5, (1, 4)), 1)
    make.case("input-broadcast", make.normal((1, 5)), make.integers(-5, 5, (4, 2)), 1)
    make.case("first", x, make.integers(0, 3, (6, 5), "int32"), 0)
    make.case(
        "strided", make.normal((6, 5), "float32", "transposed"), make.integers(0, 6, (2, 5)), 0
    )


operator(
    "take_along_dim",
    lambda x, index, dim: np.take_along_axis(x, index.reshape(-1) if dim is None else index, dim),
    _along_cases,
    **_EXACT,
    example="crt.take_along_dim(crt.tensor([[1, 2], [3, 4]]), crt.tensor([[1], [0]]), 1)",
)


def _one_hot_cases(make: Make) -> None:
    for dtype in ("int32", "int64", "uint8"):
        make.case(dtype, make.integers(0, 5, (3, 4), dtype), 6)
    make.case("as-needed", make.operand([2, 0, 4], "int64"))
    make.case("scalar", make.operand(1, "int64"), 3)
    make.case("empty", make.integers(0, 5, (0,)), 3)
    make.case("transposed", make.integers(0, 5, (3, 4), "int64", "transposed"), 5)


operator(
    "one_hot",
    lambda x, classes: np.eye(x.max() + 1 if classes == -1 else classes)[x.astype(np.int64)],
    _one_hot_cases,
    example="crt.one_hot(crt.tensor([0, 2]), 3)",
)
