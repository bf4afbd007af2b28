"""Arithmetic of three operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array


def _three(*dtypes: str) -> Any:
    def build(make: Make) -> None:
        for dtype in dtypes:
            make.case(
                dtype,
                make.normal((3, 41), dtype),
                make.normal((41,), dtype),
                make.normal((3, 1), dtype),
            )
        strided = make.normal((6, 5), dtypes[0], "transposed")
        make.case(
            "strided",
            strided,
            make.normal((6, 5), dtypes[0], "stepped"),
            make.normal((5,), dtypes[0]),
        )
        make.case("scalar", *(make.normal((), dtypes[0]) for _ in range(3)))
        make.case("empty", *(make.normal((0, 3), dtypes[0]) for _ in range(3)))

    return build


_FLOATS = ("float32", "bfloat16", "float16", "float64")


def _lerp(start: Array, end: Array, weight: Any) -> Array:
    return start + np.asarray(weight) * (end - start)


def _lerp_cases(make: Make) -> None:
    _three(*_FLOATS)(make)
    for weight in (0.0, 0.25, 0.75, 1.0):
        make.case(f"number-{weight}", make.normal((3, 7)), make.normal((7,)), weight)
    make.case(
        "bfloat16-number", make.normal((3, 7), "bfloat16"), make.normal((7,), "bfloat16"), 0.4
    )


operator(
    "lerp",
    _lerp,
    _lerp_cases,
    float32=(2, 4),
    narrow=(1, 1),
    magnitude=lambda start, end, weight: np.broadcast_to(
        np.max(np.abs(start), initial=0)
        + np.max(np.abs(end), initial=0) * (1 + np.max(np.abs(weight), initial=0)),
        _lerp(start, end, weight).shape,
    ),
    example="crt.lerp(crt.tensor([0.0, 10.0]), crt.tensor([1.0, 20.0]), 0.5)",
)


def _addcmul(x: Array, a: Array, b: Array, value: Any) -> Array:
    return x + value * a * b


def _with_value(*dtypes: str) -> Any:
    def build(make: Make) -> None:
        _three(*dtypes)(make)
        for value in (2, -0.5):
            args = [make.uniform(1, 2, (2, 9)) for _ in range(3)]
            make.case(f"value-{value}", *args, value)
        if "int64" in dtypes:
            make.case("int-value", *(make.normal((7,), "int64") for _ in range(3)), 3)

    return build


operator(
    "addcmul",
    _addcmul,
    _with_value(*_FLOATS, "int32", "int64"),
    float32=(2, 2),
    narrow=(1, 1),
    magnitude=lambda x, a, b, value: np.abs(x) + np.abs(value * a * b),
    example="crt.addcmul(crt.tensor([1.0]), crt.tensor([3.0]), crt.tensor([5.0]), value=0.5)",
)
operator(
    "addcdiv",
    lambda x, a, b, value: x + value * a / b,
    _with_value(*_FLOATS),
    float32=(2, 2),
    narrow=(1, 1),
    magnitude=lambda x, a, b, value: np.abs(x) + np.abs(value * a / b),
    example="crt.addcdiv(crt.tensor([1.0]), crt.tensor([3.0]), crt.tensor([2.0]))",
)


def _masked_fill_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "int64", "int32", "bool", "float64"):
        make.case(dtype, make.normal((3, 5), dtype), make.normal((5,), "bool"), 1)
    make.case("fraction", make.normal((3, 5)), make.normal((3, 1), "bool"), -0.5)
    make.case(
        "tensor", make.normal((3, 5)), make.normal((3, 5), "bool"), make.operand(2.5, "float32")
    )
    make.case("grows", make.normal((5,)), make.normal((3, 5), "bool"), 0.0)
    make.case(
        "strided",
        make.normal((5, 4), "float32", "transposed"),
        make.normal((5, 4), "bool"),
        -np.inf,
    )
    make.case("empty", make.normal((0, 4)), make.normal((4,), "bool"), 1.0)


operator(
    "masked_fill",
    lambda x, mask, value: np.where(mask, np.asarray(value).astype(x.dtype), x),
    _masked_fill_cases,
    float32=(0, 0),
    narrow=(0, 0),
    example="crt.masked_fill(crt.tensor([1.0, 2.0]), crt.tensor([True, False]), 0.0)",
)
