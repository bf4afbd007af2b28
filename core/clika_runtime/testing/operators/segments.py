"""Reductions over segments of a dim."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array

_REDUCE: dict[str, Any] = {"max": np.max, "min": np.min, "prod": np.prod}
_START = {"sum": 0.0, "mean": 0.0, "max": -np.inf, "min": np.inf, "prod": 1.0}


def _segments(x: Array, reduce: str, lengths: Any, offsets: Any, axis: int, initial: Any) -> Array:
    axis %= x.ndim
    cuts = lengths if offsets is None else offsets
    count = cuts.shape[axis] - (offsets is not None)
    result = np.zeros((*x.shape[:axis], count, *x.shape[axis + 1 :]))
    for row in np.ndindex(x.shape[:axis]):
        edges = np.concatenate([[0], np.cumsum(lengths[row])]) if offsets is None else offsets[row]
        for i in range(count):
            part = x[row][edges[i] : edges[i + 1]]
            start = np.full(part.shape[1:], _START[reduce] if initial is None else initial)
            whole = np.concatenate([start[None], part])
            if reduce in ("sum", "mean"):
                value = whole.sum(0)
                if reduce == "mean" and len(part):
                    value = value / len(part)
                elif reduce == "mean" and initial is None:
                    value = value * np.nan
            else:
                value = _REDUCE[reduce](whole, axis=0)
            result[row][i] = value
    return result


def _cases(make: Make) -> None:
    lengths = make.operand([3, 0, 2, 4], "int64")
    offsets = make.operand([0, 3, 3, 5, 9], "int64")
    for reduce in ("sum", "mean", "max", "min", "prod"):
        for dtype in ("float32", "bfloat16"):
            x = make.normal((9, 4), dtype)
            make.case(f"{reduce}-{dtype}-lengths", x, reduce, lengths, None)
            make.case(f"{reduce}-{dtype}-offsets", x, reduce, None, offsets, 0, 2.0)
    make.case(
        "inner", make.normal((2, 6, 3)), "sum", make.operand([[2, 4], [6, 0]], "int32"), None, 1
    )
    make.case("left-over", make.normal((6,)), "sum", make.operand([2, 1], "int64"), None)
    make.case(
        "nan",
        make.operand([1.0, np.nan, 2.0], "float32"),
        "max",
        make.operand([2, 1], "int64"),
        None,
    )
    make.case("float64", make.normal((9,), "float64"), "mean", lengths, None)
    make.case("transposed", make.normal((9, 4), "float32", "transposed"), "sum", lengths, None)


operator(
    "segment_reduce",
    _segments,
    _cases,
    float32=(4, 8),
    narrow=(1, 1),
    example=('crt.segment_reduce(crt.tensor([1.0, 2.0, 3.0]), "sum", lengths=crt.tensor([2, 1]))'),
)
