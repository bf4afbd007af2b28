"""Grouped-query attention over the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import clika_runtime as crt
from clika_runtime import nn

from ..cache import KV
from .linear import Linear, linears
from .rope import Rotary

__all__ = ["Attention"]


class Attention(nn.Module):
    """Projections, rotary embedding, attention through the cache step, output projection.

    ``num_kv_heads`` key/value heads serve ``num_heads`` query heads in equal groups. ``window``
    limits how far back a token sees (0: no limit). ``head_norm`` makes the norms ``q_norm`` and
    ``k_norm`` over each head of queries and keys, before they are turned. Where keys and values lie
    is the cache's business: the layer only calls ``step.attend``."""

    def __init__(
        self,
        *,
        layer: int,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        rotary: Rotary | None,
        bias: bool = False,
        output_bias: bool | None = None,
        scale: float | None = None,
        window: int = 0,
        softcap: float = 0.0,
        head_norm: Callable[[], nn.Module] | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.layer = layer
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.scale = head_dim**-0.5 if scale is None else scale
        self.window = window
        self.softcap = softcap
        self.rotary = rotary
        output_bias = bias if output_bias is None else output_bias
        queries, keys = num_heads * head_dim, num_kv_heads * head_dim
        self.q_proj = Linear(hidden_size, queries, bias, dtype, shard="col")
        self.k_proj = Linear(hidden_size, keys, bias, dtype, shard="col")
        self.v_proj = Linear(hidden_size, keys, bias, dtype, shard="col")
        self.o_proj = Linear(queries, hidden_size, output_bias, dtype, shard="row")
        self.q_norm = None if head_norm is None else head_norm()
        self.k_norm = None if head_norm is None else head_norm()

    def cache_spec(self) -> KV:
        """What the layer keeps per token."""
        return KV(self.num_kv_heads, self.head_dim, self.head_dim, self.window)

    def forward(self, x: Any, positions: Any, step: Any, rows: Any = None) -> Any:
        """``rows`` ``[R]``, the last tokens of their sequences, are the rows wanted: keys and
        values are those of all tokens, the result is ``[R, hidden]``."""
        tokens = x.shape[0]
        asking, places = x, positions
        if rows is not None:
            asking, places = crt.index_select(x, 0, rows), crt.index_select(positions, 0, rows)
        if rows is None:
            q, k, v = linears(x, self.q_proj, self.k_proj, self.v_proj)
        else:
            q, (k, v) = self.q_proj(asking), linears(x, self.k_proj, self.v_proj)
        q = q.reshape((asking.shape[0], self.num_heads, self.head_dim))
        k = k.reshape((tokens, self.num_kv_heads, self.head_dim))
        v = v.reshape((tokens, self.num_kv_heads, self.head_dim))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        rotary = self.rotary
        if rotary is not None and rows is not None:
            q = rotary(q, places, step.max_tokens)
            k = rotary(k, positions, step.max_tokens)
            rotary = None
        out = step.attend(
            self.layer,
            q,
            k,
            v,
            scale=self.scale,
            window=self.window,
            softcap=self.softcap,
            last=rows is not None,
            rotary=rotary,
            positions=positions,
        )  # [tokens or R, heads, head_dim]
        return self.o_proj(out.reshape((out.shape[0], self.num_heads * self.head_dim)))
