"""The otter decoder: one norm per block, after which attention and feed-forward run side by side,
``h + attention(norm(h)) + mlp(norm(h))``; the feed-forward is ``down(relu(up(x))^2)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import clika_runtime as crt
from clika_runtime import nn
from clika_runtime.modelverse.config import LIMITS, Fields, read_stop_ids
from clika_runtime.modelverse.family import Family
from clika_runtime.modelverse.modules import Attention, CausalLM, DecoderModel, Linear, Rotary

__all__ = ["FAMILY", "OtterConfig", "OtterForCausalLM"]


# ---- config
@dataclass(frozen=True)
class OtterConfig:
    """Sizes of an otter checkpoint, under the names that `config.json` uses."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int
    max_position_embeddings: int
    rope_theta: float
    rms_norm_eps: float
    eos_token_ids: tuple[int, ...]

    @classmethod
    def from_hf(cls, fields: Fields) -> OtterConfig:
        hidden = fields.integer("hidden_size", high=LIMITS["hidden"])
        heads = fields.integer("num_attention_heads", high=LIMITS["heads"])
        if hidden % (2 * heads):
            raise fields.fail("hidden_size", f"is {hidden}, no even multiple of {heads} heads")
        vocab = fields.integer("vocab_size", high=LIMITS["vocab"])
        return cls(
            hidden_size=hidden,
            intermediate_size=fields.integer("intermediate_size", high=LIMITS["intermediate"]),
            num_hidden_layers=fields.integer("num_hidden_layers", high=LIMITS["layers"]),
            num_attention_heads=heads,
            vocab_size=vocab,
            max_position_embeddings=fields.integer(
                "max_position_embeddings", high=LIMITS["positions"]
            ),
            rope_theta=fields.number("rope_theta", 10000.0, low=1.0, high=1e12),
            rms_norm_eps=fields.number("rms_norm_eps", 1e-6, low=0.0, high=1.0),
            eos_token_ids=read_stop_ids(fields, "eos_token_id", vocab),
        )


# ---- mlp
class OtterMLP(nn.Module):
    """``down(relu(up(x))^2)``."""

    def __init__(self, config: OtterConfig, dtype: Any) -> None:
        super().__init__()
        wide = config.intermediate_size
        self.up_proj = Linear(config.hidden_size, wide, dtype=dtype, shard="col")
        self.down_proj = Linear(wide, config.hidden_size, dtype=dtype, shard="row")

    def forward(self, x: Any) -> Any:
        return self.down_proj(crt.square(crt.relu(self.up_proj(x))))


# ---- block
class OtterBlock(nn.Module):
    """Attention and feed-forward read the same normed stream."""

    def __init__(self, config: OtterConfig, layer: int, rotary: Rotary, dtype: Any) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps, dtype)
        self.self_attn = Attention(
            layer=layer,
            hidden_size=config.hidden_size,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_attention_heads,
            head_dim=rotary.head_dim,
            rotary=rotary,
            dtype=dtype,
        )
        self.mlp = OtterMLP(config, dtype)

    def forward(self, x: Any, h: Any, positions: Any, step: Any, next_norm: Any) -> tuple[Any, Any]:
        h, x = next_norm.add(self.self_attn(x, positions, step) + self.mlp(x), h)
        return x, h


# ---- backbone and head
class OtterForCausalLM(CausalLM):
    """The decoder stack; the head is the token table."""

    def __init__(self, config: OtterConfig, dtype: Any = None) -> None:
        rotary = Rotary(config.hidden_size // config.num_attention_heads, config.rope_theta)
        model = DecoderModel(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            num_layers=config.num_hidden_layers,
            block=lambda layer: OtterBlock(config, layer, rotary, dtype),
            eps=config.rms_norm_eps,
            dtype=dtype,
        )
        super().__init__(model, config.hidden_size, config.vocab_size, tied=True, dtype=dtype)
        self.config = config


FAMILY = Family(name="otter", config_from_hf=OtterConfig.from_hf, build=OtterForCausalLM)
