"""The operator ``log_softmax``."""

from __future__ import annotations

from typing import Any

from .. import ops
from .softmax import declare


def _compose(input: Any, dim: int, dtype: Any) -> Any:
    value = input if dtype is None else ops.cast(input, dtype)
    shifted = ops.sub(value, ops.amax(value, dim, True))
    return ops.sub(shifted, ops.log(ops.sum(ops.exp(shifted), dim, True)))


declare(
    "log_softmax",
    """
    x - max(x) - ln(sum(e^(x - max(x)))) along `dim`: the logarithm of softmax.

    Computed in float32 for the 16-bit dtypes. `dtype` is the dtype that input is converted to
    first.
    """,
    _compose,
)
