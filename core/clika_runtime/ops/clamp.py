"""The operator ``clamp``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import ALL, NUMBERS
from ._rules import common
from ._shapes import broadcast, fail
from .record import ELEMENTWISE, Meta, op, tensor


def _promote(input: Meta, min: Meta | None, max: Meta | None) -> Any:
    return common("clamp", NUMBERS, input, min, max)


def _infer(input: Meta, min: Meta | None, max: Meta | None) -> Meta:
    if min is None and max is None:
        fail("clamp", "at least one of min and max must be given")
    shapes = [meta.shape for meta in (input, min, max) if meta is not None]
    return Meta(broadcast("clamp", *shapes), _promote(input, min, max))


def _compose(input: Any, min: Any, max: Any) -> Any:
    if min is not None:
        input = ops.maximum(input, min)
    return input if max is None else ops.minimum(input, max)


op(
    "clamp",
    doc="""
    min(max(x, min), max), element by element; NaN stays NaN.

    Either bound may be absent, a number or a tensor that broadcasts. Where min is above max the
    result is max.
    """,
    args=[
        tensor("input", ALL),
        tensor("min", ALL, optional=True, number=True),
        tensor("max", ALL, optional=True, number=True),
    ],
    infer=_infer,
    promote=_promote,
    traits={ELEMENTWISE},
    compose=_compose,
)
