"""embedding on every level: rows of dense and quantized tables, published and packed."""

import pytest
import torch
from harness import KernelError, Kernels, usable_levels
from packed_weights import BLOCK, SCHEMES, both_layouts, random_weight, same_bits, values

LEVELS = usable_levels()
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("ids_dtype", [torch.int32, torch.int64])
def test_quantized_rows(level, kind, ids_dtype):
    columns = 3 * BLOCK[kind]
    weight = random_weight(kind, 37, columns)
    ids = torch.tensor([[0, 36, 7], [8, 8, 15]], dtype=ids_dtype)
    expected = values(kind, weight)[ids.long()]
    for threads in (1, 2):
        kernels = Kernels(level, threads=threads, grain=1)
        for form in both_layouts(kernels, weight):
            for dtype in FLOATS:
                out = torch.empty(2, 3, columns, dtype=dtype)
                kernels("embedding", [form, ids], [out], [dtype])
                assert same_bits(out, expected.to(dtype))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
def test_dense_rows(level, source, target):
    table = torch.randn(11, 37, generator=torch.Generator().manual_seed(2)).to(source)
    ids = torch.tensor([10, 0, 3, 3])
    out = torch.empty(4, 37, dtype=target)
    Kernels(level)("embedding", [table, ids], [out], [target])
    assert same_bits(out, table[ids].to(target))


@pytest.mark.parametrize("level", LEVELS)
def test_no_ids_and_a_single_id(level):
    weight = random_weight("Q8_0", 5, 32)
    kernels = Kernels(level)
    kernels("embedding", [weight, torch.empty(0, dtype=torch.int32)], [torch.empty(0, 32)], [None])
    out = torch.empty(32)
    kernels("embedding", [weight, torch.tensor(4)], [out], [None])
    assert same_bits(out, values("Q8_0", weight)[4])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bad", [-1, 5, 2**40])
def test_ids_outside_the_table_are_refused(level, bad):
    weight = random_weight("Q4_1", 5, 32)
    with pytest.raises(KernelError, match=rf"id {bad} at position 1 .* rows 0 \.\. 4") as caught:
        Kernels(level)("embedding", [weight, torch.tensor([0, bad])], [torch.empty(2, 32)], [None])
    assert caught.value.status == 1
