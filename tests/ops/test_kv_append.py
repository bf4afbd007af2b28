"""Cases and oracle of ``kv_append``."""

from __future__ import annotations

from typing import Any

import gguf
import numpy as np
import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, pool: Any, value: Any, slots: Any) -> Any:
    flat = pool.clone().view(-1, *pool.shape[2:])
    if pool.dtype == torch.uint8:
        flat[slots.long()] = q8_0(torch, value)
    elif pool.dtype == torch.float8_e4m3fn:
        rows = value.float().clamp(-448, 448).to(pool.dtype)
        flat.view(torch.uint8)[slots.long()] = rows.view(torch.uint8)
    else:
        flat[slots.long()] = value.to(pool.dtype)
    return flat.view(pool.shape)


def q8_0(torch: Any, value: Any) -> Any:
    """The bytes that the ``gguf`` package makes of rows; of a block that it makes no number of
    they are those of NaN, and a scale that float16 does not hold is its largest."""
    x = value.float().numpy()
    blocks = x.reshape(-1, 32)
    finite = np.isfinite(blocks).all(-1)
    held = np.where(finite[:, None], blocks, 0)
    large = np.abs(held).max(-1) > 127 * 65504
    packed = gguf.quants.quantize(
        np.where(large[:, None], 0, held).astype(np.float32), gguf.GGMLQuantizationType.Q8_0
    ).copy()
    packed[~finite] = 0
    packed[~finite, :2] = np.array([0x00, 0x7E])
    packed[large, :2] = np.array([65504], np.float16).view(np.uint8)
    codes = np.clip(np.round(held[large] / 65504), -127, 127).astype(np.int8)
    packed[large, 2:] = codes.view(np.uint8)
    return torch.from_numpy(packed.reshape(*x.shape[:-1], -1))


@pytest.mark.parametrize("case", cases("kv_append"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("kv_append"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("kv_append"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
