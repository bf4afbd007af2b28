"""Twins of shape and view operators, factories, and methods and attributes of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime import ops
from tests.oracles.opinfo import Twin


def unset(call: Callable[..., Any]) -> Twin:
    """The elements are not set; shape and dtype are compared."""
    return Twin(call, values=False)


TWINS: dict[str, Any] = {
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
