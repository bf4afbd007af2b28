"""Tensors made from sizes and numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import dtypes
from ._factory import place, sized
from ._shapes import fail
from .record import FACTORY, Meta, op, static

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native._core import Tensor
    from ..device import Device
    from ..dtypes import dtype


def _eye(n: Any, m: Any, dtype: Any, device: Any) -> Meta:
    return sized("eye", (n, n if m is None else m), dtype, device)


op(
    "eye",
    doc="A matrix with n rows and m (default n) columns: 1 on the main diagonal, else 0.",
    args=[static("n", "int"), static("m", "int", None), *place()],
    infer=_eye,
    traits={FACTORY},
    method=False,
)


def _number(value: Any) -> Any:
    """A Python number, also from a tensor of one element."""
    return value.item() if hasattr(value, "item") and hasattr(value, "shape") else value


def _spaced(name: str, start: Any, end: Any, steps: Any, dtype: Any, device: Any) -> Meta:
    for what, value in (("start", start), ("end", end)):
        if not math.isfinite(value) and dtype is not None and dtype.kind != "f":
            fail(name, f"{what} {value} is no {dtype.name}")
    if type(steps) is int and steps < 0:
        fail(name, f"steps {steps} must not be negative")
    return sized(name, (steps,), dtype, device)


def _linspace_front(call: Callable[..., Any]) -> Callable[..., Any]:
    def linspace(
        start: float | Tensor,
        end: float | Tensor,
        steps: int,
        *,
        dtype: dtype | None = None,
        device: Device | str | None = None,
    ) -> Tensor:
        return call(_number(start), _number(end), steps, dtype=dtype, device=device)

    return linspace


def _logspace_front(call: Callable[..., Any]) -> Callable[..., Any]:
    def logspace(
        start: float | Tensor,
        end: float | Tensor,
        steps: int,
        base: float = 10.0,
        *,
        dtype: dtype | None = None,
        device: Device | str | None = None,
    ) -> Tensor:
        return call(_number(start), _number(end), steps, base, dtype=dtype, device=device)

    return logspace


op(
    "linspace",
    doc="""
    Evenly spaced numbers, `steps` of them, from start to end, both included.

    An integer dtype takes start and end towards zero first, and every number too. The second half
    is counted from the end, so that the last number is end itself.
    """,
    args=[static("start", "number"), static("end", "number"), static("steps", "int"), *place()],
    infer=lambda *args: _spaced("linspace", *args),
    front=_linspace_front,
    traits={FACTORY},
    method=False,
)
op(
    "logspace",
    doc="""
    Powers of base whose exponents are evenly spaced from start to end: base ** linspace(..).

    An integer dtype takes start and end towards zero first, and every number too.
    """,
    args=[
        static("start", "number"),
        static("end", "number"),
        static("steps", "int"),
        static("base", "number", 10.0),
        *place(),
    ],
    infer=lambda start, end, steps, base, dtype, device: _spaced(
        "logspace", start, end, steps, dtype, device
    ),
    front=_logspace_front,
    traits={FACTORY},
    method=False,
)


def count_in_triangle(rows: int, columns: int, offset: int) -> int:
    """How many places [i, j] with j <= i + offset a matrix has."""
    whole = max(0, min(rows, rows - max(0, columns - 1 - offset)))  # rows that are all in
    first = max(0, min(rows, -offset))  # rows before it are all out
    part = max(0, rows - whole - first)  # rows with first + offset + 1, + 2, ... places
    start = first + offset + 1
    return columns * whole + part * start + part * (part - 1) // 2


def _triangle_indices(name: str, doc: str, below: bool) -> None:
    def infer(row: int, col: int, offset: int, dtype: Any, device: Any) -> Meta:
        if row < 0 or col < 0:
            fail(name, f"row {row} and col {col} must not be negative")
        if dtype not in (None, dtypes.int32, dtypes.int64):
            fail(name, f"dtype must be int32 or int64, got {dtype.name}")
        count = count_in_triangle(row, col, offset if below else offset - 1)
        if not below:
            count = row * col - count
        return Meta((2, count), dtype or dtypes.int64, device)

    op(
        name,
        doc=doc,
        args=[static("row", "int"), static("col", "int"), static("offset", "int", 0), *place()],
        infer=infer,
        traits={FACTORY},
        method=False,
    )


_triangle_indices(
    "tril_indices",
    """
    The places of the lower triangle of a matrix: [i, j] with j <= i + offset, as two rows.

    They are in row-major order; int64 unless `dtype` says int32.
    """,
    below=True,
)
_triangle_indices(
    "triu_indices",
    """
    The places of the upper triangle of a matrix: [i, j] with j >= i + offset, as two rows.

    They are in row-major order; int64 unless `dtype` says int32.
    """,
    below=False,
)
