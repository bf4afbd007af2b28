"""Logic over truth values: what is not zero is true, NaN too. Operands enter kernels as bool."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._promotion import ALL
from ._rules import as_bool, binary
from .record import ELEMENTWISE, Meta, op, tensor


def _truth(value: Any) -> Any:
    return bool(value) if isinstance(value, (int, float)) else ops.cast(value, dtypes.bool)


op(
    "logical_not",
    doc="True where x is zero.",
    args=[tensor("input", ALL)],
    infer=lambda input: Meta(input.shape, dtypes.bool),
    traits={ELEMENTWISE},
    compose=lambda input: ops.eq(ops.cast(input, dtypes.bool), False),
)
binary(
    "logical_and",
    "True where both operands are not zero.",
    compute=as_bool,
    commutative=True,
    compose=lambda input, other: ops.mul(_truth(input), _truth(other)),
)
binary(
    "logical_or",
    "True where an operand is not zero.",
    compute=as_bool,
    commutative=True,
    compose=lambda input, other: ops.add(_truth(input), _truth(other)),
)
binary(
    "logical_xor",
    "True where exactly one operand is not zero.",
    compute=as_bool,
    commutative=True,
    compose=lambda input, other: ops.ne(_truth(input), _truth(other)),
)
