"""The linear layer of models: dense or packed by what is bound to it."""

from __future__ import annotations

from typing import Any

from clika_runtime import nn

__all__ = ["Linear"]


class Linear(nn.Linear):
    """An ``nn.Linear`` that says how it is split over several devices.

    ``shard`` is "col" (outputs are split: each device has some rows of the weight), "row" (inputs
    are split: the partial results are summed) or None. It has no effect on one device."""

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

    def extra_repr(self) -> str:
        shard = f", shard='{self.shard}'" if self.shard else ""
        return super().extra_repr() + shard
