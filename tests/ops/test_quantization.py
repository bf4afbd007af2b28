"""Cases, oracles and refusals of affine quantization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

FAKE = ("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine")
NAMES = (
    "quantize_linear",
    "dequantize_linear",
    "dynamic_quantize_linear",
    "quantize_per_tensor",
    "quantize_per_channel",
    *FAKE,
)
CASES = [case for name in NAMES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


def _quantized(torch: Any, dtype: Any) -> Any:
    return {torch.uint8: torch.quint8, torch.int8: torch.qint8, torch.int32: torch.qint32}[dtype]


def per_tensor(torch: Any, x: Any, scale: float, zero: int, dtype: Any) -> Any:
    return torch.quantize_per_tensor(x, scale, zero, _quantized(torch, dtype)).int_repr()


def per_channel(torch: Any, x: Any, scales: Any, zeros: Any, axis: int, dtype: Any) -> Any:
    axis %= x.ndim
    made = torch.quantize_per_channel(x, scales, zeros, axis, _quantized(torch, dtype))
    return made.int_repr()


def fake_tensor(torch: Any, x: Any, scale: Any, zero: Any, low: int, high: int) -> Any:
    if isinstance(scale, torch.Tensor):
        zero = zero.to(torch.int32)
    return torch.fake_quantize_per_tensor_affine(x, scale, zero, low, high)


def fake_channel(torch: Any, x: Any, scale: Any, zero: Any, axis: int, *span: int) -> Any:
    given = scale, zero.to(torch.int32), axis % x.ndim
    return torch.fake_quantize_per_channel_affine(x, *given, *span)


ORACLES = {
    "quantize_per_tensor": per_tensor,
    "quantize_per_channel": per_channel,
    "fake_quantize_per_tensor_affine": fake_tensor,
    "fake_quantize_per_channel_affine": fake_channel,
}


def _served(case: Any) -> bool:
    return case.op in ORACLES and case.dtype == "float32"


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("case", [case for case in CASES if _served(case)], ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, lambda torch, *given: ORACLES[case.op](torch, *given))


def test_onnx_agrees() -> None:
    """ONNX's own reference evaluator on the linear forms."""
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")

    def run(
        name: str, outputs: list[str], version: int, axis: int | None = None, **given: Any
    ) -> Any:
        attributes = {} if axis is None else {"axis": axis}
        node = onnx.helper.make_node(name, list(given), outputs, **attributes)
        kinds = onnx.helper.np_dtype_to_tensor_dtype
        graph = onnx.helper.make_graph(
            [node],
            name,
            [
                onnx.helper.make_tensor_value_info(key, kinds(value.dtype), value.shape)
                for key, value in given.items()
            ],
            [
                onnx.helper.make_tensor_value_info(key, onnx.TensorProto.FLOAT, None)
                for key in outputs
            ],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)])
        return reference.ReferenceEvaluator(model).run(None, given)

    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    scale = np.asarray([0.01, 0.02, 0.05, 0.1], np.float32)
    zero = np.asarray([0, 100, 128, 255], np.uint8)
    (want,) = run("QuantizeLinear", ["y"], 19, 1, x=x, scale=scale, zero=zero)
    ours = [crt.tensor(value) for value in (scale, zero)]
    got = crt.quantize_linear(crt.tensor(x), *ours)
    assert (got.numpy() == want).all() and got.dtype is crt.uint8
    (plain,) = run("DequantizeLinear", ["y"], 19, 1, x=want, scale=scale, zero=zero)
    assert (crt.dequantize_linear(got, *ours).numpy() == plain).all()
    codes, step, offset = run("DynamicQuantizeLinear", ["y", "s", "z"], 11, x=x)
    mine = crt.dynamic_quantize_linear(crt.tensor(x))
    assert (mine[0].numpy() == codes).all()
    assert mine[1].item() == pytest.approx(float(step), rel=1e-6)  # an ulp or two
    assert mine[2].item() == int(offset)


def test_round_trip() -> None:
    x = crt.tensor([-1.0, 0.0, 0.5, 1.0])
    codes, scale, zero = crt.dynamic_quantize_linear(x)
    back = crt.dequantize_linear(codes, scale, zero)
    assert (back - x).abs().amax().item() <= scale.item() / 2 + 1e-6


X, ONE = crt.ones(2, 3), crt.tensor(0.5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.quantize_linear(X, ONE, dtype=crt.float32), "dtype must be one of"),
        (lambda: crt.quantize_linear(X, crt.ones(2)), "scale [2] must be [3]"),
        (lambda: crt.quantize_linear(X, crt.ones(3), axis=2), "axis 2 is out of range"),
        (
            lambda: crt.quantize_linear(X, ONE, crt.zeros(3, dtype=crt.int8)),
            "zero_point [3] must have the shape of scale []",
        ),
        (
            lambda: crt.quantize_linear(X, ONE, crt.tensor(0).to(crt.int8), dtype=crt.uint8),
            "zero_point has dtype int8, the result uint8",
        ),
        (lambda: crt.quantize_linear(X, crt.ones(2, 2), block_size=4), "must be [2, 1] for input"),
        (lambda: crt.quantize_linear(X, ONE, block_size=-1), "must be 0 (no blocks) or positive"),
        (
            lambda: crt.dequantize_linear(X.to(crt.int8), ONE, crt.tensor(0).to(crt.uint8)),
            "zero_point has dtype uint8, input int8",
        ),
        (
            lambda: crt.quantize_per_channel(X, crt.ones(3), crt.tensor([0, 0]), 1, crt.int8),
            "must have the shape of scale [3]",
        ),
        (
            lambda: crt.fake_quantize_per_tensor_affine(X, 0.5, 0, 7, -8),
            "quant_min 7 must not be above quant_max -8",
        ),
        (
            lambda: crt.fake_quantize_per_tensor_affine(X, crt.ones(3), 0, 0, 255),
            "scale [3] must be one number",
        ),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)
