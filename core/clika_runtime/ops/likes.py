"""Tensors with the shape, dtype and device of another: functions over the factories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops
from ._functions import of_tensors
from .factories import empty, empty_strided, one_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._native._core import Tensor
    from ..device import Device
    from ..dtypes import dtype


@of_tensors
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor with the shape, dtype and device of `input`, whose every element is `fill_value`.

    Example: ``crt.full_like(x, 0.5)``.
    """
    return new_full(input, input.shape, fill_value, dtype=dtype, device=device)


@of_tensors
def zeros_like(
    input: Tensor, *, dtype: dtype | None = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of zeros with the shape, dtype and device of `input`.

    Example: ``crt.zeros_like(x)``.
    """
    return new_zeros(input, input.shape, dtype=dtype, device=device)


@of_tensors
def ones_like(
    input: Tensor, *, dtype: dtype | None = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of ones with the shape, dtype and device of `input`.

    Example: ``crt.ones_like(x, dtype=crt.int64)``.
    """
    return new_ones(input, input.shape, dtype=dtype, device=device)


@of_tensors
def empty_like(
    input: Tensor, *, dtype: dtype | None = None, device: Device | str | None = None
) -> Tensor:
    """A tensor with the shape, dtype and device of `input`, whose elements are not set.

    Example: ``crt.empty_like(x)``.
    """
    return new_empty(input, input.shape, dtype=dtype, device=device)


@of_tensors
def new_full(
    input: Tensor,
    shape: Any,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """`full` in the dtype and on the device of `input`, unless others are named.

    Example: ``x.new_full((2, 3), 1.5)``.
    """
    return ops.full(
        shape,
        fill_value,
        dtype=input.dtype if dtype is None else dtype,
        device=input.device if device is None else device,
    )


@of_tensors
def new_zeros(
    input: Tensor,
    *shape: Any,
    dtype: dtype | None = None,
    device: Device | str | None = None,
    **more: Any,
) -> Tensor:
    """`zeros` in the dtype and on the device of `input`, unless others are named.

    Example: ``x.new_zeros(2, 3)``.
    """
    return new_full(input, one_shape("new_zeros", shape, more), 0, dtype=dtype, device=device)


@of_tensors
def new_ones(
    input: Tensor,
    *shape: Any,
    dtype: dtype | None = None,
    device: Device | str | None = None,
    **more: Any,
) -> Tensor:
    """`ones` in the dtype and on the device of `input`, unless others are named.

    Example: ``x.new_ones(2, 3)``.
    """
    return new_full(input, one_shape("new_ones", shape, more), 1, dtype=dtype, device=device)


@of_tensors
def new_empty(
    input: Tensor,
    *shape: Any,
    dtype: dtype | None = None,
    device: Device | str | None = None,
    **more: Any,
) -> Tensor:
    """`empty` in the dtype and on the device of `input`, unless others are named.

    Example: ``x.new_empty(2, 3)``.
    """
    return empty(
        *shape,
        dtype=input.dtype if dtype is None else dtype,
        device=input.device if device is None else device,
        **more,
    )


@of_tensors
def new_empty_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """`empty_strided` in the dtype and on the device of `input`, unless others are named.

    Example: ``x.new_empty_strided((2, 3), (1, 2))``.
    """
    return empty_strided(
        size,
        stride,
        dtype=input.dtype if dtype is None else dtype,
        device=input.device if device is None else device,
    )
