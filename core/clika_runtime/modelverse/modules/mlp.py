"""The gated feed-forward part of a decoder block."""

from __future__ import annotations

from typing import Any

import clika_runtime as crt
from clika_runtime import nn

from .linear import Linear

__all__ = ["GatedMLP"]


class GatedMLP(nn.Module):
    """``down(f(gate(x)) * up(x))``; ``activation`` names f by its gated unit: "swiglu" (silu) or
    "geglu" (gelu in its tanh form)."""

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        bias: bool = False,
        dtype: Any = None,
        activation: str = "swiglu",
    ) -> None:
        super().__init__()
        self.activation = activation
        wide = (hidden_size, intermediate_size, bias, dtype, "col")
        self.gate_proj = Linear(*wide)
        self.up_proj = Linear(*wide)
        self.down_proj = Linear(intermediate_size, hidden_size, bias, dtype, shard="row")

    def forward(self, x: Any) -> Any:
        gate, up = self.gate_proj, self.up_proj
        if (
            gate.plain
            and up.plain
            and gate.mode == up.mode
            and gate.adapter is None
            and up.adapter is None
        ):
            activation = "geglu_tanh" if self.activation == "geglu" else "swiglu"
            weights = (gate.weight, up.weight, gate.bias, up.bias)
            return self.down_proj(crt.gated_linear(x, *weights, activation, mode=gate.mode))
        return self.down_proj(self.gated(gate(x), up(x)))

    def gated(self, gate: Any, up: Any) -> Any:
        """The gated unit of two projections of one shape."""
        if self.activation == "geglu":
            return crt.geglu(gate, up, approximate="tanh")
        return crt.swiglu(gate, up)
