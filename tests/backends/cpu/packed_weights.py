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


def outlying(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers with some large ones, as activations have: in a row of more than four blocks
    of 32 those blocks are refined by linear's fast mode, in some rows one, in others two."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    x = torch.randn(*shape, generator=generator)
    x[..., 7] *= 30.0
    x.reshape(-1, shape[-1])[1::3, shape[-1] // 2] *= 25.0
    return x.to(dtype)


def fast_bound(x: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """What linear's fast mode may be off by: an activation moves by half a step, amax / 127 of its
    32 columns, and 254 times less where amax is over twice its root mean square in the row. The
    sums of codes and the minimum are added apart, each of the size of the largest weight nearby:
    2^-18 stands for the float32 roundings of up to 24 parts."""
    peaks = x.double().reshape(x.shape[0], -1, 32).abs().amax(2)
    refined = peaks.square() > 4 * peaks.square().mean(1, keepdim=True)
    step = torch.where(refined, peaks / (127 * 254), peaks / 127)
    off = (step / 2).repeat_interleave(32, 1) @ dense.double().abs().T
    largest = dense.abs().view(dense.shape[0], -1, 32).amax(2).repeat_interleave(32, 1)
    floats = x.double().abs() @ (4 * largest.double()).T
    return off * 1.001 + floats * 2.0**-18 + 1e-30


def extreme_rows(columns: int) -> torch.Tensor:
    """Rows whose codes are at their ends, exact in the fast mode: in the first two a step is 1; in
    the others one block of more than four has values, with a step of 254 and second codes."""
    plain = torch.full((2, columns), 127.0)
    plain[1] = -127.0
    plain[:, ::32] = 127.0
    refined = torch.zeros(4, columns)
    for row, value in enumerate((127 * 254.0, -127 * 254.0, 126 * 254 + 126.0, -126 * 254 - 126.0)):
        refined[row, 32:64] = value
        refined[row, 32] = 127 * 254.0
    return torch.cat([plain, refined])
