"""Weights from packed bytes and their names, against NumPy and the gguf package."""

from __future__ import annotations

import doctest
import re

import gguf
import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime._native._core import pack_mode, pack_weights, unpack_weight
from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.io import SCHEMES, quantized
from clika_runtime.io.ggml_types import TYPES_BY_NAME

Q8_0 = gguf.GGMLQuantizationType.Q8_0
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1 = np.concatenate([E2M1, -E2M1])


def q8_0(rows: int = 3, columns: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """A payload and its values."""
    values = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    payload = gguf.quants.quantize(values, Q8_0)
    return payload, gguf.quants.dequantize(payload, Q8_0)


def test_examples() -> None:
    result = doctest.testmod(quantized)
    assert result.attempted and not result.failed


def test_numbers_and_sizes_are_those_of_the_header() -> None:
    header = crt.get_include() + "/clika_runtime/plugin.h"
    with open(header, encoding="utf-8") as file:
        text = file.read()
    lists = re.findall(r"#define CLIKA_(GGUF|OWN)_SCHEMES\(X\)(.*?[^\\])\n", text, re.DOTALL)
    found = {
        int(number): (("GGUF_" if kind == "GGUF" else "") + name, int(columns), int(nbytes))
        for kind, rows in lists
        for name, number, columns, nbytes in re.findall(r"X\((\w+), (\d+), (\d+), (\d+)\)", rows)
    }
    assert len(found) == 31
    assert found == {n: (s.name, s.columns, s.nbytes) for n, s in SCHEMES.items()}
    assert found[TYPES_BY_NAME["Q8_0"].scheme][0] == "GGUF_Q8_0"


def test_a_weight_from_a_payload_and_back() -> None:
    payload, values = q8_0()
    q = crt.make_quantized(crt.tensor(payload), "GGUF_Q8_0", [64, 3])
    assert (q.scheme, q.logical_shape) == ("GGUF_Q8_0", [64, 3])
    assert np.array_equal(q.payload.numpy(), payload)
    assert q.payload.dtype is crt.uint8
    assert np.array_equal(crt.dequantize(q).numpy(), values)
    assert np.array_equal(crt.dequantize(q.tensor).numpy(), values)
    assert crt.dequantize(q, dtype=crt.bfloat16).dtype is crt.bfloat16
    assert repr(q) == "QTensor(scheme='GGUF_Q8_0', logical_shape=[64, 3])"
    again = crt.quantized_view(q.tensor)
    assert np.array_equal(again.payload.numpy(), payload)
    assert crt.quantized_view(q) is q


def test_the_payload_is_a_view_that_cannot_be_written() -> None:
    payload, _ = q8_0()
    array = payload.copy()
    source = crt.from_numpy(array)
    q = crt.make_quantized(source, "GGUF_Q8_0", [64, 3])
    array[0, 5] ^= 1
    assert q.payload.numpy()[0, 5] == array[0, 5]
    view = q.payload
    del q, source
    assert np.array_equal(view.numpy(), array)
    with pytest.raises(ValueError, match="read-only"):
        view.numpy()[0, 0] = 1


def test_a_module_takes_it() -> None:
    payload, values = q8_0()
    q = crt.make_quantized(crt.tensor(payload), "GGUF_Q8_0", [64, 3])
    layer = crt.nn.QLinearWoQ(64, 3)
    layer.set_weights(q)
    x = np.random.default_rng(1).standard_normal((2, 64)).astype(np.float32)
    expected = x.astype(np.float64) @ values.T.astype(np.float64)
    bound = np.abs(x) @ np.abs(values.T) * 68 * 2.0**-24  # float32 sums of 64 products
    assert (np.abs(layer(crt.tensor(x)).numpy() - expected) <= bound).all()


def test_mxfp4_from_a_split_pair() -> None:
    rng = np.random.default_rng(2)
    blocks = rng.integers(0, 256, (5, 2, 16), dtype=np.uint8)
    scales = rng.integers(0, 255, (5, 2), dtype=np.uint8)
    scales[0, 0], scales[4, 1] = 0, 254
    q = crt.make_quantized_mxfp4(crt.tensor(blocks), crt.tensor(scales), [64, 5])
    assert (q.scheme, q.logical_shape) == ("MXFP4_E8M0", [64, 5])
    payload = q.payload.numpy()
    assert payload.shape == (5, 34)
    assert np.array_equal(payload.reshape(5, 2, 17)[..., :16], blocks)
    assert np.array_equal(payload.reshape(5, 2, 17)[..., 16], scales)
    codes = np.stack([blocks & 15, blocks >> 4], -1).reshape(5, 2, 32)
    with np.errstate(over="ignore"):
        expected = np.ldexp(E2M1[codes], scales.astype(np.int32)[..., None] - 127)
    assert np.array_equal(crt.dequantize(q).numpy(), expected.reshape(5, 64))


U8 = crt.uint8


def test_refusals() -> None:
    payload = crt.tensor(q8_0()[0])
    with pytest.raises(UnsupportedError, match="'Q8_0' is no scheme; known are GGUF_Q4_0"):
        crt.make_quantized(payload, "Q8_0", [64, 3])
    with pytest.raises(InvalidArgumentError, match=r"shape \[3, 68\].*takes \[4, 68\]"):
        crt.make_quantized(payload, "GGUF_Q8_0", [64, 4])
    with pytest.raises(InvalidArgumentError, match="48 columns are no multiple of 32"):
        crt.make_quantized(payload, "GGUF_Q8_0", [48, 3])
    for sizes in ([64], "ab", [64, -1], [64.0, 3], [64, True]):
        with pytest.raises(InvalidArgumentError, match="logical_shape must be sizes"):
            crt.make_quantized(payload, "GGUF_Q8_0", sizes)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="must be a uint8 tensor on the CPU, found int8"):
        crt.make_quantized(crt.zeros((3, 68), dtype=crt.int8), "GGUF_Q8_0", [64, 3])
    with pytest.raises(InvalidArgumentError, match="the tensor is dense uint8"):
        crt.quantized_view(payload)
    with pytest.raises(InvalidArgumentError, match="expected a tensor, found list"):
        crt.quantized_view([1])  # type: ignore[arg-type]
    q = crt.make_quantized(payload, "GGUF_Q8_0", [64, 3])
    with pytest.raises(InvalidArgumentError, match="in layout"):
        crt.quantized_view(crt.pack_weight(q.tensor, "exact"))


