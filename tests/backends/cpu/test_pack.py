"""Repacking of quantized weights: sizes, layouts, what is packed and what is refused."""

import pytest
import torch
from harness import KernelError, Kernels, Packed, usable_levels
from packed_weights import BLOCK, BLOCK_BYTES, SCHEMES, random_weight, values

import clika_runtime as crt

LEVELS = usable_levels()
GROUP = {"portable": 4, "avx2": 8, "avx512": 16, "dotprod": 4, "i8mm": 4}


#: Packed order of a published block: (offset, bytes of a unit, units).
RUNS = {
    "Q4_0": [(2, 4, 4), (0, 2, 1)],
    "Q4_1": [(4, 4, 4), (0, 2, 2)],
    "Q8_0": [(2, 4, 8), (0, 2, 1)],
    "Q4_K": [(16, 4, 32), (4, 4, 3), (0, 2, 2)],
    "MXFP4": [(1, 4, 4), (0, 1, 1)],
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (7, 2), (8, 3), (9, 18), (33, 5)])
def test_packed_form(level, kind, rows, blocks):
    """Unit j of row r of a group lies at size * (j * group + r) of its run."""
    kernels = Kernels(level)
    weight = random_weight(kind, rows, blocks * BLOCK[kind])
    packed = kernels.pack(weight, 2)
    group = GROUP[level]
    assert packed.layout == group
    groups = -(-rows // group)
    nbytes = BLOCK_BYTES[kind]
    assert packed.data.numel() == groups * group * blocks * nbytes
    published = torch.zeros(groups * group, blocks, nbytes, dtype=torch.uint8)  # rows past N
    published[:rows] = weight.data.view(rows, blocks, nbytes)
    published = published.view(groups, group, blocks, nbytes).permute(0, 2, 1, 3)
    expected = []
    for offset, size, count in RUNS[kind]:
        run = published[..., offset : offset + size * count]
        run = run.reshape(groups, blocks, group, count, size).transpose(2, 3)
        expected.append(run.reshape(groups, blocks, -1))
    assert torch.equal(packed.data, torch.cat(expected, 2).reshape(-1))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_any_split_packs_the_same(level, kind):
    weight = random_weight(kind, 41, 3 * BLOCK[kind])
    one = Kernels(level).pack(weight, 1)
    two = Kernels(level, threads=2, grain=3).pack(weight, 1)
    assert torch.equal(one.data, two.data)


@pytest.mark.parametrize("level", LEVELS)
def test_tables_stay_as_published(level):
    kernels = Kernels(level)
    assert kernels.pack(random_weight("Q4_1", 8, 64), 3) is None
    assert kernels.pack(torch.zeros(64, 64), 3) is None


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_columns_that_are_no_blocks_are_refused(level, kind):
    columns = 2 * BLOCK[kind]
    weight = random_weight(kind, 4, columns)
    with pytest.raises(KernelError) as caught:
        Kernels(level).pack(Packed(weight.data, (4, columns - 4), weight.scheme), 2)
    assert caught.value.status == 3


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_unpacked_is_as_published(level, kind):
    """To the byte, for whole groups and part ones, whatever level packed the weight."""
    for rows, blocks in ((1, 1), (7, 2), (16, 3), (33, 5), (0, 2)):
        weight = random_weight(kind, rows, blocks * BLOCK[kind])
        for other in LEVELS:
            packed = Kernels(other).pack(weight, 2)
            for kernels in (Kernels(level), Kernels(level, threads=2, grain=3)):
                found = kernels.unpack(packed)
                assert torch.equal(found.data, weight.data), (rows, blocks, other)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_not_packed_here_is_not_unpacked(level):
    kernels = Kernels(level)
    weight = random_weight("Q4_1", 9, 64)
    packed = kernels.pack(weight, 2)
    with pytest.raises(KernelError, match="as published"):
        kernels.unpack(weight)
    with pytest.raises(KernelError, match="layout 5, which this backend did not make"):
        kernels.unpack(Packed(packed.data, packed.shape, packed.scheme, 5))
    with pytest.raises(KernelError, match="the output needs 360 bytes, it has 359"):
        kernels.unpack(packed, short=1)
    with pytest.raises(KernelError, match="its payload has"):
        kernels.unpack(Packed(packed.data[:-1], packed.shape, packed.scheme, packed.layout))


@pytest.mark.parametrize("level", LEVELS)
def test_rows_without_columns_take_no_time(level):
    empty = Packed(torch.empty(0, dtype=torch.uint8), (2**50, 0), SCHEMES["Q4_K"])
    packed = Kernels(level).pack(empty, 2)
    assert packed.data.numel() == 0
    assert Kernels(level).unpack(packed).data.numel() == 0


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
    assert (crt.pack_mode(packed), crt.pack_mode(tensor)) == ("both", None)
    back = crt.unpack_weight(packed)
    assert (back.layout, back.bytes()) == (0, weight.data.numpy().tobytes())
    assert crt.unpack_weight(tensor) is tensor
