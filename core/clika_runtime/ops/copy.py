"""The operator ``copy``."""

from __future__ import annotations

from ._rules import like
from .record import ELEMENTWISE, op, tensor

op(
    "copy",
    doc="A compact copy of x: the same values in memory of its own, in row-major order.",
    args=[tensor("input")],
    infer=like,
    traits={ELEMENTWISE},
    method=False,
)
