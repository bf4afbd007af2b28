"""Tensors from nothing: functions over the factories and the allocator."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._shapes import dims, fail, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._native._core import Tensor
    from ..device import Device
    from ..dtypes import dtype


def empty(
    *shape: Any, dtype: dtype | None = None, device: Device | str | None = None, **more: Any
) -> Tensor:
    """A tensor of that shape whose elements are not set; float32 unless `dtype` says otherwise.

    Example: ``crt.empty(2, 3)``, ``crt.empty((2, 3), dtype=crt.int64)``.
    """
    from .._native._core import empty as unset

    return unset(one_shape("empty", shape, more), dtype, device)


def one_shape(op: str, shape: tuple[Any, ...], more: dict[str, Any]) -> Sequence[Any]:
    """A shape given as one sequence, as integers, or by the keyword size."""
    if set(more) - {"size", "shape"} or len(more) + bool(shape) > 1:
        unknown = sorted(more) if not shape else [*sorted(more), "positional sizes"]
        raise TypeError(f"{op}: expected one shape, got {', '.join(unknown)}")
    if more:
        (found,) = more.values()
    else:
        found = shape[0] if len(shape) == 1 else shape
    return found if hasattr(found, "__iter__") else (found,)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of that shape and with these strides, in elements, whose elements are not set.

    Example: ``crt.empty_strided((2, 3), (1, 2))``.
    """
    sizes = [index(value) for value in size]
    steps = [index(value) for value in stride]
    if len(sizes) != len(steps) or min(sizes, default=0) < 0 or min(steps, default=0) < 0:
        fail("empty_strided", f"size {text(sizes)} and stride {text(steps)} do not make a tensor")
    extent = 1 + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    storage = empty(0 if 0 in sizes else extent, dtype=dtype, device=device)
    return storage.as_strided(sizes, steps)


def scalar_tensor(
    value: Any, *, dtype: dtype | None = None, device: Device | str | None = None
) -> Tensor:
    """A 0-d tensor of a number; float32 unless `dtype` says otherwise.

    Example: ``crt.scalar_tensor(3)`` is ``tensor(3.)``.
    """
    return ops.full((), value, dtype=dtypes.float32 if dtype is None else dtype, device=device)


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: dtype | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of that shape whose dims lie in memory in the order `physical_layout`, the outermost
    first; its elements are not set.

    Example: ``crt.empty_permuted((2, 3, 4), (0, 2, 1)).stride()`` is ``(12, 1, 3)``.
    """
    size = [index(value) for value in size]
    order = dims("empty_permuted", tuple(physical_layout), len(size), name="physical_layout")
    if len(order) != len(physical_layout) or len(order) != len(size):
        fail(
            "empty_permuted",
            f"physical_layout {list(physical_layout)} must name each of {len(size)} dims once",
        )
    stored = empty([size[i] for i in order], dtype=dtype, device=device)
    return ops.permute(stored, [order.index(i) for i in range(len(order))])
