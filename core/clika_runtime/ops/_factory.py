"""Parts that tensor factories share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._promotion import DEFAULT_FLOAT
from ._shapes import fail, text
from .record import Meta, static

if TYPE_CHECKING:
    from .record import Arg

SHAPE = static("shape", "ints", aliases=("size",), variadic=True)


def place() -> list[Arg]:
    """The keywords that every factory takes: dtype and device."""
    return [
        static("dtype", "dtype", None, keyword_only=True),
        static("device", "device", None, keyword_only=True),
    ]


def sized(op: str, shape: tuple[Any, ...], dtype: Any, device: Any) -> Meta:
    if any(type(size) is int and size < 0 for size in shape):
        fail(op, f"shape {text(shape)} has a negative size")
    return Meta(tuple(shape), DEFAULT_FLOAT if dtype is None else dtype, device)
