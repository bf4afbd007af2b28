"""Splitting into views: functions over ``narrow``, not operators of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops
from ..errors import UnsupportedError
from ._shapes import dim as front
from ._shapes import fail

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_PARTS = 65536  # of a dim that has nothing to share


def _check_tensor(op: str, input: Any) -> None:
    from .._native._core import Tensor

    if not isinstance(input, Tensor):
        raise TypeError(
            f"{op}: input must be a tensor, got {type(input).__name__}; make one with "
            "clika_runtime.tensor()"
        )
    if len(input.shape) == 0:
        fail(op, "input has no dims; a 0-d tensor cannot be split")


def _whole(op: str, name: str, value: Any) -> Any:
    """An int, NumPy's too, or a symbolic size as it is."""
    from .._native._core import SymInt

    if isinstance(value, SymInt):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{op}: {name} must be int, got {value!r}")
    return value.__index__()


def _known_size(op: str, input: Any, dim: int) -> int:
    """The size of the dim to split evenly; one that is only known at a run is refused."""
    at = front(op, dim, len(input.shape))
    total = input.shape[at]
    if not isinstance(total, int):
        raise UnsupportedError(
            f"{op}: dim {at} has the symbolic size {total}, and the number of parts must be known; "
            "call split_with_sizes",
            "NOT_IMPLEMENTED_FOR_PARAM",
        )
    return total


def split_with_sizes(input: Any, sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Views of `input` along `dim` that have these sizes, in order; the sizes add up to the dim's.

    Example: ``q, k, v = ops.split_with_sizes(qkv, [576, 192, 192], -1)``.
    """
    _check_tensor("split_with_sizes", input)
    if not isinstance(sizes, (list, tuple)):
        raise TypeError(f"split_with_sizes: sizes must be a sequence of ints, got {sizes!r}")
    sizes = [_whole("split_with_sizes", "a size", size) for size in sizes]
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
    if isinstance(split_size_or_sections, (list, tuple)):
        return split_with_sizes(input, split_size_or_sections, dim)
    _check_tensor("split", input)
    size = _whole("split", "the split size", split_size_or_sections)
    total = _known_size("split", input, dim)
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
    _check_tensor("chunk", input)
    chunks = _whole("chunk", "chunks", chunks)
    if chunks < 1:
        fail("chunk", f"chunks {chunks} must be at least 1")
    total = _known_size("chunk", input, dim)
    if total == 0:
        if chunks > MOST_PARTS:
            fail("chunk", f"chunks {chunks} is over the limit of {MOST_PARTS}")
        return split_with_sizes(input, [0] * chunks, dim)
    return split(input, -(-total // chunks), dim)
