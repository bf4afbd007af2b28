"""Joining linears over one input into one product."""

from __future__ import annotations

from typing import Any

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError

from . import functional as F
from .layers import Linear
from .module import Module

__all__ = ["FusedLinear", "fuse_linears"]


class FusedLinear(Linear):
    """A group of linears whose outputs stand side by side; made by ``fuse_linears``.

    The group lists no parameters: the parts keep their names, and where the weights were joined
    each part's weight is a view of its rows."""

    parts: tuple[Linear, ...]

    def __init__(self, parts: tuple[Linear, ...], name: str, activation: str | None) -> None:
        Module.__init__(self)
        self.name = name
        self.in_features = parts[0].in_features
        self.out_features = sum(part.out_features for part in parts)
        self.mode = parts[0].mode
        self.activation = activation
        # Kept out of the tree on purpose: the parts are registered where they belong.
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "weight", None)
        object.__setattr__(self, "bias", None)
        if self._joinable():
            self._join()

    def _joinable(self) -> bool:
        first = self.parts[0]
        return all(
            part.in_features == first.in_features
            and not part.weight.scheme
            and part.weight.dtype == first.weight.dtype
            and (part.bias is None) == (first.bias is None)
            for part in self.parts
        )

    def _join(self) -> None:
        weight = crt.cat([part.weight for part in self.parts], 0)
        bias = None
        if self.parts[0].bias is not None:
            bias = crt.cat([part.bias for part in self.parts], 0)
        start = 0
        for part in self.parts:
            stop = start + part.out_features
            part.weight = weight[start:stop]
            if bias is not None:
                part.bias = bias[start:stop]
            start = stop
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", bias)

    def forward(self, x: Any) -> Any:
        if self.weight is not None:
            y = crt.linear(x, self.weight, self.bias, mode=self.mode)
        else:
            outs = [crt.linear(x, p.weight, p.bias, mode=p.mode) for p in self.parts]
            y = crt.cat(outs, -1)
        return y if self.activation is None else F.activate(y, self.activation)


def fuse_linears(*parts: Linear, name: str = "fused", activation: str | None = None) -> FusedLinear:
    """Joins linears over one input into one ``nn.Linear`` whose output is the parts' outputs side
    by side.

    Fuse once the weights are bound and before the first forward. The parts keep their state-dict
    names. Parts that share one pointwise activation hand it to the group; parts that differ are
    refused. A gated ``activation`` ("swiglu", "geglu", "reglu") halves the width and needs parts
    without a bias. Where the weights cannot stand in one matrix (packed, unequal dtypes) the parts
    are served side by side: the result is the same.

        self.gate_up = nn.fuse_linears(self.gate_proj, self.up_proj, activation="swiglu")
    """
    if not parts:
        raise InvalidArgumentError("fuse_linears: give at least one linear")
    widths = [part.in_features for part in parts]
    if len(set(widths)) > 1:
        raise InvalidArgumentError(
            f"fuse_linears '{name}': the parts take inputs of widths {widths}"
        )
    own = {part.activation for part in parts}
    if len(own) > 1:
        raise InvalidArgumentError(
            f"fuse_linears '{name}': the parts apply different activations {sorted(map(str, own))}"
        )
    shared = own.pop()
    activation = F.check_activation("fuse_linears", activation)
    if shared is not None and activation is not None:
        raise InvalidArgumentError(
            f"fuse_linears '{name}': the parts already apply '{shared}', the group asks for "
            f"'{activation}'"
        )
    if shared in F.GATED:
        raise InvalidArgumentError(
            f"fuse_linears '{name}': a part's own gated '{shared}' cannot be joined"
        )
    activation = activation or shared
    if activation in F.GATED and any(part.bias is not None for part in parts):
        raise InvalidArgumentError(
            f"fuse_linears '{name}': the gated activation '{activation}' needs parts without a bias"
        )
    return FusedLinear(tuple(parts), name, activation)
