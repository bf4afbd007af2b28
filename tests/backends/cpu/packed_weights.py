"""Random quantized weights for the tests of the packed kernels; the ``gguf`` package decodes
them."""

from __future__ import annotations

import numpy as np
import torch
from harness import Kernels, Packed

from clika_runtime.testing import _numpy as kit

#: Every scheme: name -> number.
SCHEMES = {name: kit.scheme_number(name) for name in kit.SCHEMES}
#: The columns of a block.
BLOCK = {name: kit.block_size(name)[0] for name in SCHEMES}
BLOCK_BYTES = {name: kit.block_size(name)[1] for name in SCHEMES}


def random_weight(kind: str, rows: int, columns: int, seed: int = 0) -> Packed:
    """Blocks with every code (a Q8_0 code of -128 too) and scales of both signs."""
    rng = np.random.default_rng([seed, rows, columns, SCHEMES[kind]])
    blocks = kit.random_blocks(rng, kind, rows, columns)
    return Packed(torch.from_numpy(blocks.reshape(-1)), (rows, columns), SCHEMES[kind])


def values(kind: str, weight: Packed) -> torch.Tensor:
    """The float32 numbers of a published weight."""
    rows, columns = weight.shape
    if rows == 0:
        return torch.empty(0, columns)
    blocks = weight.data.numpy().reshape(rows, columns // BLOCK[kind] * BLOCK_BYTES[kind])
    return torch.from_numpy(kit.decode_blocks(blocks, kind).reshape(rows, columns).copy())


def both_layouts(kernels: Kernels, weight: Packed) -> list[Packed]:
    """The weight as published and as the backend packs it."""
    packed = kernels.pack(weight, 2)
    assert packed is not None
    return [weight, packed]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same shape, dtype and bytes."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