def test_weights_packed_by_one_call_are_as_packed_alone() -> None:
    weights = [
        crt.make_quantized(crt.tensor(q8_0(rows)[0]), "GGUF_Q8_0", [64, rows]).tensor
        for rows in (1, 16, 35)
    ]
    dense = crt.ones((3, 64))
    before = crt.pack_weight(weights[1], "exact")
    given = [*weights, dense, before, weights[0]]
    modes = ["fast", "exact", "both", "fast", "fast", "table"]
    found = pack_weights(given, modes)
    assert [pack_mode(weight) for weight in found] == ["fast", "exact", "both", None, "exact", None]
    assert found[3] is dense and found[4] is before and found[5] is weights[0]
    for weight, packed in zip(weights, found, strict=False):
        alone = crt.pack_weight(weight, pack_mode(packed))
        assert alone.layout == packed.layout != 0
        published = crt.quantized_view(unpack_weight(packed)).payload.numpy()
        assert np.array_equal(published, crt.quantized_view(weight).payload.numpy())
    assert pack_weights([], []) == []
    with pytest.raises(ValueError, match="'slow' is not a PackMode"):
        pack_weights(weights[:2], ["fast", "slow"])
    with pytest.raises(ValueError, match="shorter"):
        pack_weights(weights, ["fast"])
    with pytest.raises(crt.ClikaRTError, match="on device meta"):
        pack_weights([weights[0], dense.to("meta")], ["fast", "fast"])


def test_refusals_of_split_pairs() -> None:
    blocks, scales = crt.zeros((2, 16), dtype=U8), crt.zeros((2,), dtype=U8)
    with pytest.raises(InvalidArgumentError, match=r"blocks has shape .*takes 48"):
        crt.make_quantized_mxfp4(blocks, scales, [32, 3])
    with pytest.raises(InvalidArgumentError, match=r"scales has shape .*takes 2"):
        crt.make_quantized_mxfp4(blocks, crt.zeros((3,), dtype=U8), [32, 2])
    with pytest.raises(InvalidArgumentError, match=r"scales\[1\] is 255"):
        crt.make_quantized_mxfp4(blocks, crt.tensor([0, 255], dtype=U8), [32, 2])
    with pytest.raises(InvalidArgumentError, match="33 columns"):
        crt.make_quantized_mxfp4(blocks, scales, [33, 2])
