"""dequantize on every level: the gguf package's values to the bit, published and packed."""

import pytest
import torch
from harness import KernelError, Kernels, Packed, usable_levels
from packed_weights import SCHEMES, both_layouts, random_weight, same_bits, values

LEVELS = usable_levels()
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 32), (7, 32), (8, 64), (9, 576), (17, 96), (0, 64)]
)
def test_values_equal_gguf(level, kind, rows, columns):
    kernels = Kernels(level)
    weight = random_weight(kind, rows, columns)
    expected = values(kind, weight)
    for form in both_layouts(kernels, weight):
        (out,) = kernels("dequantize", [form], [torch.empty(rows, columns)], [torch.float32])
        assert same_bits(out, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_special_scales(level, kind):
    """Zero, subnormal, the largest and negative scales."""
    weight = random_weight(kind, 8, 64)
    scales = torch.tensor([0.0, -0.0, 6e-8, 65504.0, -65504.0, 6.1e-5, -1.0, 3e-7]).half()
    blocks = weight.data.view(8, 2, -1)
    blocks[:, :, :2] = scales.view(torch.uint8).view(8, 1, 2)
    expected = values(kind, weight)
    kernels = Kernels(level)
    for form in both_layouts(kernels, weight):
        (out,) = kernels("dequantize", [form], [torch.empty(8, 64)], [torch.float32])
        assert same_bits(out, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_result_dtypes_round_once(level, dtype):
    kernels = Kernels(level)
    weight = random_weight("Q4_1", 9, 96)
    expected = values("Q4_1", weight).to(dtype)
    for form in both_layouts(kernels, weight):
        (out,) = kernels("dequantize", [form], [torch.empty(9, 96, dtype=dtype)], [dtype])
        assert same_bits(out, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
def test_dense_weights_convert(level, source, target):
    x = torch.randn(7, 33, generator=torch.Generator().manual_seed(1)).to(source)
    (out,) = Kernels(level, threads=2, grain=50)(
        "dequantize", [x], [torch.empty(7, 33, dtype=target)], [target]
    )
    assert same_bits(out, x.to(target))


@pytest.mark.parametrize("level", LEVELS)
def test_short_payload_is_refused(level):
    weight = random_weight("Q4_0", 4, 64)
    short = Packed(weight.data[:-1], (4, 64), weight.scheme)
    with pytest.raises(KernelError, match="needs 144 bytes, its payload has 143"):
        Kernels(level)("dequantize", [short], [torch.empty(4, 64)], [torch.float32])
