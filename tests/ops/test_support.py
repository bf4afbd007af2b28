"""What the CPU backend serves with kernels of its own."""

from __future__ import annotations

import pytest

from clika_runtime import ops
from clika_runtime.ops.record import REDUCTION
from clika_runtime.testing import serving

#: Modules of records (``ops._GROUPS``) whose operators a composition does not do justice to.
HEAVY = {
    "add_rms_norm",
    "argmax",
    "argmin",
    "batch_norm",
    "bilinear",
    "convolution",
    "counting",
    "decompositions",
    "embedding",
    "embedding_bag",
    "gather",
    "index_select",
    "advanced_indexing",
    "layer_norm",
    "linear",
    "log_softmax",
    "matmul",
    "normalization",
    "paged_attention",
    "pooling",
    "reductions",
    "rms_norm",
    "scaled_dot_product_attention",
    "scattering",
    "segments",
    "selecting",
    "softmax",
    "sort",
    "sorting",
    "topk",
}
MOST_COMPOSED = 60
LEAST = 300


@pytest.fixture(scope="module")
def float32() -> dict[str, str]:
    return {name: serving.served("cpu", name)["float32"] for name in ops.records()}


def test_there_are_enough_operators(float32: dict[str, str]) -> None:
    assert len(float32) >= LEAST


def test_few_operators_are_composed(float32: dict[str, str]) -> None:
    composed = [name for name, how in float32.items() if how == serving.COMPOSED]
    assert composed, "the measurement finds none at all"
    assert len(composed) <= MOST_COMPOSED, composed


def test_what_is_heavy_has_kernels(float32: dict[str, str]) -> None:
    homes = vars(ops)["_HOME"]
    heavy = [
        name for name in float32 if REDUCTION in ops.record(name).traits or homes[name] in HEAVY
    ]
    assert len(heavy) > 100
    assert [name for name in heavy if float32[name] == serving.COMPOSED] == []


def test_float32_is_refused_only_by_integer_operators(float32: dict[str, str]) -> None:
    for name in (name for name, how in float32.items() if how == serving.REFUSED):
        found = serving.served("cpu", name)
        assert serving.NATIVELY in (found["int32"], found["int64"]), f"{name}: {found}"


def test_a_composed_form_is_told_from_a_kernel() -> None:
    assert serving.served("cpu", "rms_norm")["float64"] == serving.COMPOSED
    assert serving.served("cpu", "rms_norm")["float32"] == serving.NATIVELY
    assert serving.served("cpu", "transpose")["float32"] == serving.VIEWED
    assert serving.served("cpu", "bitwise_and")["float32"] == serving.REFUSED
    assert serving.served("cpu", "linear")["packed"] == serving.NATIVELY
