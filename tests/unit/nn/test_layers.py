"""Layers against plain NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
import clika_runtime.nn.functional as F
from clika_runtime import nn
from clika_runtime.errors import InvalidArgumentError

RNG = np.random.default_rng(0)


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def linear(rows: int, columns: int, bias: bool = True, **more: Any) -> nn.Linear:
    layer = nn.Linear(columns, rows, bias=bias, **more)
    layer.weight = crt.tensor(values(rows, columns))
    if bias:
        layer.bias = crt.tensor(values(rows))
    return layer


def close(got: crt.Tensor, expected: Any) -> None:
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_linear_with_and_without_a_bias() -> None:
    for bias in (True, False):
        layer, x = linear(5, 7, bias), values(3, 7)
        expected = x @ layer.weight.numpy().T + (layer.bias.numpy() if bias else 0)
        close(layer(crt.tensor(x)), expected)


def test_linear_applies_its_activation() -> None:
    layer, x = linear(6, 4, activation="relu"), values(3, 4)
    expected = np.maximum(x @ layer.weight.numpy().T + layer.bias.numpy(), 0)
    close(layer(crt.tensor(x)), expected)
    with pytest.raises(
        InvalidArgumentError, match="'mish' is not an Activation; choose one of 'identity'"
    ):
        nn.Linear(1, 1, activation="mish")


def test_embedding_takes_a_dtype() -> None:
    table = nn.Embedding(5, 3)
    table.weight = crt.tensor(values(5, 3))
    ids = crt.tensor(np.array([4, 0], np.int32))
    close(table(ids), table.weight.numpy()[[4, 0]])
    table.output_dtype = crt.bfloat16
    assert table(ids).dtype is crt.bfloat16


def test_norms() -> None:
    x, residual, weight, bias = values(3, 8), values(3, 8), values(8), values(8)
    rms = nn.RMSNorm(8, eps=1e-5)
    rms.weight = crt.tensor(weight)

    def expected(v: Any) -> Any:
        return v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-5) * weight

    close(rms(crt.tensor(x)), expected(x))
    total, normed = rms.add(crt.tensor(x), crt.tensor(residual))
    close(total, x + residual)
    close(normed, expected(x + residual))
    shifted = nn.RMSNorm(8, eps=1e-5, offset=1.0)
    shifted.weight = crt.tensor(weight - 1.0)
    close(shifted(crt.tensor(x)), expected(x))
    close(shifted.add(crt.tensor(x), crt.tensor(residual))[1], expected(x + residual))
    assert "offset=1" in repr(shifted) and "offset" not in repr(rms)
    layer = nn.LayerNorm(8)
    layer.weight, layer.bias = crt.tensor(weight), crt.tensor(bias)
    centered = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centered * centered).mean(-1, keepdims=True) + 1e-5)
    close(layer(crt.tensor(x)), centered / scale * weight + bias)


def test_activations_and_shapes() -> None:
    x = values(2, 6)
    sigmoid = 1 / (1 + np.exp(-x))
    close(nn.SiLU()(crt.tensor(x)), x * sigmoid)
    close(nn.Sigmoid()(crt.tensor(x)), sigmoid)
    close(nn.Tanh()(crt.tensor(x)), np.tanh(x))
    close(
        nn.GELU("tanh")(crt.tensor(x)),
        0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
    )
    assert nn.Dropout(0.1)(x) is x
    assert tuple(nn.Flatten(0)(crt.tensor(x)).shape) == (12,)
    close(nn.Softmax()(crt.tensor(x)).sum(-1), np.ones(2))
    gate, up = x[:, :3], x[:, 3:]
    close(F.activate(crt.tensor(x), "swiglu"), gate / (1 + np.exp(-gate)) * up)
    erf = np.vectorize(math.erf)
    gelu = 0.5 * gate * (1 + erf(gate / math.sqrt(2)))
    close(F.activate(crt.tensor(x), "geglu"), gelu * up)
    close(F.activate(crt.tensor(x), "reglu"), np.maximum(gate, 0) * up)
    capped = 4 * np.tanh(gate / 4) / (1 + np.exp(-gate)) * 25 * np.tanh(up / 25)
    close(F.activate(crt.tensor(x), "situ"), capped)


def test_functional_has_the_operators() -> None:
    assert F.relu is crt.relu and F.mse_loss is crt.mse_loss and F.absolute is crt.abs
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = F.nothing


# ---- fused groups
def test_a_group_gives_the_parts_side_by_side() -> None:
    parts = [linear(3, 4), linear(5, 4)]
    x = crt.tensor(values(2, 4))
    expected = np.concatenate([part(x).numpy() for part in parts], -1)
    before = [part.weight.tolist() for part in parts]
    group = nn.fuse_linears(*parts, name="qk")
    assert isinstance(group, nn.Linear)
    assert (group.in_features, group.out_features) == (4, 8)
    close(group(x), expected)
    # The parts read their rows back from the group's weight, which lists no parameters itself.
    assert [part.weight.tolist() for part in parts] == before
    assert parts[0].weight.data_ptr() == group.weight.data_ptr()
    assert list(group.state_dict()) == []


def test_a_gated_group_halves_the_width() -> None:
    parts = [linear(3, 4, bias=False), linear(3, 4, bias=False)]
    x = crt.tensor(values(2, 4))
    gate, up = (part(x).numpy() for part in parts)
    close(nn.fuse_linears(*parts, activation="swiglu")(x), gate / (1 + np.exp(-gate)) * up)


def test_parts_of_unequal_dtypes_are_served_side_by_side() -> None:
    parts = [linear(3, 4, bias=False), linear(5, 4, bias=False)]
    parts[1].weight = parts[1].weight.to(crt.bfloat16)
    x = crt.tensor(values(2, 4))
    expected = np.concatenate([part(x).numpy() for part in parts], -1)
    close(nn.fuse_linears(*parts)(x), expected)


def test_groups_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"widths \[4, 5\]"):
        nn.fuse_linears(linear(3, 4), linear(3, 5))
    with pytest.raises(InvalidArgumentError, match="different activations"):
        nn.fuse_linears(linear(3, 4, activation="relu"), linear(3, 4))
    with pytest.raises(InvalidArgumentError, match="needs parts without a bias"):
        nn.fuse_linears(linear(3, 4), linear(3, 4), activation="swiglu")
    with pytest.raises(InvalidArgumentError, match="at least one"):
        nn.fuse_linears()
    shared = [linear(3, 4, activation="relu"), linear(2, 4, activation="relu")]
    x = crt.tensor(values(2, 4))
    expected = np.concatenate([part(x).numpy() for part in shared], -1)
    close(nn.fuse_linears(*shared)(x), expected)


# ---- packed weights
def packed(rows: int, columns: int) -> tuple[crt.Tensor, Any]:
    import gguf

    kind = gguf.GGMLQuantizationType.Q8_0
    data = gguf.quants.quantize(values(rows, columns), kind)
    tensor = crt.Tensor.from_buffer(
        data.tobytes(), (rows, columns), crt.float32, scheme=9, mapped=False
    )
    return tensor, gguf.quants.dequantize(data, kind)


def test_a_quantized_layer_equals_the_dequantized_product() -> None:
    weight, dense = packed(32, 64)
    layer = nn.QLinearWoQ(64, 32)
    layer.set_weights(weight)
    x = values(3, 64)
    np.testing.assert_allclose(layer(crt.tensor(x)).numpy(), x @ dense.T, rtol=1e-4, atol=1e-4)
    with pytest.raises(InvalidArgumentError, match=r"shape \[32, 64\], the layer takes \[8, 64\]"):
        nn.QLinearWoQ(64, 8).set_weights(weight)
    with pytest.raises(InvalidArgumentError, match="dense"):
        layer.set_weights(crt.tensor(dense))
    with pytest.raises(crt.UnsupportedError, match="'weight' is a packed weight"):
        layer.to(crt.bfloat16)


def test_a_group_of_quantized_parts_equals_its_parts() -> None:
    parts = []
    for rows in (32, 16):
        part = nn.QLinearWoQ(64, rows)
        part.set_weights(packed(rows, 64)[0])
        parts.append(part)
    x = crt.tensor(values(2, 64))
    expected = np.concatenate([part(x).numpy() for part in parts], -1)
    assert (nn.fuse_linears(*parts)(x).numpy() == expected).all()
