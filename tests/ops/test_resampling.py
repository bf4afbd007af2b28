"""Cases, oracles and refusals of resampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.channels import first, last
from tests.ops.support import check_backend, check_oracle

NAMES = ("interpolate", "resize", "grid_sample", "affine_grid")
CASES = [case for name in NAMES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


def _wide(torch: Any, x: Any) -> Any:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def interpolate(torch: Any, x: Any, *more: Any) -> Any:
    size, factor, mode, align, recompute, antialias = more
    result = torch.nn.functional.interpolate(
        first(_wide(torch, x)),
        size,
        factor,
        mode,
        align,
        recompute_scale_factor=recompute,
        antialias=antialias,
    )
    return last(result).to(x.dtype)


def grid_sample(torch: Any, x: Any, grid: Any, mode: str, padding: str, align: Any) -> Any:
    result = torch.nn.functional.grid_sample(
        first(_wide(torch, x)), _wide(torch, grid), mode, padding, bool(align)
    )
    return last(result).to(x.dtype)


def affine_grid(torch: Any, theta: Any, size: Any, align: Any) -> Any:
    channels_first = (size[0], size[-1], *size[1:-1])
    grid = torch.nn.functional.affine_grid(_wide(torch, theta), channels_first, bool(align))
    return grid.to(theta.dtype)


ORACLES = {"interpolate": interpolate, "grid_sample": grid_sample, "affine_grid": affine_grid}


def _served(case: Any) -> bool:
    """torch resamples uint8 in fixed point and int8 not at all, and lets NaN places through."""
    if case.dtype in ("uint8", "int8") or "empty" in case.name or case.name == "odd-zeros":
        return False
    return case.op in ORACLES


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid behavior has changed")
@pytest.mark.parametrize("case", [case for case in CASES if _served(case)], ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, lambda torch, *given: ORACLES[case.op](torch, *given))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_within_one_of_torch(mode: str) -> None:
    """torch resamples bytes with 15-bit weights: now and then a byte is one step off."""
    torch = pytest.importorskip("torch")
    x = torch.randint(0, 256, (1, 3, 40, 30), dtype=torch.uint8)
    want = torch.nn.functional.interpolate(x, (17, 50), mode=mode, antialias=True)
    mine = crt.tensor(last(x).contiguous().numpy())
    got = crt.interpolate(mine, (17, 50), mode=mode, antialias=True).numpy().astype(int)
    off = np.abs(got - last(want).numpy().astype(int))
    assert off.max() <= 1 and (off != 0).mean() < 0.02


def test_resize_agrees_with_onnx() -> None:
    """ONNX's own reference evaluator on every transform, mode and rounding."""
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    x = np.random.default_rng(0).standard_normal((1, 1, 5, 6)).astype(np.float32)

    def expected(scales: Any, **attributes: Any) -> Any:
        node = onnx.helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
        f32 = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            [node],
            "resize",
            [
                onnx.helper.make_tensor_value_info("x", f32, x.shape),
                onnx.helper.make_tensor_value_info("scales", f32, [4]),
            ],
            [onnx.helper.make_tensor_value_info("y", f32, None)],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)])
        given = {"x": x, "scales": np.asarray(scales, np.float32)}
        return reference.ReferenceEvaluator(model).run(None, given)[0]

    scales = [1.0, 1.0, 0.6, 1.5]
    for transform in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        for mode in ("nearest", "linear", "cubic"):
            options: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transform}
            want = expected(scales, **options)
            got = crt.resize(crt.tensor(x), None, scales, **options)
            # The places are float64 here and there; scales are float32 there.
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
    for mode in ("linear", "cubic"):
        options = {"mode": mode, "antialias": True}
        want = expected(scales, mode=mode, antialias=1)
        got = crt.resize(crt.tensor(x), None, scales, **options)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
        want = expected(scales, mode=mode, exclude_outside=1)
        got = crt.resize(crt.tensor(x), None, scales, mode=mode, exclude_outside=True)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)


def test_upsample() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, 4, 5)
    mine = crt.tensor(last(x).contiguous().numpy())
    nearest = last(torch.nn.functional.interpolate(x, scale_factor=2.0)).numpy()
    assert (crt.upsample_nearest(mine, scale_factor=2.0).numpy() == nearest).all()
    want = torch.nn.functional.interpolate(x, (7, 3), mode="bilinear", align_corners=True)
    got = crt.upsample_bilinear(mine, (7, 3)).numpy()
    # Two products and sums per axis in float32.
    np.testing.assert_allclose(got, last(want).numpy(), rtol=1e-5, atol=1e-5)


X = crt.zeros(1, 4, 4, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.interpolate(X), "give either size or scale_factor"),
        (lambda: crt.interpolate(X, 3, 2.0), "give either size or scale_factor"),
        (lambda: crt.interpolate(X, 3, mode="linear"), "mode 'linear' takes 1 spatial dims"),
        (lambda: crt.interpolate(X, 3, mode="cubic"), "mode: 'cubic' is not a Mode"),
        (lambda: crt.interpolate(X, (3, 3, 3)), "must be one number or 2"),
        (lambda: crt.interpolate(X, 0), "each must be at least 1"),
        (lambda: crt.interpolate(X, 3, align_corners=True), "align_corners does not go with"),
        (lambda: crt.interpolate(X, 3, antialias=True), "antialias goes with modes"),
        (lambda: crt.interpolate(X, scale_factor=float("nan")), "must be a positive number"),
        (lambda: crt.interpolate(X, scale_factor=1e300), "must be a positive number"),
        (lambda: crt.interpolate(X, (2**40, 2**40)).numpy(), ""),
        (lambda: crt.resize(X, [3, 3], axes=[1, 1]), "must be distinct dims"),
        (lambda: crt.resize(X, [3, 3]), "must have one number for each of the axes"),
        (
            lambda: crt.resize(
                X, [3], axes=[1], coordinate_transformation_mode="tf_crop_and_resize"
            ),
            "needs a roi of 2 numbers",
        ),
        (lambda: crt.grid_sample(X, crt.zeros(1, 2, 2, 3)), "grid [1, 2, 2, 3] must be"),
        (lambda: crt.grid_sample(X, crt.zeros(2, 2, 2, 2)), "must have one batch"),
        (lambda: crt.affine_grid(crt.zeros(1, 2, 2), [1, 2, 2, 1]), "must be [N, 2, 3]"),
        (lambda: crt.affine_grid(crt.zeros(1, 2, 3), [1, -2, 2, 1]), "each must be at least 1"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises((InvalidArgumentError, crt.OutOfMemoryError)) as caught:
        call()
    assert text in str(caught.value)
