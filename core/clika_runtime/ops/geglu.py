"""The operator ``geglu``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._rules import gated
from .record import static


def _compose(gate: Any, up: Any, approximate: Any) -> Any:
    return ops.mul(ops.gelu(gate, approximate), up)


gated(
    "geglu",
    "gelu(gate, approximate) * up, element by element.",
    _compose,
    extra=[static("approximate", "str", "none", modes=("none", "tanh"))],
)
