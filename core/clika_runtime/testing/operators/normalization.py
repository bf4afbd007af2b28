"""References and cases of normalizations over channels-last tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array

_FLOATS = ("float32", "bfloat16", "float16", "float64")


def _affine(y: Array, weight: Any, bias: Any) -> Array:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _batch(
    x: Array, mean: Any, var: Any, weight: Any, bias: Any, own: bool, _: float, eps: float
) -> Array:
    if own:
        over = tuple(range(x.ndim - 1))
        mean, var = x.mean(over), x.var(over)
    return _affine((x - mean) / np.sqrt(var + eps), weight, bias)


def _instance(
    x: Array, mean: Any, var: Any, weight: Any, bias: Any, own: bool, _: float, eps: float
) -> Array:
    if own:
        over = tuple(range(1, x.ndim - 1))
        mean, var = x.mean(over, keepdims=True), x.var(over, keepdims=True)
    return _affine((x - mean) / np.sqrt(var + eps), weight, bias)


def _group(x: Array, groups: int, weight: Any, bias: Any, eps: float) -> Array:
    pixels = int(np.prod(x.shape[1:-1]))
    y = x.reshape(x.shape[0], pixels, groups, x.shape[-1] // groups)
    y = (y - y.mean((1, 3), keepdims=True)) / np.sqrt(y.var((1, 3), keepdims=True) + eps)
    return _affine(y.reshape(x.shape), weight, bias)


def _batch_cases(make: Make) -> None:
    for dtype in _FLOATS:
        rows = [make.normal((5,), dtype), make.uniform(0.2, 2, (5,), dtype)]
        rows += [make.normal((5,), dtype), make.normal((5,), dtype)]
        make.case(dtype, make.normal((2, 3, 4, 5), dtype), *rows)
        make.case(f"{dtype}-training", make.normal((2, 3, 4, 5), dtype), *rows, True)
    mean, var = make.normal((130,)), make.uniform(0.2, 2, (130,))
    make.case("rows", make.normal((4, 130)), mean, var)
    make.case(
        "weight", make.normal((4, 2, 130)), mean, var, make.normal((130,)), None, False, 0.1, 0.5
    )
    make.case("own", make.normal((40, 130)), None, None, None, make.normal((130,)), True)
    mixed = make.normal((2, 3, 5), "bfloat16")
    make.case("mixed", mixed, make.normal((5,)), make.uniform(0.2, 2, (5,)))
    make.case("shifted", make.uniform(100, 101, (3, 50, 5)), None, None, None, None, True)
    make.case("empty", make.normal((0, 3, 5)), make.normal((5,)), make.uniform(0.2, 2, (5,)))


def _instance_cases(make: Make) -> None:
    for dtype in _FLOATS:
        rows = [make.normal((5,), dtype), make.uniform(0.2, 2, (5,), dtype)]
        rows += [make.normal((5,), dtype), make.normal((5,), dtype)]
        make.case(dtype, make.normal((2, 3, 4, 5), dtype), *rows)
        make.case(f"{dtype}-running", make.normal((2, 3, 4, 5), dtype), *rows, False)
    make.case("plain", make.normal((2, 40, 130)), None, None)
    make.case("eps", make.normal((2, 6, 5)), None, None, make.normal((5,)), None, True, 0.1, 0.5)
    make.case("empty", make.normal((0, 6, 5)), None, None)


def _group_cases(make: Make) -> None:
    for dtype in _FLOATS:
        x = make.normal((2, 3, 4, 6), dtype)
        make.case(dtype, x, 3, make.normal((6,), dtype), make.normal((6,), dtype))
    x = make.normal((2, 40, 132))
    make.case("one", x, 1)
    make.case("all", x, 132, make.normal((132,)))
    make.case("bias", x, 4, None, make.normal((132,)), 0.5)
    make.case("rows", make.normal((3, 8)), 2)
    make.case("views", make.normal((2, 5, 6), "float32", "transposed"), 3)
    make.case("empty", make.normal((0, 5, 6)), 3)


# Means are float64 sums of float32 runs; the factor and the product round in float32. The error
# grows with the distance of the values from their mean, so it is bounded by the largest result.
_BOUNDS: dict[str, Any] = {"float32": (4, 8), "narrow": (1, 0.1)}
_X = "x = crt.tensor([[[1.0, 2.0], [3.0, 6.0]]])\n"
operator(
    "batch_norm",
    _batch,
    _batch_cases,
    **_BOUNDS,
    example=f"{_X}crt.batch_norm(x, crt.tensor([1.0, 2.0]), crt.tensor([4.0, 1.0]))",
)
operator(
    "instance_norm",
    _instance,
    _instance_cases,
    **_BOUNDS,
    example=f"{_X}crt.instance_norm(x)",
)
operator("group_norm", _group, _group_cases, **_BOUNDS, example=f"{_X}crt.group_norm(x, 1)")


def _response(x: Array, size: int, alpha: float, beta: float, k: float) -> Array:
    squares = np.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(size // 2, (size - 1) // 2)])
    channels = x.shape[-1]
    total = sum(squares[..., i : i + channels] for i in range(size))
    mean = total / size if x.dtype.kind == "f" else total // size
    return x / (k + alpha * mean) ** beta


def _response_cases(make: Make) -> None:
    for dtype in (*_FLOATS, "int64", "int32"):
        make.case(dtype, make.normal((2, 3, 4, 7), dtype, scale=3), 3)
        make.case(f"{dtype}-even", make.normal((2, 3, 7), dtype), 4, 0.5, 0.75, 2.0)
    make.case("wide", make.normal((2, 3, 4)), 9, 0.5)
    make.case("one", make.normal((1, 2, 5)), 1, 0.1, 1.5, 0.5)
    make.case("empty", make.normal((0, 2, 5)), 3)


operator(
    "local_response_norm",
    _response,
    _response_cases,
    float32=(8, 0),
    narrow=(1, 0.01),
    example="crt.local_response_norm(crt.tensor([[[1.0, 2.0, 3.0]]]), 3, alpha=1.0)",
)


def _normalize(x: Array, p: float, dim: int, eps: float) -> Array:
    with np.errstate(all="ignore"):
        size = np.linalg.norm(x[..., None] if x.ndim == 0 else x, p, dim, keepdims=True)
    return x / np.maximum(size, eps) if x.ndim else (x / np.maximum(size, eps))[0]


def _normalize_cases(make: Make) -> None:
    for dtype in _FLOATS:
        make.case(dtype, make.normal((3, 5), dtype))
        make.case(f"{dtype}-first", make.normal((3, 5, 2), dtype), 2.0, 0)
    x = make.normal((3, 300, 2))
    for p in (1.0, 3.0, 0.5, 0.0, float("inf"), float("-inf")):
        make.case(f"p{p}", x, p, 1)
    make.case("last", x, 2.0, -1)
    make.case("zeros", make.operand(np.zeros((2, 3)), "float32"))
    make.case("eps", make.normal((3, 5)), 2.0, 1, 10.0)
    make.case("views", make.normal((4, 6), "float32", "transposed"), 2.0, 1)
    make.case("stepped", make.normal((4, 6), "float32", "stepped"), 2.0, 0)
    make.case("empty", make.normal((0, 3)), 2.0, 1)


operator(
    "normalize",
    _normalize,
    _normalize_cases,
    float32=(4, 0),
    narrow=(1, 0.01),
    example="crt.normalize(crt.tensor([[3.0, 4.0]]))",
)
