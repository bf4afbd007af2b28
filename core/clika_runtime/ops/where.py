"""The operator ``where``."""

from __future__ import annotations

from typing import Any

from ._promotion import ALL, BOOL
from ._rules import common
from ._shapes import broadcast
from .record import ELEMENTWISE, Meta, op, tensor


def _promote(condition: Meta, input: Meta, other: Meta) -> tuple[Any, Any, Any]:
    if input.weak and other.weak:  # the condition makes it a tensor expression
        input = Meta((), input.dtype)
    dtype = common("where", ALL, input, other)
    return None, dtype, dtype


def _infer(condition: Meta, input: Meta, other: Meta) -> Meta:
    shape = broadcast("where", condition.shape, input.shape, other.shape)
    return Meta(shape, _promote(condition, input, other)[1])


op(
    "where",
    doc="input where condition is true, else other; all three broadcast.",
    args=[
        tensor("condition", BOOL),
        tensor("input", ALL, number=True),
        tensor("other", ALL, number=True),
    ],
    infer=_infer,
    promote=_promote,
    traits={ELEMENTWISE},
    method=False,
)
