"""Activations, plain and gated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._kit import Make, Operand, operator
from .._numpy import Array
from .elementwise import few, gelu

#: Numbers of which an activation is given as cases, beside its defaults.
Numbers = tuple[Any, ...]


def _with(
    *numbers: Numbers, low: float = -9, high: float = 9, ints: bool = False
) -> Callable[[Make], None]:
    """`few` with the defaults, and a case for each choice of numbers."""

    def build(make: Make) -> None:
        if numbers and numbers[0] == ("required",):
            few(low, high, *numbers[1], ints=ints)(make)
        else:
            few(low, high, ints=ints)(make)
        for i, given in enumerate(numbers[1:] if numbers[:1] == (("required",),) else numbers):
            make.case(f"numbers-{i}", make.uniform(low, high, (2, 17)), *given)
            make.case(f"bfloat16-numbers-{i}", make.uniform(low, high, (9,), "bfloat16"), *given)

    return build


def _softplus(x: Array, beta: float, threshold: float) -> Array:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, 99))) / beta)


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x))


def _celu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


def _selu(x: Array) -> Array:
    return 1.0507009873554805 * _elu(x, 1.6732632423543772)


def _hardtanh(x: Array, low: float, high: float) -> Array:
    return np.clip(x, low, high)


def _softshrink(x: Array, lambd: float) -> Array:
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _mish(x: Array) -> Array:
    return x * np.tanh(_softplus(x, 1.0, 30.0))


def _logsigmoid(x: Array) -> Array:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def _example(name: str, *numbers: str) -> str:
    return f"crt.{name}({', '.join(['crt.tensor([-1.0, 2.0])', *numbers])})"


exact: dict[str, Any] = {"float32": (1, 0), "narrow": (1, 0)}
# The fused kernel rounds once; a composed form rounds a few times, and may cancel near 0.
loose: dict[str, Any] = {"float32": (8, 1), "narrow": (2, 1)}

operator(
    "softplus", _softplus, _with((2.0, 3.0), (0.5, 20.0)), **loose, example=_example("softplus")
)
operator("elu", _elu, _with((0.5,)), **loose, example=_example("elu", "alpha=0.5"))
operator("celu", _celu, _with((0.5,), (-2.0,)), **loose, example=_example("celu", "alpha=0.5"))
operator("selu", _selu, _with(), **loose, example=_example("selu"))
operator(
    "hardtanh",
    _hardtanh,
    _with((-2.0, 0.5), ints=True),
    **exact,
    example=_example("hardtanh", "-0.5", "0.5"),
)
operator("relu6", lambda x: np.clip(x, 0, 6), _with(ints=True), **exact, example=_example("relu6"))
operator(
    "hardsigmoid",
    lambda x: np.clip(x + 3, 0, 6) / 6,
    _with(),
    **loose,
    example=_example("hardsigmoid"),
)
operator(
    "hardswish",
    lambda x: x * np.clip(x + 3, 0, 6) / 6,
    _with(),
    **loose,
    example=_example("hardswish"),
)
operator(
    "hardshrink",
    lambda x, lambd: np.where(np.abs(x) <= lambd, 0, x),
    _with((2.0,)),
    **exact,
    example=_example("hardshrink", "lambd=1.5"),
)
operator(
    "softshrink",
    _softshrink,
    _with((2.0,)),
    **loose,
    example=_example("softshrink", "lambd=1.5"),
)
operator(
    "tanhshrink",
    lambda x: x - np.tanh(x),
    _with(ints=True),
    **loose,
    example=_example("tanhshrink"),
)
operator(
    "softsign",
    lambda x: x / (1 + np.abs(x)),
    _with(ints=True),
    **loose,
    example=_example("softsign"),
)
operator("mish", _mish, _with(), **loose, example=_example("mish"))
operator("logsigmoid", _logsigmoid, _with(), **loose, example=_example("logsigmoid"))
operator(
    "leaky_relu",
    lambda x, slope: np.where(x > 0, x, x * slope),
    _with((0.2,)),
    **loose,
    example=_example("leaky_relu", "0.1"),
)
operator(
    "threshold",
    lambda x, threshold, value: np.where(x <= threshold, value, x),
    _with(("required",), (1.0, -20.0), ints=True),
    **exact,
    example=_example("threshold", "0.5", "10.0"),
)


def _prelu(x: Array, weight: Array) -> Array:
    if x.ndim > 1 and weight.ndim:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    return np.where(x > 0, x, x * weight).reshape(x.shape)


def _prelu_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        make.case(f"{dtype}-channels", make.normal((2, 5, 7), dtype), make.normal((5,), dtype))
        make.case(f"{dtype}-one", make.normal((2, 5, 7), dtype), make.normal((1,), dtype))
    make.case("row", make.normal((9,)), make.normal((1,)))
    make.case("scalar", make.normal(()), make.normal(()))
    make.case(
        "strided",
        make.normal((6, 4), "float32", "transposed"),
        make.normal((4,), "float32", "stepped"),
    )
    make.case("empty", make.normal((0, 4)), make.normal((4,)))


operator(
    "prelu",
    _prelu,
    _prelu_cases,
    **exact,
    example="crt.prelu(crt.tensor([[-1.0, -1.0]]), crt.tensor([0.1, 0.2]))",
)


def _glu_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float16", "float64"):
        make.case(dtype, make.normal((3, 34), dtype))
    make.case("first", make.normal((4, 5, 3)), 0)
    make.case("middle", make.normal((4, 6, 3), "float32", "transposed"), 1)
    make.case("empty", make.normal((0, 4)))


def _glu(x: Array, dim: int) -> Array:
    a, b = np.split(x, 2, dim)
    return a * _sigmoid(b)


operator("glu", _glu, _glu_cases, **loose, example="crt.glu(crt.tensor([1.0, 2.0, 3.0, 4.0]))")


# ---------------------------------------------------------------- gated
def _gated_cases(*choices: Numbers) -> Callable[[Make], None]:
    def build(make: Make) -> None:
        for number, given in enumerate(choices):

            def case(name: str, gate: Operand, up: Operand | None = None) -> None:
                make.case(f"{name}-{number}", gate, up, *given)  # noqa: B023

            for dtype in ("float32", "bfloat16", "float16"):
                case(dtype, make.normal((3, 67), dtype, scale=3), make.normal((3, 67), dtype))
            case("float64", make.normal((19,), "float64"), make.normal((19,), "float64"))
            strided = make.normal((4, 9), "float32", "transposed")
            case("strided", strided, make.normal((4, 9), "float32", "stepped"))
            case("large", make.operand([-80.0, -20.0, 20.0, 80.0], "float32"), make.normal((4,)))
            case("empty", make.normal((0, 8)), make.normal((0, 8)))
            case("halves", make.normal((3, 38), scale=3))
            case("halves-strided", make.normal((5, 6), "bfloat16", "transposed"))
            case("halves-empty", make.normal((3, 0)))

    return build


def gated(function: Callable[..., Array]) -> Callable[..., Array]:
    def over(gate: Array, up: Array | None, *given: Any) -> Array:
        if up is None:
            gate, up = np.split(gate, 2, -1)
        return function(gate, up, *given)

    return over


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _situ(gate: Array, up: Array, beta: float, linear_beta: float) -> Array:
    capped = beta * np.tanh(gate / beta) * _sigmoid(gate)
    return capped * linear_beta * np.tanh(up / linear_beta)


_GATED = "crt.{}(crt.tensor([1.0, 2.0]), crt.tensor([3.0, 4.0]){})"
operator(
    "swiglu",
    gated(lambda gate, up: _silu(gate) * up),
    _gated_cases(()),
    float32=(16, 0),
    narrow=(4, 0),
    example="crt.swiglu(crt.tensor([1.0, 2.0, 3.0, 4.0]))",
)
operator(
    "geglu",
    gated(lambda gate, up, approximate: gelu(gate, approximate) * up),
    _gated_cases(("none",), ("tanh",)),
    float32=(16, 4),
    narrow=(4, 1),
    example=_GATED.format("geglu", ', approximate="tanh"'),
)
operator(
    "reglu",
    gated(lambda gate, up: np.maximum(gate, 0) * up),
    _gated_cases(()),
    float32=(1, 0),
    example=_GATED.format("reglu", ""),
)
operator(
    "situ",
    gated(_situ),
    _gated_cases((), (2.0, 3.0)),
    float32=(16, 0),
    narrow=(6, 0),
    example=_GATED.format("situ", ""),
)
