"""Rows of a cache's pool: in a float dtype, in float8, or in bytes that are blocks of Q8_0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._promotion import FLOATS
from ._shapes import fail, text

if TYPE_CHECKING:
    from .record import Meta

#: Dtypes of a pool; `uint8` stands for the bytes of Q8_0 blocks.
POOLS = FLOATS | {"float8_e4m3", "uint8"}
Q8_0_COLUMNS = 32
Q8_0_BYTES = 34  # of a block: a float16 scale, then a code of int8 for each column


def head_size(op: str, name: str, pool: Meta) -> Any:
    """Elements of a row of the pool; refuses bytes that are no whole blocks."""
    width = pool.shape[3]
    if pool.dtype.name != "uint8":
        return width
    if type(width) is not int or width % Q8_0_BYTES:
        fail(
            op,
            f"{name} {text(pool.shape)} of uint8 holds rows of Q8_0 blocks: its last dim must be a "
            f"multiple of {Q8_0_BYTES} bytes, for {Q8_0_COLUMNS} elements each",
        )
    return width // Q8_0_BYTES * Q8_0_COLUMNS
