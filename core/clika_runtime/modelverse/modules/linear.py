"""The linear layer of models: dense or packed by what is bound to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import clika_runtime as crt
from clika_runtime import nn

__all__ = ["Linear", "linears"]


class Linear(nn.Linear):
    """An ``nn.Linear`` that says how it is split over several devices.

    ``shard`` is "col" (outputs are split: each device has some rows of the weight), "row" (inputs
    are split: the partial results are summed) or None. It has no effect on one device.

    ``adapter``, a pair A ``[rank, in_features]``, B ``[out_features, rank]`` in the dtype of
    activations, adds ``B (A x)`` to the product (`adapters`); None adds nothing."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        dtype: Any = None,
        shard: str | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias=bias, dtype=dtype)
        self.shard = shard
        self.adapter: tuple[Any, Any] | None = None

    def forward(self, x: Any) -> Any:
        return self.adapted(x, super().forward(x))

    @property
    def plain(self) -> bool:
        """Whether the layer is a product with its weight, and nothing but an adapter beside it."""
        plain = self.input_order is None and self.activation is None
        return plain and type(self).forward is Linear.forward

    def adapted(self, x: Any, y: Any) -> Any:
        """``y``, the product with the weight, and what the adapter adds to it."""
        if self.adapter is None:
            return y
        down, up = self.adapter
        return y + crt.linear(crt.linear(x, down), up)

    def extra_repr(self) -> str:
        shard = f", shard='{self.shard}'" if self.shard else ""
        return super().extra_repr() + shard


def linears(x: Any, *layers: Linear) -> Sequence[Any]:
    """What each layer makes of ``x``, as one operator where they are of one kind: their input is
    read once, and their rows are shared among the threads at once."""
    biases = [layer.bias for layer in layers]
    some = [bias is not None for bias in biases]
    alike = len({layer.mode for layer in layers}) == 1 and all(some) == any(some)
    if not alike or not all(layer.plain for layer in layers):
        return [layer(x) for layer in layers]
    weights = [layer.weight for layer in layers]
    products = crt.linears(x, weights, biases if all(some) else None, mode=layers[0].mode)
    return [layer.adapted(x, y) for layer, y in zip(layers, products, strict=True)]
