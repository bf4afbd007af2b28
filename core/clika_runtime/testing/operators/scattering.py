"""Writing elements to places that indices name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array

_EXACT: dict[str, Any] = {"float32": (0, 0), "narrow": (0, 0)}
_SUMS: dict[str, Any] = {"float32": (2, 4), "narrow": (1, 1)}
_KINDS = ("float32", "bfloat16", "int32", "int64", "bool")

Join = Callable[[Any, Any], Any]
_JOIN: dict[str, Join] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "mean": lambda a, b: a + b,
    "amax": np.maximum,
    "amin": np.minimum,
}


def _reduced(
    x: Array, pairs: list[tuple[Any, Any]], reduce: str, include_self: bool = True
) -> Array:
    """The elements that go to one place reduced there, by the definition."""
    result = np.array(x, np.int64 if x.dtype == bool else x.dtype)
    counts: dict[Any, int] = {}
    for place, value in pairs:
        if place not in counts and not include_self:
            result[place] = value
        else:
            result[place] = _JOIN[reduce](result[place], value)
        counts[place] = counts.get(place, 0) + 1
    if reduce == "mean":
        for place, count in counts.items():
            total = result[place] / (count + include_self)
            result[place] = total if x.dtype.kind == "f" else np.floor(total)
    return result.astype(bool) if x.dtype == bool else result


def _pairs(x: Array, dim: int, index: Array, src: Any) -> list[tuple[Any, Any]]:
    """Each element of index with where it sends what, in row-major order."""
    if x.ndim == 0:
        values = np.broadcast_to(src, index.shape)
        return [((), values[at]) for at in np.ndindex(index.shape)]
    found = []
    for at in np.ndindex(index.shape):
        place = list(at)
        place[dim] = int(index[at])
        found.append((tuple(place), src if np.ndim(src) == 0 else src[at]))
    return found


def _slices(x: Array, dim: int, index: Array, source: Any) -> list[tuple[Any, Any]]:
    """The same for an index of slices."""
    index = np.reshape(index, -1)
    if x.ndim == 0:
        return [((), value) for value in np.resize(np.reshape(source, -1), index.size)]
    shape = list(x.shape)
    shape[dim] = index.size
    whole = np.broadcast_to(
        index.reshape([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)]), shape
    )
    return _pairs(x, dim, whole, source)


def _replaced(x: Array, pairs: list[tuple[Any, Any]]) -> Array:
    result = np.array(x)
    for place, value in pairs:
        result[place] = value
    return result


# ---------------------------------------------------------------- scatter
def _scatter(x: Array, dim: int, index: Array, src: Any, reduce: str) -> Array:
    pairs = _pairs(x, dim, index, src) if index.size else []
    if reduce == "none":
        return _replaced(x, pairs)
    return _reduced(x, pairs, "sum" if reduce == "add" else "prod")


def _scatter_cases(make: Make, *more: Any) -> None:
    for dtype in _KINDS:
        x, src = make.normal((4, 5), dtype), make.normal((3, 5), dtype)
        make.case(f"{dtype}-0", x, 0, make.integers(0, 4, (3, 5)), src, *more)
        make.case(f"{dtype}-1", x, -1, make.integers(0, 5, (3, 5)), src, *more)
    x = make.normal((4, 5))
    make.case("small", x, 1, make.integers(0, 5, (2, 3), "int32"), make.normal((3, 4)), *more)
    make.case(
        "strided",
        make.normal((4, 5), "float32", "transposed"),
        0,
        make.integers(0, 4, (6, 5), "int64", "stepped"),
        make.normal((6, 5), "float32", "transposed"),
        *more,
    )
    make.case(
        "cube",
        make.normal((2, 3, 4)),
        1,
        make.integers(0, 3, (2, 5, 4)),
        make.normal((2, 5, 4)),
        *more,
    )
    make.case("scalar", make.normal(()), 0, make.integers(0, 1, ()), make.normal(()), *more)
    make.case("none", x, 0, make.integers(0, 4, (0,)), make.normal((0,)), *more)


def _plain_cases(make: Make) -> None:
    _scatter_cases(make)
    x = make.normal((4, 5))
    make.case("number", x, 0, make.integers(0, 4, (2, 5)), 2.5)
    make.case("number-int", make.normal((4, 5), "int64"), 0, make.integers(0, 4, (2, 5)), 7)
    for reduce in ("add", "multiply"):
        make.case(reduce, x, 0, make.integers(0, 4, (6, 5)), make.normal((6, 5)), reduce)
        make.case(f"{reduce}-number", x, 1, make.integers(0, 5, (4, 2)), 3.0, reduce)


operator(
    "scatter",
    _scatter,
    _plain_cases,
    float32=(2, 4),
    narrow=(2, 1),
    example="crt.scatter(crt.zeros(3), 0, crt.tensor([2, 0]), crt.tensor([5.0, 6.0]))",
)
operator(
    "scatter_add",
    lambda x, dim, index, src: _reduced(x, _pairs(x, dim, index, src) if index.size else [], "sum"),
    _scatter_cases,
    **_SUMS,
    example="crt.scatter_add(crt.zeros(3), 0, crt.tensor([2, 2]), crt.tensor([5.0, 6.0]))",
)


def _reduce_cases(make: Make, slices: bool) -> None:
    kinds = ("float32", "bfloat16", "int32", "int64") if slices else _KINDS
    for reduce in _JOIN:
        for dtype in kinds:
            if reduce == "mean" and dtype == "bool":
                continue
            for include in (True, False):
                x, src = make.normal((4, 5), dtype), make.normal((7, 5), dtype)
                index = make.integers(0, 4, (7,) if slices else (7, 5))
                make.case(f"{reduce}-{dtype}-{include}", x, 0, index, src, reduce, include)
    nan = make.operand([1.0, np.nan, 3.0], "float32")
    make.case(
        "nan",
        nan,
        0,
        make.operand([0, 0, 2], "int64"),
        make.operand([2.0, 3.0, np.nan], "float32"),
        "amax",
    )
    make.case(
        "scalar",
        make.normal(()),
        0,
        make.integers(0, 1, () if not slices else (1,)),
        make.normal(()),
        "mean",
    )


operator(
    "scatter_reduce",
    lambda x, dim, index, src, reduce, include: _reduced(
        x, _pairs(x, dim, index, src), reduce, include
    ),
    lambda make: _reduce_cases(make, False),
    float32=(4, 4),
    narrow=(2, 1),
    example=(
        'crt.scatter_reduce(crt.zeros(2), 0, crt.tensor([1, 1]), crt.tensor([5.0, 6.0]), "amax")'
    ),
)


# ---------------------------------------------------------------- slices along a dim
def _slice_cases(make: Make, *more: Any, kinds: tuple[str, ...] = _KINDS) -> None:
    for dtype in kinds:
        x = make.normal((4, 5), dtype)
        make.case(f"{dtype}-0", x, 0, make.integers(0, 4, (6,)), make.normal((6, 5), dtype), *more)
        make.case(f"{dtype}-1", x, -1, make.integers(0, 5, (2,)), make.normal((4, 2), dtype), *more)
    x = make.normal((2, 3, 4))
    make.case("middle", x, 1, make.integers(0, 3, (5,), "int32"), make.normal((2, 5, 4)), *more)
    make.case(
        "transposed",
        make.normal((6, 5), "float32", "transposed"),
        0,
        make.integers(0, 6, (3,), "int64", "stepped"),
        make.normal((3, 5), "float32", "transposed"),
        *more,
    )
    make.case("scalar", make.normal(()), 0, make.integers(0, 1, (1,)), make.normal(()), *more)
    make.case("none", make.normal((4, 5)), 0, make.integers(0, 4, (0,)), make.normal((0, 5)), *more)


def _index_add_cases(make: Make) -> None:
    _slice_cases(make)
    x = make.normal((4, 5))
    make.case("alpha", x, 0, make.integers(0, 4, (3,)), make.normal((3, 5)), -2.5)
    make.case(
        "alpha-int",
        make.normal((4,), "int64"),
        0,
        make.integers(0, 4, (3,)),
        make.normal((3,), "int64"),
        3,
    )


def _index_add(x: Array, dim: int, index: Array, source: Array, alpha: Any) -> Array:
    source = source if source.dtype == bool else source * alpha
    return _reduced(x, _slices(x, dim, index, source), "sum")


operator(
    "index_add",
    _index_add,
    _index_add_cases,
    **_SUMS,
    example="crt.index_add(crt.zeros(3), 0, crt.tensor([2, 2]), crt.tensor([5.0, 6.0]))",
)
operator(
    "index_copy",
    lambda x, dim, index, source: _replaced(x, _slices(x, dim, index, source)),
    _slice_cases,
    **_EXACT,
    example="crt.index_copy(crt.zeros(3), 0, crt.tensor([2, 0]), crt.tensor([5.0, 6.0]))",
)


def _fill_cases(make: Make) -> None:
    for dtype in _KINDS:
        make.case(
            f"{dtype}",
            make.normal((4, 5), dtype),
            0,
            make.integers(0, 4, (2,)),
            make.normal((), dtype),
        )
    x = make.normal((4, 5))
    make.case("number", x, 1, make.integers(0, 5, (2,), "int32"), 2.5)
    make.case(
        "transposed", make.normal((6, 5), "float32", "transposed"), 1, make.integers(0, 5, (2,)), 1
    )
    make.case("scalar", make.normal(()), 0, make.integers(0, 1, (1,)), 3.0)


operator(
    "index_fill",
    lambda x, dim, index, value: _replaced(x, _slices(x, dim, index, value)),
    _fill_cases,
    **_EXACT,
    example="crt.index_fill(crt.zeros(3), 0, crt.tensor([2, 0]), 5.0)",
)
operator(
    "index_reduce",
    lambda x, dim, index, source, reduce, include: _reduced(
        x, _slices(x, dim, index, source), reduce, include
    ),
    lambda make: _reduce_cases(make, True),
    float32=(4, 4),
    narrow=(2, 1),
    example=(
        'crt.index_reduce(crt.zeros(2), 0, crt.tensor([1, 1]), crt.tensor([5.0, 6.0]), "amax")'
    ),
)


# ---------------------------------------------------------------- anywhere
def _put(x: Array, index: Array, source: Array, accumulate: bool) -> Array:
    flat = x.reshape(-1)
    places = [(int(i) % max(flat.size, 1),) for i in index.reshape(-1)]
    pairs = list(zip(places, source.reshape(-1), strict=True))
    return (_reduced(flat, pairs, "sum") if accumulate else _replaced(flat, pairs)).reshape(x.shape)


def _put_cases(make: Make) -> None:
    for dtype in _KINDS:
        for accumulate in (False, True):
            x, source = make.normal((3, 4), dtype), make.normal((2, 5), dtype)
            make.case(
                f"{dtype}-{accumulate}", x, make.integers(-12, 12, (2, 5)), source, accumulate
            )
    make.case(
        "int32-index", make.normal((6,)), make.integers(0, 6, (3,), "int32"), make.normal((3,))
    )
    make.case(
        "transposed",
        make.normal((6, 5), "float32", "transposed"),
        make.integers(0, 30, (4,)),
        make.normal((4,)),
    )
    make.case("scalar", make.normal(()), make.integers(0, 1, ()), make.normal((1,)))
    make.case("none", make.normal((0,)), make.integers(0, 1, (0,)), make.normal((0,)))


operator(
    "put",
    _put,
    _put_cases,
    **_SUMS,
    example="crt.put(crt.zeros(2, 2), crt.tensor([3, 0]), crt.tensor([5.0, 6.0]))",
)


def _masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    result = np.array(x)
    result[mask] = source.reshape(-1)[: int(mask.sum())]
    return result


def _mask_cases(make: Make) -> None:
    for dtype in _KINDS:
        make.case(
            dtype,
            make.normal((3, 5), dtype),
            make.normal((3, 5), "bool"),
            make.normal((15,), dtype),
        )
    make.case("rows", make.normal((3, 5)), make.normal((5,), "bool"), make.normal((3, 6)))
    make.case("spread", make.normal((5,)), make.normal((3, 5), "bool"), make.normal((15,)))
    make.case(
        "transposed",
        make.normal((6, 5), "float32", "transposed"),
        make.normal((6, 5), "bool", "stepped"),
        make.normal((5, 6), "float32", "transposed"),
    )


operator(
    "masked_scatter",
    _masked_scatter,
    _mask_cases,
    **_EXACT,
    example=(
        "crt.masked_scatter(crt.zeros(3), crt.tensor([True, False, True]), crt.tensor([5.0, 6.0]))"
    ),
)
