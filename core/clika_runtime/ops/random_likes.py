"""Random tensors with the shape, dtype and device of another: functions over the factories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops

if TYPE_CHECKING:
    from .._native._core import Tensor
    from ..device import Device
    from ..dtypes import dtype


def _options(input: Any, dtype: Any, device: Any, seed: Any, offset: int) -> dict[str, Any]:
    return {
        "dtype": input.dtype if dtype is None else dtype,
        "device": input.device if device is None else device,
        "seed": seed,
        "offset": offset,
    }


def rand_like(
    input: Tensor,
    *,
    seed: int | None = None,
    offset: int = 0,
    dtype: dtype | None = None,
    device: Device | str | None = None,
) -> Any:
    """`rand` with the shape, dtype and device of `input`.

    Example: ``crt.rand_like(x, seed=1)``.
    """
    return ops.rand(input.shape, **_options(input, dtype, device, seed, offset))


def randn_like(
    input: Tensor,
    *,
    seed: int | None = None,
    offset: int = 0,
    dtype: dtype | None = None,
    device: Device | str | None = None,
) -> Any:
    """`randn` with the shape, dtype and device of `input`.

    Example: ``crt.randn_like(x, seed=1)``.
    """
    return ops.randn(input.shape, **_options(input, dtype, device, seed, offset))


def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    seed: int | None = None,
    offset: int = 0,
    dtype: dtype | None = None,
    device: Device | str | None = None,
) -> Any:
    """`randint` with the shape, dtype and device of `input`: ``randint_like(input, [low,] high)``.

    Example: ``crt.randint_like(x, 10)``.
    """
    first, end = (0, low) if high is None else (low, high)
    return ops.randint(first, end, input.shape, **_options(input, dtype, device, seed, offset))
