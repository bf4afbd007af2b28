"""Logic over truth values: what is not zero is true, NaN too. Operands enter kernels as bool."""

from __future__ import annotations

from .. import dtypes, ops
from ._promotion import ALL
from ._rules import as_bool, binary
from .record import ELEMENTWISE, Meta, op, tensor

op(
    "logical_not",
    doc="True where x is zero.",
    args=[tensor("input", ALL)],
    infer=lambda input: Meta(input.shape, dtypes.bool),
    promote=lambda input: dtypes.bool,
    traits={ELEMENTWISE},
    compose=lambda input: ops.eq(ops.cast(input, dtypes.bool), False),
)
binary(
    "logical_and",
    "True where both operands are not zero.",
    compute=as_bool,
    commutative=True,
    compose=lambda input, other: ops.mul(
        ops.cast(input, dtypes.bool), ops.cast(other, dtypes.bool)
    ),
)
binary(
    "logical_or",
    "True where an operand is not zero.",
    compute=as_bool,
    commutative=True,
    compose=lambda input, other: ops.add(
        ops.cast(input, dtypes.bool), ops.cast(other, dtypes.bool)
    ),
)
binary(
    "logical_xor",
    "True where exactly one operand is not zero.",
    compute=as_bool,
    commutative=True,
    compose=lambda input, other: ops.ne(ops.cast(input, dtypes.bool), ops.cast(other, dtypes.bool)),
)
