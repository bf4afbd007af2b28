"""Cases and oracles of ``linears`` and ``gated_linear``: the bits of what they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.testing import _numpy as kit
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def linears(torch: Any, input: Any, weights: Any, biases: Any, mode: str) -> Any:
    given = biases or [None] * len(weights)
    return tuple(
        torch.nn.functional.linear(input, weight.to(input.dtype), bias)
        for weight, bias in zip(weights, given, strict=True)
    )


def gated_linear(
    torch: Any,
    input: Any,
    gate: Any,
    up: Any,
    gate_bias: Any,
    up_bias: Any,
    activation: str,
    mode: str,
) -> Any:
    F = torch.nn.functional
    a = F.linear(input, gate.to(input.dtype), gate_bias)
    b = F.linear(input, up.to(input.dtype), up_bias)
    if activation == "swiglu":
        return F.silu(a) * b
    return F.gelu(a, approximate="tanh" if activation == "geglu_tanh" else "none") * b


ORACLES = {"linears": linears, "gated_linear": gated_linear}
CASES = [case for name in ORACLES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, ORACLES[case.op])


def packed(name: str, rows: int, columns: int, layout: str) -> Any:
    rng = np.random.default_rng(rows)
    weight = crt.Tensor.from_buffer(
        kit.random_blocks(rng, name, rows, columns),
        (rows, columns),
        crt.float32,
        scheme=kit.scheme_number(name),
        mapped=False,
    )
    return weight if layout == "published" else crt.pack_weight(weight, "both")


@pytest.mark.parametrize("layout", ["published", "packed"])
@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("tokens", [1, 2, 5, 8, 9, 70])
def test_the_bits_of_one_after_the_other(tokens: int, mode: str, layout: str) -> None:
    rng = np.random.default_rng(tokens)
    x = crt.tensor(rng.standard_normal((tokens, 512)).astype(np.float32))
    # Types with minima and with halves, whose activations differ, and rows that fill no group.
    weights = [
        packed(name, rows, 512, layout)
        for name, rows in (("Q4_K", 100), ("Q6_K", 33), ("Q8_0", 16), ("Q4_K", 7), ("IQ4_XS", 50))
    ]
    biases = [crt.tensor(rng.standard_normal(w.shape[0]).astype(np.float32)) for w in weights]
    for given in (None, biases):
        found = crt.linears(x, weights, given, mode)
        for i, weight in enumerate(weights):
            bias = None if given is None else given[i]
            wanted = crt.linear(x, weight, bias, mode)
            assert np.array_equal(found[i].numpy(), wanted.numpy())


@pytest.mark.parametrize("layout", ["published", "packed"])
@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("tokens", [1, 3, 8, 9, 70])
def test_the_bits_of_a_gate(tokens: int, mode: str, layout: str) -> None:
    rng = np.random.default_rng(tokens)
    x = crt.tensor(rng.standard_normal((tokens, 512)).astype(np.float32))
    for first, second in (("Q4_1", "Q4_1"), ("Q4_K", "Q6_K")):
        gate, up = packed(first, 150, 512, layout), packed(second, 150, 512, layout)
        bias = crt.tensor(rng.standard_normal(150).astype(np.float32))
        a, b = crt.linear(x, gate, bias, mode), crt.linear(x, up, None, mode)
        for activation, wanted in (
            ("swiglu", crt.swiglu(a, b)),
            ("geglu", crt.geglu(a, b)),
            ("geglu_tanh", crt.geglu(a, b, "tanh")),
        ):
            found = crt.gated_linear(x, gate, up, bias, None, activation, mode)
            assert np.array_equal(found.numpy(), wanted.numpy())


def test_refusals() -> None:
    x, weight = crt.ones(2, 32), packed("Q4_0", 16, 32, "published")
    with pytest.raises(crt.InvalidArgumentError, match="at least one weight"):
        crt.linears(x, [])
    with pytest.raises(crt.InvalidArgumentError, match="2 biases for 1 weights"):
        crt.linears(x, [weight], [crt.ones(16), crt.ones(16)])
    with pytest.raises(crt.InvalidArgumentError, match="last dim"):
        crt.linears(x, [weight, packed("Q4_0", 16, 64, "published")])
    with pytest.raises(crt.InvalidArgumentError, match="the same rows"):
        crt.gated_linear(x, weight, packed("Q4_0", 17, 32, "published"))
    with pytest.raises(crt.InvalidArgumentError, match="choose one of"):
        crt.gated_linear(x, weight, weight, None, None, "relu")


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("count", [8, 9, 10, 21, 63])
def test_more_weights_than_a_kernel_takes(count: int, planned: bool) -> None:
    """The result is that of one product after the other, and nothing is written beyond a call."""
    x = crt.tensor(np.random.default_rng(count).standard_normal((3, 64)).astype(np.float32))
    weights = [packed("Q4_0", 1 + index % 5, 64, "packed") for index in range(count)]
    wanted = [crt.linear(x, weight, None, "fast").numpy() for weight in weights]
    if planned:
        spec = crt.TensorSpec("x", crt.float32, (3, 64))
        graph = crt.trace(lambda given: [*crt.linears(given[0], weights, None, "fast")], [spec])
        graph.graph.optimize()
        graph.graph.finalize()
        found = graph.graph.run({"x": x})
        found = list(found.values()) if isinstance(found, dict) else found
    else:
        found = crt.linears(x, weights, None, "fast")
    for ours, theirs in zip(found, wanted, strict=True):
        assert np.array_equal(ours.numpy(), theirs)
    with pytest.raises(crt.InvalidArgumentError, match="more than 64 tensors"):
        crt.linears(x, weights * 8)
