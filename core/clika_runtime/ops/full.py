"""The operator ``full``."""

from __future__ import annotations

from typing import Any

from ._factory import place, sized
from ._promotion import ALL
from ._shapes import fail, text
from .record import FACTORY, Arg, Meta, op, tensor


def _promote(shape: Any, fill_value: Meta, dtype: Any, device: Any) -> Any:
    return fill_value.dtype if dtype is None else dtype


def _infer(shape: tuple[Any, ...], fill_value: Meta, dtype: Any, device: Any) -> Meta:
    if fill_value.shape:
        fail("full", f"fill_value must be a number or 0-d, got shape {text(fill_value.shape)}")
    return sized("full", shape, _promote(shape, fill_value, dtype, device), device)


# The shape is one argument here: further positional numbers would be the value.
_SHAPE = Arg("shape", "static", "ints", aliases=("size",))

op(
    "full",
    doc="""
    A tensor of that shape whose every element is fill_value.

    Without `dtype`: float32 for a float, int64 for an int, bool for a bool. The value is a 0-d
    operand, so that one plan serves all values.
    """,
    args=[_SHAPE, tensor("fill_value", ALL, number=True, aliases=("value",)), *place()],
    infer=_infer,
    promote=_promote,
    traits={FACTORY},
    method=False,
)
