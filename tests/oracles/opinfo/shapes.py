"""Twins of shape and view operators, factories, and methods and attributes of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime import ops
from tests.oracles.opinfo import Twin


def unset(call: Callable[..., Any]) -> Twin:
    """The elements are not set; shape and dtype are compared."""
    return Twin(call, values=False)


def to(x: Any, *args: Any, **options: Any) -> Any:
    """torch's positions of ``to``: device, dtype or a tensor, then non_blocking and copy."""
    switches = [value for value in args if isinstance(value, bool)]
    targets = [value for value in args if not isinstance(value, bool)]
    return x.to(*targets, copy=len(switches) > 1 and switches[1], **options)


TWINS: dict[str, Any] = {
    "__getitem__": lambda x, index: x[index],
    "H": lambda x: x.H,
    "T": lambda x: x.T,
    "item": lambda x: x.item(),
    "mH": lambda x: x.mH,
    "mT": lambda x: x.mT,
    "to": to,
    "zero_": lambda x: x.zero_(),
    "empty": unset(ops.empty),
    "empty_like": unset(ops.empty_like),
    "empty_permuted": unset(ops.empty_permuted),
    "empty_strided": unset(ops.empty_strided),
    "new_empty": unset(ops.new_empty),
    "new_empty_strided": unset(ops.new_empty_strided),
    "linalg.diagonal": lambda A, offset=0, dim1=-2, dim2=-1: ops.diagonal(A, offset, dim1, dim2),
    # torch takes the step in bfloat16, whose error grows to half the range times 2^-9.
    "linspace": Twin(ops.linspace, close={"bfloat16": (1.6e-2, 0.25)}),
    "logspace": Twin(ops.logspace, close={"bfloat16": (0.2, 1e-5)}),
}
