"""The pre-norm decoder stack, with each residual add fused into the norm that follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import clika_runtime as crt
from clika_runtime import nn

from ..cache import StateSpec

__all__ = ["DecoderLayer", "DecoderModel"]


class DecoderLayer(nn.Module):
    """Attention and feed-forward with a norm before each: the parts of one block, named as in
    checkpoints. ``offset`` is that of the norms' weights."""

    def __init__(
        self,
        attention: Any,
        mlp: Any,
        hidden_size: int,
        eps: float,
        dtype: Any = None,
        offset: float = 0.0,
    ) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = mlp
        self.input_layernorm = nn.RMSNorm(hidden_size, eps, dtype, offset)
        self.post_attention_layernorm = nn.RMSNorm(hidden_size, eps, dtype, offset)

    #: Whether ``forward`` takes ``rows``; a block that does not may leave it out.
    takes_rows = True

    def forward(
        self, x: Any, h: Any, positions: Any, step: Any, next_norm: Any, rows: Any = None
    ) -> tuple[Any, Any]:
        """``x`` is the normed stream, ``h`` the residual; returns both for the next block. Behind
        the last block only some rows are wanted: with ``rows`` the rest is left out behind the
        keys and values."""
        attended = self.self_attn(x, positions, step, rows)
        if rows is not None:
            h = crt.index_select(h, 0, rows)
        h, x = self.post_attention_layernorm.add(attended, h)
        h, x = next_norm.add(self.mlp(x), h)
        return x, h


class DecoderModel(nn.Module):
    """Embedding, blocks, final norm: tokens to hidden states over packed sequences.

    ``forward(tokens, positions, step, rows)``: tokens ``[T]`` int32 (or embeddings ``[T,
    hidden]``), positions ``[T]`` int32, the cache step, and the rows wanted (``[R]`` int32, None:
    all) -> ``[R, hidden]``."""

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        num_layers: int,
        block: Callable[[int], nn.Module],
        eps: float,
        dtype: Any = None,
        offset: float = 0.0,
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size, dtype)
        self.layers = nn.ModuleList(block(index) for index in range(num_layers))
        self.norm = nn.RMSNorm(hidden_size, eps, dtype, offset)

    def cache_specs(self) -> list[StateSpec]:
        """What each layer keeps, in the order of the layers."""
        return [layer.self_attn.cache_spec() for layer in list[Any](self.layers)]

    def embed(self, tokens: Any) -> Any:
        """Rows of the token table: ``[T]`` -> ``[T, hidden]``."""
        return self.embed_tokens(tokens)

    def forward(self, tokens: Any, positions: Any, step: Any, rows: Any = None) -> Any:
        h = self.embed(tokens) if len(tokens.shape) == 1 else tokens
        layers = list[Any](self.layers)
        following = [layer.input_layernorm for layer in layers[1:]] + [self.norm]
        x = layers[0].input_layernorm(h)
        for layer, next_norm in zip(layers[:-1], following, strict=False):
            x, h = layer(x, h, positions, step, next_norm)
        if (
            rows is not None
            and step.row_bounds is not None
            and getattr(layers[-1], "takes_rows", False)
        ):
            return layers[-1](x, h, positions, step, self.norm, rows)[0]
        x, h = layers[-1](x, h, positions, step, self.norm)
        return x if rows is None else crt.index_select(x, 0, rows)
