"""Indexing by several tensors at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array

_EXACT: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}


def _at(x: Array, indices: list[Array], dims: Any) -> tuple[Any, ...]:
    """The index as NumPy takes it. NumPy and the operator agree on where the picked dims go."""
    where = range(len(indices)) if dims is None else dims
    index: list[Any] = [slice(None)] * x.ndim
    for d, one in zip(where, indices, strict=True):
        index[d] = one
    return tuple(index)


def _index_cases(make: Make) -> None:
    rows = make.integers(-4, 4, (6,))
    for dtype in ("float32", "bfloat16", "int32", "int64", "bool"):
        make.case(dtype, make.normal((4, 5), dtype), [rows])
    x = make.normal((4, 5, 3))
    make.case("two", x, [rows, make.integers(0, 5, (6,), "int32")])
    make.case("grid", x, [make.integers(0, 4, (2, 1)), make.integers(0, 5, (1, 7))], (0, 1))
    make.case("apart", x, [rows, make.integers(0, 3, (6,))], (0, 2))
    make.case("middle", x, [make.integers(0, 5, (2, 2))], (1,))
    make.case("scalar", x, [make.integers(0, 4, ()), make.integers(0, 3, ())], (0, -1))
    make.case("none", x, [make.integers(0, 4, (0,))])
    make.case("empty", make.normal((4, 0)), [rows])
    make.case("strided", make.normal((4, 6), "float32", "transposed"), [rows])
    make.case("index-steps", x, [make.integers(0, 4, (5,), "int64", "stepped")])
    make.case("index-expanded", x, [make.integers(0, 4, (3, 5), "int64", "expanded")])


operator(
    "index",
    lambda x, indices, dims: x[_at(x, indices, dims)],
    _index_cases,
    example="crt.index(crt.tensor([[1, 2], [3, 4]]), [crt.tensor([0, 1]), crt.tensor([1, 0])])",
    **_EXACT,
)


def _put(x: Array, indices: list[Array], values: Any, dims: Any, accumulate: bool) -> Array:
    result = np.array(x)
    at = _at(x, indices, dims)
    if accumulate:
        np.add.at(result, at, values)
    else:
        result[at] = values
    return result


def _put_cases(make: Make) -> None:
    rows = make.operand([2, 0, -1], "int64")
    for dtype in ("float32", "bfloat16", "int32", "int64", "bool"):
        make.case(dtype, make.normal((4, 5), dtype), [rows], make.normal((3, 5), dtype))
    x = make.normal((4, 5, 3))
    columns = make.operand([0, 4, 1], "int32")
    make.case("two", x, [rows, columns], make.normal((3, 3)))
    make.case("row", x, [rows], make.normal((3,)))
    make.case("number", x, [rows], 2.5)
    make.case("apart", x, [rows, make.operand([0, 1, 2], "int64")], make.normal((3, 5)), (0, 2))
    make.case("add", make.normal((4, 5), "int64"), [rows], make.normal((3, 5), "int64"), None, True)
    twice = make.operand([1, 1, 0], "int64")
    make.case("add-twice", make.normal((4, 5)), [twice], make.normal((3, 5)), None, True)
    make.case("add-bool", make.normal((4, 2), "bool"), [twice], True, None, True)
    make.case("last-stays", make.normal((4,)), [twice], make.normal((3,)))
    make.case(
        "converted", make.normal((4,), "int64"), [rows], make.operand([1.7, -1.7, 3.0], "float32")
    )
    make.case("none", x, [make.integers(0, 4, (0,))], 1.0)
    make.case("strided", make.normal((4, 6), "float32", "transposed"), [rows], make.normal((3, 6)))


operator(
    "index_put_",
    _put,
    _put_cases,
    float32=(1, 1),
    narrow=(1, 1),
    example=(
        "x = crt.zeros(2, 3)\n"
        "crt.index_put_(x, [crt.tensor([0, 1]), crt.tensor([2, 0])], crt.tensor([5.0, 6.0]))"
    ),
)
