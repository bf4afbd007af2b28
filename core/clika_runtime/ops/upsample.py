"""Further forms of ``interpolate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._native._core import Tensor


def upsample_nearest(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` with mode "nearest"."""
    return ops.interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` with mode "bilinear" and aligned corners."""
    return ops.interpolate(input, size, scale_factor, "bilinear", True)
