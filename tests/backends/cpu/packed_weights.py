"""Random quantized weights for the tests of the packed kernels; the ``gguf`` package decodes
them."""

from __future__ import annotations

import gguf
import numpy as np
import torch
from harness import Kernels, Packed

SCHEMES = {"Q4_0": 3, "Q4_1": 4, "Q8_0": 9}
BLOCK_BYTES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}


def random_weight(kind: str, rows: int, columns: int, seed: int = 0) -> Packed:
    """Blocks with every code (a Q8_0 code of -128 too) and scales of both signs."""
    rng = np.random.default_rng([seed, rows, columns, SCHEMES[kind]])
    n = rows * columns // 32
    blocks = rng.integers(0, 256, (n, BLOCK_BYTES[kind]), dtype=np.uint8)
    scales = rng.normal(0, 0.0005 if kind == "Q8_0" else 0.006, (n, 1)).astype(np.float16)
    blocks[:, :2] = scales.view(np.uint8)
    if kind == "Q4_1":
        minima = rng.normal(0, 0.05, (n, 1)).astype(np.float16)
        blocks[:, 2:4] = minima.view(np.uint8)
    return Packed(torch.from_numpy(blocks.reshape(-1)), (rows, columns), SCHEMES[kind])


def values(kind: str, weight: Packed) -> torch.Tensor:
    """The float32 numbers of a published weight."""
    rows, columns = weight.shape
    if rows == 0:
        return torch.empty(0, columns)
    blocks = weight.data.numpy().reshape(rows, columns // 32 * BLOCK_BYTES[kind])
    dense = gguf.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    return torch.from_numpy(dense.reshape(rows, columns).copy())


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
