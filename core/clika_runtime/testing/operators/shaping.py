"""Views, joins, selection by index, sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array

_EXACT: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}


def _reshape_cases(make: Make) -> None:
    x = make.normal((2, 3, 4))
    for shape in ((24,), (6, 4), (2, -1), (-1, 2, 3), (2, 1, 3, 1, 4), (4, 6)):
        make.case("to-" + "x".join(map(str, shape)), x, shape)
    make.case("bf16", make.normal((2, 6), "bfloat16"), (3, 4))
    make.case("scalar", make.normal(()), (1, 1))
    make.case("to-scalar", make.normal((1, 1)), ())
    make.case("empty", make.normal((0, 4)), (2, 0))
    make.case("transposed-copy", make.normal((3, 4), "float32", "transposed"), (12,))
    make.case("stepped-view", make.normal((3, 4), "float32", "stepped"), (12,))
    make.case("stepped-split", make.normal((3, 4), "bfloat16", "stepped"), (3, 2, 2))
    make.case("expanded-copy", make.normal((3, 4), "int64", "expanded"), (12,))
    make.case("expanded-view", make.normal((3, 4), "float32", "expanded"), (3, 2, 2))
    make.case("transposed-ones", make.normal((3, 4), "float32", "transposed"), (1, 3, 1, 4))


def _permute_cases(make: Make) -> None:
    x = make.normal((2, 3, 4))
    for dims in ((0, 1, 2), (2, 0, 1), (-1, 0, -2), (0, 2, 1)):
        make.case("by-" + "x".join(map(str, dims)), x, dims)
    make.case("strided", make.normal((2, 3, 4), "bfloat16", "transposed"), (1, 0, 2))
    make.case("scalar", make.normal(()), ())
    make.case("empty", make.normal((0, 3)), (1, 0))


def _transpose_cases(make: Make) -> None:
    x = make.normal((2, 3, 4))
    for a, b in ((0, 1), (-1, -2), (1, 1), (0, -1)):
        make.case(f"{a}x{b}", x, a, b)
    make.case("strided", make.normal((3, 4), "int32", "stepped"), 0, 1)
    make.case("scalar", make.normal(()), 0, -1)


def _squeeze(x: Array, dim: Any) -> Array:
    if dim is None:
        return np.squeeze(x)
    wanted = (dim,) if isinstance(dim, int) else dim
    if x.ndim == 0:
        return x
    return np.squeeze(x, tuple(d for d in wanted if x.shape[d] == 1))


def _squeeze_cases(make: Make) -> None:
    x = make.normal((1, 3, 1, 4, 1))
    for name, dim in (("all", None), ("0", 0), ("m1", -1), ("kept", 1), ("two", (0, 2))):
        make.case(name, x, dim)
    make.case("strided", make.normal((1, 4), "float32", "transposed"), 0)
    make.case("scalar", make.normal(()), -1)
    make.case("empty", make.normal((0, 1)), None)


def _unsqueeze_cases(make: Make) -> None:
    x = make.normal((2, 3))
    for dim in (0, 1, 2, -1, -2, -3):
        make.case(str(dim).replace("-", "m"), x, dim)
    make.case("scalar", make.normal(()), -1)
    make.case("strided", make.normal((2, 3), "bfloat16", "transposed"), 1)


def _expand(x: Array, shape: tuple[int, ...]) -> Array:
    new = len(shape) - x.ndim
    sizes = [x.shape[i - new] if size == -1 else size for i, size in enumerate(shape)]
    return np.broadcast_to(x, sizes)


def _expand_cases(make: Make) -> None:
    make.case("row", make.normal((1, 4)), (3, 4))
    make.case("keep", make.normal((3, 1)), (-1, 5))
    make.case("front", make.normal((3, 1)), (2, 3, 5))
    make.case("scalar", make.normal(()), (2, 3))
    make.case("same", make.normal((2, 3)), (2, -1))
    make.case("to-empty", make.normal((1, 3)), (0, 3))
    make.case("strided", make.normal((4, 1), "bfloat16", "transposed"), (4, 6))


def _narrow(x: Array, dim: int, start: int, length: int) -> Array:
    start = start % x.shape[dim] if start < 0 else start
    return np.take(x, np.arange(start, start + length), dim)


def _narrow_cases(make: Make) -> None:
    x = make.normal((4, 5, 6))
    for dim, start, length in ((0, 1, 2), (-1, 2, 4), (1, 0, 5), (1, -2, 2), (2, 3, 0)):
        make.case(f"{dim}-{start}-{length}", x, dim, start, length)
    make.case("strided", make.normal((4, 5), "bfloat16", "transposed"), 0, 1, 2)


def _select_cases(make: Make) -> None:
    x = make.normal((4, 5, 6))
    for dim, index in ((0, 1), (-1, 5), (1, -1), (1, 0)):
        make.case(f"{dim}-{index}", x, dim, index)
    make.case("to-scalar", make.normal((3,), "int64"), 0, 2)
    make.case("strided", make.normal((4, 5), "bfloat16", "transposed"), 0, 1)


def _flatten(x: Array, first: int, last: int) -> Array:
    if x.ndim == 0:
        return x.reshape(1)
    first, last = first % x.ndim, last % x.ndim
    joined = int(np.prod(x.shape[first : last + 1]))
    return x.reshape(*x.shape[:first], joined, *x.shape[last + 1 :])


def _flatten_cases(make: Make) -> None:
    x = make.normal((2, 3, 4, 5))
    for first, last in ((0, -1), (1, 2), (-2, -1), (1, 1)):
        make.case(f"{first}-{last}", x, first, last)
    make.case("scalar", make.normal(()))
    make.case("empty", make.normal((2, 0, 3)), 1)
    make.case("copy", make.normal((3, 4), "float32", "transposed"))


operator("reshape", lambda x, shape: x.reshape(shape), _reshape_cases, **_EXACT)
operator("permute", np.transpose, _permute_cases, **_EXACT)
operator(
    "transpose",
    lambda x, a, b: x if x.ndim == 0 else np.swapaxes(x, a, b),
    _transpose_cases,
    **_EXACT,
)
operator("squeeze", _squeeze, _squeeze_cases, **_EXACT)
operator("unsqueeze", np.expand_dims, _unsqueeze_cases, **_EXACT)
operator("expand", _expand, _expand_cases, **_EXACT)
operator("narrow", _narrow, _narrow_cases, **_EXACT)
operator("select", lambda x, dim, i: np.take(x, i, dim), _select_cases, **_EXACT)
operator("flatten", _flatten, _flatten_cases, **_EXACT)


# ---------------------------------------------------------------- joining
def _cat_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64", "bool"):
        parts = [make.normal((2, n, 3), dtype) for n in (1, 4, 2)]
        make.case(f"{dtype}-1", parts, 1)
    make.case("0", [make.normal((n, 3)) for n in (2, 0, 1)])
    make.case("m1", [make.normal((3, 4)), make.normal((3, 2), "float32", "transposed")], -1)
    make.case("mixed", [make.normal((2, 2), "int32"), make.normal((1, 2))], 0)
    make.case("one", [make.normal((2, 3), "float32", "stepped")], -1)
    make.case("many", [make.normal((1, 3)) for _ in range(20)], 0)


def _stack_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int64"):
        make.case(dtype, [make.normal((2, 3), dtype) for _ in range(3)], 1)
    make.case("0", [make.normal((4,)), make.normal((4,), "float32", "stepped")])
    make.case("m1", [make.normal((2, 3), "float32", "transposed"), make.normal((2, 3))], -1)
    make.case("scalars", [make.normal(()) for _ in range(4)])


operator("cat", np.concatenate, _cat_cases, **_EXACT)
operator("stack", np.stack, _stack_cases, **_EXACT)


# ---------------------------------------------------------------- selection and order
def _index_select_cases(make: Make) -> None:
    index = make.integers(0, 4, (7,))
    for dtype in ("float32", "bfloat16", "int32", "int64", "bool"):
        make.case(f"{dtype}-0", make.normal((4, 5), dtype), 0, index)
    make.case("m1", make.normal((3, 4)), -1, make.integers(0, 4, (2,), "int32"))
    make.case("middle", make.normal((3, 4, 5)), 1, index)
    make.case("none", make.normal((3, 4)), 1, make.integers(0, 4, (0,)))
    make.case("strided", make.normal((4, 6), "float32", "transposed"), 0, index)
    make.case("index-steps", make.normal((4, 6)), 0, make.integers(0, 4, (5,), "int64", "stepped"))


def _gather_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int64", "bool"):
        make.case(f"{dtype}-1", make.normal((3, 5), dtype), 1, make.integers(0, 5, (3, 2)))
    make.case("0", make.normal((3, 5)), 0, make.integers(0, 3, (6, 4), "int32"))
    make.case("m1", make.normal((2, 3, 4)), -1, make.integers(0, 4, (2, 2, 9)))
    make.case(
        "strided", make.normal((3, 5), "float32", "transposed"), 1, make.integers(0, 5, (3, 5))
    )
    make.case("empty", make.normal((3, 5)), 1, make.integers(0, 5, (3, 0)))
    make.case("empty-flat", make.normal((3, 5)), 1, make.integers(0, 5, (0,), "uint8"))


def _gather(x: Array, dim: int, index: Array) -> Array:
    if index.size == 0:
        return np.zeros(index.shape)
    dim %= x.ndim
    kept = tuple(slice(n) if d != dim else slice(None) for d, n in enumerate(index.shape))
    return np.take_along_axis(x[kept], index, dim)


def _sort(x: Array, dim: int, descending: bool, _: bool = False) -> tuple[Array, Array]:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    if descending:  # stable and NaN first: sort the reversed tensor upwards and turn both round
        flipped = np.flip(x, dim)
        order = x.shape[dim] - 1 - np.flip(np.argsort(flipped, dim, kind="stable"), dim)
    else:
        order = np.argsort(x, dim, kind="stable")
    return np.take_along_axis(x, order, dim), order


def _sort_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int32", "int64"):
        for descending in (False, True):
            make.case(f"{dtype}-{descending}", make.normal((3, 21), dtype), -1, descending)
    make.case("dim0", make.normal((9, 4)), 0)
    make.case("nan", make.operand([1.0, np.nan, -np.inf, np.inf, np.nan, 0.0], "float32"))
    make.case("nan-down", make.operand([1.0, np.nan, -np.inf, np.inf, 0.0], "float32"), -1, True)
    make.case("ties", make.operand([2, 1, 2, 1, 2], "int64"), 0, True)
    make.case("strided", make.normal((5, 6), "float32", "transposed"), 1)
    make.case("scalar", make.normal(()))
    make.case("empty", make.normal((2, 0)))


def _topk(x: Array, k: int, dim: int, largest: bool, _: bool) -> tuple[Array, Array]:
    values, order = _sort(x, dim, largest)
    if x.ndim == 0:
        return values, order
    kept = np.arange(k)
    return np.take(values, kept, dim), np.take(order, kept, dim)


def _topk_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int64"):
        make.case(f"{dtype}-3", make.normal((4, 33), dtype), 3)
        make.case(f"{dtype}-smallest", make.normal((4, 33), dtype), 5, -1, False)
    make.case("all", make.normal((7,)), 7)
    make.case("none", make.normal((7,)), 0)
    make.case("dim0", make.normal((9, 4)), 2, 0)
    make.case("ties", make.operand([1.0, 3.0, 3.0, 3.0, 2.0], "float32"), 2)
    make.case("nan", make.operand([1.0, np.nan, np.inf], "float32"), 2)
    make.case("strided", make.normal((5, 16), "float32", "stepped"), 4)
    make.case("scalar", make.normal(()), 1)


operator(
    "index_select", lambda x, dim, index: np.take(x, index, dim), _index_select_cases, **_EXACT
)
operator("gather", _gather, _gather_cases, **_EXACT)
operator("sort", _sort, _sort_cases, **_EXACT)
operator("topk", _topk, _topk_cases, **_EXACT)
