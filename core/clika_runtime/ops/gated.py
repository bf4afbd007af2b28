"""Gated activations of feed-forward layers: a function of the gate times the other half."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._rules import gated
from .record import scalar, static


def _swiglu(gate: Any, up: Any) -> Any:
    return ops.mul(ops.silu(gate), up)


def _geglu(gate: Any, up: Any, approximate: Any) -> Any:
    return ops.mul(ops.gelu(gate, approximate), up)


def _reglu(gate: Any, up: Any) -> Any:
    return ops.mul(ops.relu(gate), up)


def _capped(x: Any, beta: float) -> Any:
    return ops.mul(ops.tanh(ops.div(x, beta)), beta)


def _situ(gate: Any, up: Any, beta: float, linear_beta: float) -> Any:
    return ops.mul(ops.mul(_capped(gate, beta), ops.sigmoid(gate)), _capped(up, linear_beta))


gated("swiglu", "silu(gate) * up, element by element.", _swiglu)
gated(
    "geglu",
    "gelu(gate, approximate) * up, element by element.",
    _geglu,
    extra=[static("approximate", "str", "none", modes=("none", "tanh"))],
)
gated("reglu", "relu(gate) * up, element by element.", _reglu)
gated(
    "situ",
    "cap(gate, beta) * sigmoid(gate) * cap(up, linear_beta) with cap(x, b) = b tanh(x / b).",
    _situ,
    extra=[scalar("beta", "float", 4.0), scalar("linear_beta", "float", 25.0)],
    source="Kimi K3, arXiv:2607.24653, section 2.3.2",
)
