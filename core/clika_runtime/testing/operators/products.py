"""Matrix products, and weights that are dense or packed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from .._kit import Make, Operand, operator
from .._numpy import (
    SCHEMES,
    Array,
    block_size,
    decode_blocks,
    random_blocks,
    scheme_number,
)


def packed(make: Make, name: str, rows: int, blocks: int) -> Operand:
    """A packed weight with random blocks; its values are the numbers that it stands for."""
    data = random_blocks(make.rng, name, rows, blocks * block_size(name)[0])
    values = decode_blocks(data, name)
    return Operand(values, "float32", "plain", scheme_number(name), data.tobytes())


def _matmul_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16"):
        make.case(f"{dtype}-square", make.normal((7, 7), dtype), make.normal((7, 7), dtype))
        make.case(f"{dtype}-wide", make.normal((3, 65), dtype), make.normal((65, 34), dtype))
        make.case(f"{dtype}-batch", make.normal((2, 3, 5), dtype), make.normal((2, 5, 4), dtype))
    make.case("spread", make.normal((2, 1, 3, 5)), make.normal((4, 5, 2)))
    make.case("shared", make.normal((2, 3, 5)), make.normal((5, 4)))
    make.case("row", make.normal((5,)), make.normal((5, 4)))
    make.case("column", make.normal((3, 5)), make.normal((5,)))
    make.case("dot", make.normal((33,)), make.normal((33,)))
    make.case("row-batch", make.normal((5,)), make.normal((2, 5, 4)))
    make.case("one", make.normal((1, 1)), make.normal((1, 1)))
    make.case("tall", make.normal((130, 20)), make.normal((20, 70)))
    right = make.normal((6, 5), "float32", "transposed")
    make.case("transposed", make.normal((4, 6), "float32", "transposed"), right)
    make.case("stepped", make.normal((4, 6), "float32", "stepped"), make.normal((6, 5)))
    make.case("int64", make.normal((3, 4), "int64"), make.normal((4, 2), "int64"))
    make.case("no-rows", make.normal((0, 4)), make.normal((4, 2)))
    make.case("no-terms", make.normal((3, 0)), make.normal((0, 2)))


operator(
    "matmul",
    np.matmul,
    _matmul_cases,
    float32=(2, 16),
    narrow=(1, 1),
    magnitude=lambda a, b: np.matmul(np.abs(a), np.abs(b)),
)


def _linear(x: Array, weight: Array, bias: Any, mode: str) -> Array:
    result = x @ weight.T
    return result if bias is None else result + bias


def _linear_size(x: Array, weight: Array, bias: Any, mode: str) -> Array:
    return _linear(np.abs(x), np.abs(weight), None if bias is None else np.abs(bias), mode)


def _linear_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        weight = make.normal((34, 65), dtype)
        for rows in (1, 2, 7):
            make.case(f"{dtype}-{rows}", make.normal((rows, 65), dtype), weight)
        make.case(f"{dtype}-bias", make.normal((3, 65), dtype), weight, make.normal((34,), dtype))
    make.case("f32-bf16", make.normal((3, 64)), make.normal((33, 64), "bfloat16"))
    make.case("f32-f16", make.normal((3, 64)), make.normal((33, 64), "float16"), make.normal((33,)))
    make.case("vector", make.normal((64,)), make.normal((5, 64)))
    make.case("batch", make.normal((2, 3, 64)), make.normal((5, 64)))
    make.case("no-rows", make.normal((0, 64)), make.normal((5, 64)))
    make.case("strided", make.normal((6, 32), "float32", "transposed"), make.normal((5, 32)))
    for name in SCHEMES:
        weight = packed(make, name, 50, 3 if block_size(name)[0] == 32 else 1)
        columns = weight.shape[1]
        for rows in (1, 5, 33):
            make.case(f"{name}-{rows}", make.normal((rows, columns)), weight)
        make.case(f"{name}-bias", make.normal((2, columns)), weight, make.normal((50,)))
        make.case(f"{name}-bf16", make.normal((2, columns), "bfloat16"), weight)
        # An activation is off by at most 1/254 of the largest of its block.
        for rows in (1, 5, 19):
            x = make.uniform(-1, 1, (rows, columns))
            make.case(f"{name}-fast-{rows}", x, weight, None, "fast", bound=(0, 2.0**16))


operator("linear", _linear, _linear_cases, float32=(2, 16), narrow=(1, 1), magnitude=_linear_size)


def _linears(x: Array, weights: Any, biases: Any, mode: str) -> tuple[Array, ...]:
    given = biases or [None] * len(weights)
    return tuple(_linear(x, *pair, mode) for pair in zip(weights, given, strict=True))


def _linears_size(x: Array, weights: Any, biases: Any, mode: str) -> tuple[Array, ...]:
    sizes = None if biases is None else [np.abs(bias) for bias in biases]
    return _linears(np.abs(x), [np.abs(weight) for weight in weights], sizes, mode)


def _linears_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16"):
        weights = [make.normal((rows, 65), dtype) for rows in (34, 3, 16)]
        biases = [make.normal(weight.shape[:1], dtype) for weight in weights]
        make.case(dtype, make.normal((5, 65), dtype), weights)
        make.case(f"{dtype}-biases", make.normal((3, 65), dtype), weights, biases)
    mixed = [packed(make, name, rows, 1) for name, rows in (("Q4_K", 50), ("Q6_K", 17))]
    same = [packed(make, "Q4_1", rows, 3) for rows in (50, 7, 16)]
    for name, weights in (("mixed", mixed), ("same", same), ("one", same[:1])):
        columns = weights[0].shape[1]
        biases = [make.normal(weight.shape[:1]) for weight in weights]
        for rows in (1, 3, 8, 33):
            make.case(f"{name}-{rows}", make.normal((rows, columns)), weights)
            x = make.uniform(-1, 1, (rows, columns))
            make.case(f"{name}-fast-{rows}", x, weights, None, "fast", bound=(0, 2.0**16))
            make.case(f"{name}-biases-{rows}", x, weights, biases, "fast", bound=(0, 2.0**16))
    make.case("no-rows", make.normal((0, 96)), same)


operator(
    "linears",
    _linears,
    _linears_cases,
    float32=(2, 16),
    narrow=(1, 1),
    magnitude=_linears_size,
    example="crt.linears(crt.ones(1, 2), [crt.ones(1, 2), crt.tensor([[3.0, 4.0]])])",
)


def _gated_linear(
    x: Array, gate: Array, up: Array, gate_bias: Any, up_bias: Any, activation: str, mode: str
) -> Array:
    a, b = _linear(x, gate, gate_bias, mode), _linear(x, up, up_bias, mode)
    if activation == "swiglu":
        return a / (1 + np.exp(-a)) * b
    if activation == "geglu_tanh":
        return a / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))) * b
    return 0.5 * a * np.vectorize(math.erfc, otypes=[np.float64])(-a / np.sqrt(2)) * b


def _gated_linear_size(
    x: Array, gate: Array, up: Array, gate_bias: Any, up_bias: Any, activation: str, mode: str
) -> Array:
    return 2 * _linear_size(x, gate, gate_bias, mode) * (1 + _linear_size(x, up, up_bias, mode))


def _gated_linear_cases(make: Make) -> None:
    for kind in ("swiglu", "geglu", "geglu_tanh"):
        weights = [make.normal((34, 20)) for _ in range(2)]
        biases = [make.normal((34,)) for _ in range(2)]
        make.case(f"{kind}-dense", make.normal((3, 20)), *weights, *biases, kind)
        for name in ("Q4_1", "Q6_K"):
            gate = packed(make, name, 50, 1)
            up = packed(make, name, 50, 1)
            columns = gate.shape[1]
            biases = [make.normal((50,)) for _ in range(2)]
            for rows in (1, 3, 8, 33):
                x = make.uniform(-0.1, 0.1, (rows, columns))
                make.case(f"{kind}-{name}-{rows}", x, gate, up, None, None, kind)
                make.case(
                    f"{kind}-{name}-fast-{rows}",
                    x,
                    gate,
                    up,
                    *biases,
                    kind,
                    "fast",
                    bound=(0, 2.0**17),
                )
    pair = packed(make, "Q4_K", 16, 1), packed(make, "Q6_K", 16, 1)
    x = make.uniform(-0.1, 0.1, (2, 256))
    make.case("mixed", x, *pair, None, None, "swiglu", "fast", bound=(0, 2.0**17))


operator(
    "gated_linear",
    _gated_linear,
    _gated_linear_cases,
    float32=(4, 64),
    narrow=(2, 4),
    magnitude=_gated_linear_size,
    example="crt.gated_linear(crt.ones(1, 2), crt.ones(1, 2), crt.tensor([[3.0, 4.0]]))",
)


def _embedding_cases(make: Make) -> None:
    ids = make.integers(0, 20, (3, 4))
    for dtype in ("float32", "bfloat16", "float16"):
        make.case(dtype, make.normal((20, 33), dtype), ids)
    make.case("to-f32", make.normal((20, 33), "bfloat16"), ids, dtypes.float32)
    make.case("int32", make.normal((20, 8)), make.integers(0, 20, (5,), "int32"))
    make.case("scalar", make.normal((20, 8)), make.integers(0, 20, ()))
    make.case("none", make.normal((20, 8)), make.integers(0, 20, (0,)))
    make.case("strided", make.normal((20, 8), "float32", "transposed"), ids)
    for name in SCHEMES:
        make.case(name, packed(make, name, 20, 2), ids)
        make.case(f"{name}-bf16", packed(make, name, 20, 2), ids, dtypes.bfloat16)


operator(
    "embedding",
    lambda weight, ids, dtype: weight[ids],
    _embedding_cases,
    float32=(0, 0),
    narrow=(0.5, 0),
)


def _dequantize_cases(make: Make) -> None:
    for name in SCHEMES:
        make.case(name, packed(make, name, 17, 3))
        make.case(f"{name}-bf16", packed(make, name, 17, 3), dtypes.bfloat16)
    make.case("dense", make.normal((4, 32), "bfloat16"))


operator(
    "dequantize",
    lambda weight, dtype: weight,
    _dequantize_cases,
    float32=(0, 0),
    narrow=(0.5, 0),
)
