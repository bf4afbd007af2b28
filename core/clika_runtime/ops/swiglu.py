"""The operator ``swiglu``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._rules import gated


def _compose(gate: Any, up: Any) -> Any:
    return ops.mul(ops.silu(gate), up)


gated("swiglu", "silu(gate) * up, element by element.", _compose)
