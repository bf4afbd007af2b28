"""The forms in which a cache holds a row, the key or the value of one token and head.

| form | bytes of a row of D elements | what it holds |
| --- | --- | --- |
| `float32`, `bfloat16`, `float16` | 4 D, 2 D, 2 D | the nearest numbers of the dtype |
| `q8_0` | D / 32 * 34 | GGUF's Q8_0: blocks of 32 codes of int8 with a float16 scale |
| `fp8` | D | float8 e4m3 with a scale of 1: numbers beyond +-448 saturate |

A row is converted when it is appended, by its own numbers alone, and read exactly as what it then
stands for: the new tokens of a step attend to the same rows as those that come later.

    row_format("q8_0").nbytes(64)  # 68
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.ops._pools import Q8_0_BYTES, Q8_0_COLUMNS

from .knobs import CACHE_DTYPES

__all__ = ["RowFormat", "row_format"]


@dataclass(frozen=True)
class RowFormat:
    """A form of rows: its name and the dtype of pools that hold it."""

    name: str
    dtype: Any

    def width(self, size: int) -> int:
        """The last dim of a pool for rows of ``size`` elements; refuses a size that the form cannot
        hold."""
        if self.name != "q8_0":
            return size
        if size % Q8_0_COLUMNS:
            raise UnsupportedError(
                f"kv_dtype q8_0 holds rows in blocks of {Q8_0_COLUMNS} elements, and the model "
                f"has heads of {size}; choose fp8 or bfloat16",
                "NOT_IMPLEMENTED_FOR_PARAM",
            )
        return size // Q8_0_COLUMNS * Q8_0_BYTES

    def is_finite(self, rows: Any) -> bool:
        """Whether all that rows of this form stand for are numbers, none of them infinite."""
        if self.name != "q8_0":
            return bool(crt.isfinite(rows.to(crt.float32)).all().item())
        # The upper byte of a scale: sign, exponent, which is all ones where it is no number.
        upper = rows.unflatten(-1, (-1, Q8_0_BYTES))[..., 1]
        return not bool(((upper & 0x7C) == 0x7C).any().item())

    def nbytes(self, size: int) -> int:
        """Bytes of a row of ``size`` elements."""
        return int(self.dtype.nbytes(self.width(size)))


def row_format(given: Any) -> RowFormat:
    """The form of that name or dtype; refuses one that is none, with those that are."""
    name = str(getattr(given, "name", given))
    if name == "q8_0":
        return RowFormat(name, crt.uint8)
    if name in ("fp8", "float8_e4m3"):
        return RowFormat("fp8", crt.float8_e4m3)
    dtype = given if isinstance(given, crt.dtypes.dtype) else _named(name)
    if dtype is None or dtype.name not in CACHE_DTYPES:
        raise UnsupportedError(
            f"kv_dtype {name:.80} is not served; choose one of {', '.join(CACHE_DTYPES)}",
            "NOT_IMPLEMENTED_FOR_DTYPE",
        )
    return RowFormat(dtype.name, dtype)


def _named(name: str) -> Any:
    try:
        return crt.dtypes.by_name(name)
    except InvalidArgumentError:
        return None
