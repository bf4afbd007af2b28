"""Repacking of quantized weights: sizes, layouts, what is packed and what is refused."""

import pytest
import torch
from harness import KernelError, Kernels, Packed, usable_levels
from packed_weights import BLOCK_BYTES, SCHEMES, random_weight, values

import clika_runtime as crt

LEVELS = usable_levels()
GROUP = {"portable": 4, "avx2": 8, "avx512": 16}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (7, 64), (8, 96), (9, 576), (33, 160)])
def test_packed_form(level, kind, rows, columns):
    kernels = Kernels(level)
    weight = random_weight(kind, rows, columns)
    packed = kernels.pack(weight, 2)
    group = GROUP[level]
    assert packed.layout == group
    groups = -(-rows // group)
    assert packed.data.numel() == groups * group * columns // 32 * BLOCK_BYTES[kind]
    # Word j of row r of a group lies at 4 * (j * group + r) of its block column.
    block = BLOCK_BYTES[kind]
    codes = 16 if kind != "Q8_0" else 32
    published = weight.data.view(rows, columns // 32, block)
    columns_of = packed.data.view(groups, columns // 32, group * block)
    words = columns_of[:, :, : group * codes].reshape(groups, columns // 32, codes // 4, group, 4)
    words = words.permute(0, 3, 1, 2, 4).reshape(groups * group, columns // 32, codes)
    assert torch.equal(words[:rows], published[:, :, block - codes :])
    halves = columns_of[:, :, group * codes :]
    halves = halves.reshape(groups, columns // 32, (block - codes) // 2, group, 2)
    halves = halves.permute(0, 3, 1, 2, 4).reshape(groups * group, columns // 32, block - codes)
    assert torch.equal(halves[:rows], published[:, :, : block - codes])
    assert not words[rows:].any()
    assert not halves[rows:].any()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_any_split_packs_the_same(level, kind):
    weight = random_weight(kind, 41, 96)
    one = Kernels(level).pack(weight, 1)
    two = Kernels(level, threads=2, grain=3).pack(weight, 1)
    assert torch.equal(one.data, two.data)


@pytest.mark.parametrize("level", LEVELS)
def test_tables_and_dense_weights_stay_as_published(level):
    kernels = Kernels(level)
    assert kernels.pack(random_weight("Q4_1", 8, 64), 3) is None
    for mode in (0, 1, 2, 3):
        assert kernels.pack(torch.zeros(8, 64), mode) is None


@pytest.mark.parametrize("level", LEVELS)
def test_columns_that_are_no_blocks_are_refused(level):
    weight = random_weight("Q8_0", 4, 64)
    with pytest.raises(KernelError) as caught:
        Kernels(level).pack(Packed(weight.data, (4, 60), weight.scheme), 2)
    assert caught.value.status == 3


def test_pack_weight_through_the_core():
    weight = random_weight("Q4_1", 9, 64)
    tensor = crt.Tensor.from_buffer(
        weight.data.numpy(), weight.shape, crt.float32, scheme=weight.scheme, mapped=False
    )
    packed = crt.pack_weight(tensor, "both")
    expected = values("Q4_1", weight).numpy()
    assert tuple(packed.shape) == weight.shape
    assert (crt.dequantize(packed).numpy() == expected).all()
    assert crt.pack_weight(tensor, "table") is tensor
