"""Arithmetic of three operands, with broadcasting and PyTorch's type promotion."""

from __future__ import annotations

from typing import Any

from ._promotion import ALL, BOOL, FLOATS, NUMBERS
from ._rules import common, numbers_wide
from ._shapes import broadcast, fail
from .record import ELEMENTWISE, Meta, op, scalar, tensor


def _declare(
    name: str,
    doc: str,
    allowed: frozenset[str],
    second: str,
    third: str,
    *,
    value: bool = False,
    number: bool = False,
) -> None:
    """``name(input, second, third)`` in the common dtype of all three."""

    def promote(input: Meta, other: Meta, last: Meta, *_: Any) -> Any:
        return numbers_wide(common(name, allowed, input, other, last), input, other, last)

    def infer(input: Meta, other: Meta, last: Meta, *_: Any) -> Meta:
        shape = broadcast(name, input.shape, other.shape, last.shape)
        return Meta(shape, common(name, allowed, input, other, last))

    op(
        name,
        doc=doc,
        args=[
            tensor("input", ALL),
            tensor(second, ALL),
            tensor(third, ALL, number=number),
            *([scalar("value", "number", 1, keyword_only=True)] if value else []),
        ],
        infer=infer,
        promote=promote,
        traits={ELEMENTWISE},
    )


_declare(
    "lerp",
    "input + weight * (end - input); weight 1 gives `end` exactly.",
    FLOATS,
    "end",
    "weight",
    number=True,
)
_declare(
    "addcmul",
    "input + value * tensor1 * tensor2; over integers `value` must be an integer.",
    NUMBERS,
    "tensor1",
    "tensor2",
    value=True,
)
_declare(
    "addcdiv",
    "input + value * tensor1 / tensor2, of floating-point numbers.",
    FLOATS,
    "tensor1",
    "tensor2",
    value=True,
)


def _masked_fill(input: Meta, mask: Meta, value: Meta) -> Meta:
    if value.ndim:
        fail("masked_fill", f"value must be a number or a 0-d tensor, got rank {value.ndim}")
    return Meta(broadcast("masked_fill", input.shape, mask.shape), input.dtype)


op(
    "masked_fill",
    doc="""
    value where mask is true, else input; mask and input broadcast.

    The result has input's dtype; value is a number or a 0-d tensor and is converted to it.
    """,
    args=[tensor("input", ALL), tensor("mask", BOOL), tensor("value", ALL, number=True)],
    infer=_masked_fill,
    promote=lambda input, mask, value: (None, None, input.dtype),
    traits={ELEMENTWISE},
)
