"""Cases and oracle of ``rotary``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(
    torch: Any, input: Any, positions: Any, inv_freq: Any, interleaved: bool, scale: float
) -> Any:
    # Multiplication of complex numbers: the pairs are (real, imaginary) parts.
    turns = positions.float()
    angles = turns[:, None] * inv_freq if turns.ndim == 1 else turns.T @ inv_freq
    half = inv_freq.shape[-1]
    x, rest = input[..., : 2 * half].float(), input[..., 2 * half :]
    pairs = x.unflatten(-1, (half, 2)) if interleaved else x.unflatten(-1, (2, half)).mT
    turned = torch.complex(pairs[..., 0], pairs[..., 1]) * torch.polar(
        torch.full_like(angles, scale), angles
    ).unsqueeze(1)
    parts = torch.view_as_real(turned)
    flat = parts.flatten(-2) if interleaved else parts.mT.flatten(-2)
    return torch.cat([flat.to(input.dtype), rest], -1)


@pytest.mark.parametrize("case", cases("rotary"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("rotary"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("rotary"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
