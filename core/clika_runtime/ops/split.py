"""Splitting into views: functions over ``narrow``, not operators of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops
from ._shapes import dim as front
from ._shapes import fail

if TYPE_CHECKING:
    from collections.abc import Sequence


def split_with_sizes(input: Any, sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Views of `input` along `dim` that have these sizes, in order; the sizes add up to the dim's.

    Example: ``q, k, v = ops.split_with_sizes(qkv, [576, 192, 192], -1)``.
    """
    if len(input.shape) == 0:
        fail("split_with_sizes", "input has no dims; a 0-d tensor cannot be split")
    at = front("split_with_sizes", dim, len(input.shape))
    total = input.shape[at]
    if isinstance(total, int) and (sum(sizes) != total or min(sizes, default=0) < 0):
        fail(
            "split_with_sizes",
            f"sizes {list(sizes)} add up to {sum(sizes)}, and dim {at} has size {total}",
        )
    views = []
    start = 0
    for size in sizes:
        views.append(ops.narrow(input, at, start, size))
        start += size
    return tuple(views)


def split(input: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Views of `input` along `dim`: of that size each (the last may be smaller), or of those sizes.

    Example: ``first, second = ops.split(x, 4, dim=-1)`` for ``x`` of shape ``[2, 8]``.
    """
    if not isinstance(split_size_or_sections, int):
        return split_with_sizes(input, split_size_or_sections, dim)
    size = split_size_or_sections
    if len(input.shape) == 0:
        fail("split", "input has no dims; a 0-d tensor cannot be split")
    total = input.shape[front("split", dim, len(input.shape))]
    if size < 0 or (size == 0 and total != 0):
        fail("split", f"split size {size} must be above 0")
    if total == 0:
        return split_with_sizes(input, [0], dim)
    sizes = [size] * (total // size)
    if total % size:
        sizes.append(total % size)
    return split_with_sizes(input, sizes, dim)


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` views of `input` along `dim`, of equal size but for the last.

    Example: ``gate, up = ops.chunk(x, 2, dim=-1)``.
    """
    if chunks < 1:
        fail("chunk", f"chunks {chunks} must be at least 1")
    if len(input.shape) == 0:
        fail("chunk", "input has no dims; a 0-d tensor cannot be split")
    total = input.shape[front("chunk", dim, len(input.shape))]
    if total == 0:
        return split_with_sizes(input, [0] * chunks, dim)
    return split(input, -(-total // chunks), dim)
