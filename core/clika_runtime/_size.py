"""The shape type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

__all__ = ["Size"]


class Size(tuple[Any, ...]):
    """A shape: a tuple of sizes that prints as one. Slices and sums of sizes are sizes.

    >>> Size([2, 5]), Size([2, 5]).numel(), Size([2, 5])[:1] + (3,)
    (clika_runtime.Size([2, 5]), 10, clika_runtime.Size([2, 3]))
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        return super().__new__(cls, sizes)

    def numel(self) -> Any:
        """The number of elements of a tensor of this shape; 1 for the empty shape."""
        count: Any = 1
        for size in self:
            count = count * size
        return count

    def __repr__(self) -> str:
        return f"clika_runtime.Size([{', '.join(map(repr, self))}])"

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        value = super().__getitem__(index)
        return Size(value) if isinstance(index, slice) else value

    def __add__(self, other: Any) -> Any:
        value = super().__add__(other)
        return value if value is NotImplemented else Size(value)

    def __radd__(self, other: Any) -> Any:
        return Size(tuple(other) + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> Size:
        return Size(super().__mul__(count))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)
