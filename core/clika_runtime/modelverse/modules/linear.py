"""The linear layer of models: dense or packed by what is bound to it."""

from __future__ import annotations

from typing import Any

import clika_runtime as crt
from clika_runtime import nn

__all__ = ["Linear"]


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
        y = super().forward(x)
        if self.adapter is None:
            return y
        down, up = self.adapter
        return y + crt.linear(crt.linear(x, down), up)

    def extra_repr(self) -> str:
        shard = f", shard='{self.shard}'" if self.shard else ""
        return super().extra_repr() + shard
