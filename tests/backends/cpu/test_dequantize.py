"""dequantize on every level: the gguf package's values to the bit, published and packed."""

import numpy as np
import pytest
import torch
from harness import KernelError, Kernels, Packed, usable_levels
from packed_weights import (
    BLOCK,
    BLOCK_BYTES,
    SCHEMES,
    both_layouts,
    random_weight,
    same_bits,
    values,
)

from clika_runtime.testing import _numpy as kit

LEVELS = usable_levels()
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def check_values(level: str, kind: str, weight: Packed) -> None:
    kernels = Kernels(level)
    expected = values(kind, weight)
    for form in both_layouts(kernels, weight):
        (out,) = kernels("dequantize", [form], [torch.empty(weight.shape)], [torch.float32])
        assert same_bits(out, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_values_equal_gguf(level, kind):
    for rows, blocks in ((1, 1), (7, 1), (8, 2), (9, 3), (17, 5), (0, 2)):
        check_values(level, kind, random_weight(kind, rows, blocks * BLOCK[kind]))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_every_byte_everywhere_equals_gguf(level, kind):
    """Block i holds byte (i + p) mod 256 at place p: all codes, scales, signs and points."""
    columns, nbytes = BLOCK[kind], BLOCK_BYTES[kind]
    random = random_weight(kind, 256, columns, seed=1).data.view(256, nbytes)
    blocks = (torch.arange(256)[:, None] + torch.arange(nbytes)[None]).to(torch.uint8)
    if kind == "MXFP4":  # test_every_scale_of_one_byte has the others
        blocks[:, 0] = random[:, 0]
    for at in kit.SCHEMES[kind]:  # any bytes but those of a float16 scale
        blocks[:, at : at + 2] = random[:, at : at + 2]
    if kind == "IQ1_M":
        blocks[:, 49::2] = (blocks[:, 49::2] & 15) | (random[:, 49::2] & 240)
    check_values(level, kind, Packed(blocks.reshape(-1), (256, columns), SCHEMES[kind]))


GRIDS = {"IQ2_XXS": 256, "IQ2_XS": 512, "IQ2_S": 1024, "IQ3_XXS": 256, "IQ3_S": 512, "IQ1_S": 2048}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", GRIDS)
def test_every_point_of_the_grids(level, kind):
    """Random indices that are known to hit every point at least once."""
    weight = random_weight(kind, 256, 4 * 256, seed=2)
    blocks = weight.data.numpy().reshape(-1, BLOCK_BYTES[kind])
    high = {"IQ2_S": (66, 2), "IQ3_S": (66, 1), "IQ1_S": (34, 3)}
    if kind == "IQ2_XXS":
        low = blocks[:, 2:66].reshape(-1, 8, 8)[..., :4]
        points = low.reshape(-1)
    elif kind == "IQ2_XS":
        points = np.ascontiguousarray(blocks[:, 2:66]).view(np.uint16) & 511
    else:
        count = 64 if kind.startswith("IQ3") else 32
        points = blocks[:, 2 : 2 + count].astype(np.int64)
        if kind in high:
            at, bits = high[kind]
            words = blocks[:, at : at + 8]
            if kind == "IQ1_S":
                words = np.ascontiguousarray(blocks[:, at : at + 16]).view(np.uint16)
            each = count // 8
            upper = words[:, :, None] >> (bits * np.arange(each, dtype=words.dtype))
            points = points | (upper.reshape(-1, count).astype(np.int64) & (2**bits - 1)) << 8
    assert len(np.unique(points)) == GRIDS[kind]
    check_values(level, kind, weight)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", [kind for kind in SCHEMES if kit.SCHEMES[kind]])
def test_special_scales(level, kind):
    """Zero, subnormal, the largest and negative scales."""
    weight = random_weight(kind, 8, 2 * BLOCK[kind])
    scales = torch.tensor([0.0, -0.0, 6e-8, 65504.0, -65504.0, 6.1e-5, -1.0, 3e-7]).half()
    blocks = weight.data.view(8, 2, -1)
    for at in kit.SCHEMES[kind][:1]:
        blocks[:, :, at : at + 2] = scales.view(torch.uint8).view(8, 1, 2)
    check_values(level, kind, weight)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("kind", "places"), [("MXFP4", 1), ("NVFP4", 4)])
def test_every_scale_of_one_byte(level, kind, places):
    weight = random_weight(kind, 256, BLOCK[kind])
    blocks = weight.data.view(256, -1)
    for place in range(places):
        blocks[:, place] = (torch.arange(256) + 64 * place).to(torch.uint8)
    check_values(level, kind, weight)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["Q4_1", "Q6_K", "NVFP4"])
def test_result_dtypes_round_once(level, dtype, kind):
    kernels = Kernels(level)
    weight = random_weight(kind, 9, 768)
    expected = values(kind, weight).to(dtype)
    for form in both_layouts(kernels, weight):
        (out,) = kernels("dequantize", [form], [torch.empty(9, 768, dtype=dtype)], [dtype])
        assert same_bits(out, expected)


@pytest.mark.parametrize("level", LEVELS)
def test_published_weights_of_any_rank(level):
    weight = random_weight("Q4_K", 6, 512)
    expected = values("Q4_K", weight)
    kernels = Kernels(level, threads=2, grain=1)
    for shape in ((2, 3, 512), (3072,), (6, 2, 256), (1, 6, 1, 512)):
        form = Packed(weight.data, shape, weight.scheme)
        (out,) = kernels("dequantize", [form], [torch.empty(shape)], [torch.float32])
        assert same_bits(out, expected.view(shape))


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
@pytest.mark.parametrize("kind", SCHEMES)
def test_short_payloads_and_part_blocks_are_refused(level, kind):
    kernels = Kernels(level)
    columns = 2 * BLOCK[kind]
    weight = random_weight(kind, 4, columns)
    out = [torch.empty(4, columns)]
    needed = 8 * BLOCK_BYTES[kind]
    short = Packed(weight.data[:-1], (4, columns), weight.scheme)
    with pytest.raises(KernelError, match=f"needs {needed} bytes, its payload has {needed - 1}"):
        kernels("dequantize", [short], out, [torch.float32])
    part = Packed(weight.data, (4, columns - BLOCK[kind] // 2), weight.scheme)
    with pytest.raises(KernelError, match=f"multiple of {BLOCK[kind]} columns"):
        kernels("dequantize", [part], out, [torch.float32])
    packed = kernels.pack(weight, 2)
    packed.data = packed.data[:-1]
    with pytest.raises(KernelError, match="its payload has"):
        kernels("dequantize", [packed], out, [torch.float32])
    packed.layout = 3
    with pytest.raises(KernelError, match="layout 3, which this backend did not make"):
        kernels("dequantize", [packed], out, [torch.float32])
