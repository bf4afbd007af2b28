"""The llama decoder: grouped-query attention with rotary embedding, a gated MLP, RMS norms before
each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clika_runtime.modelverse.config import Fields
from clika_runtime.modelverse.decoder_config import DecoderConfig, Shapes, interleaved_rows
from clika_runtime.modelverse.family import GGUF_DECODER_NAMES, GGUF_ROPE_TENSORS, Family
from clika_runtime.modelverse.modules import (
    Attention,
    CausalLM,
    DecoderLayer,
    DecoderModel,
    GatedMLP,
    Rotary,
)

__all__ = ["FAMILY", "LlamaConfig", "LlamaForCausalLM"]


# ---- config
@dataclass(frozen=True)
class LlamaConfig(DecoderConfig):
    """Sizes and switches of a llama checkpoint."""

    attention_bias: bool = False
    mlp_bias: bool = False

    @classmethod
    def from_hf(cls, fields: Fields) -> LlamaConfig:
        """Read a `config.json`."""
        fields.choice("hidden_act", ("silu", "swish"), "silu")
        return cls.read_hf(
            fields,
            attention_bias=fields.boolean("attention_bias", False),
            mlp_bias=fields.boolean("mlp_bias", False),
        )

    @classmethod
    def from_gguf(cls, fields: Fields, shapes: Shapes) -> LlamaConfig:
        """Read GGUF metadata (keys under ``llama.``); switches follow from the tensors that are
        there. The files store query and key rows for neighbouring rotary pairs."""
        return cls.read_gguf(
            fields,
            shapes,
            rope_interleaved=True,
            attention_bias="blk.0.attn_q.bias" in shapes,
            mlp_bias="blk.0.ffn_gate.bias" in shapes,
        )


# ---- attention
class LlamaAttention(Attention):
    """Grouped-query attention; all four projections share the bias switch."""

    def __init__(self, config: LlamaConfig, layer: int, rotary: Rotary, dtype: Any) -> None:
        super().__init__(
            layer=layer,
            hidden_size=config.hidden_size,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            rotary=rotary,
            bias=config.attention_bias,
            dtype=dtype,
        )


# ---- mlp
class LlamaMLP(GatedMLP):
    """``down(silu(gate(x)) * up(x))``."""

    def __init__(self, config: LlamaConfig, dtype: Any) -> None:
        super().__init__(config.hidden_size, config.intermediate_size, config.mlp_bias, dtype)


# ---- block
class LlamaDecoderLayer(DecoderLayer):
    """Attention and MLP, each after a norm and added to the residual."""

    def __init__(self, config: LlamaConfig, layer: int, rotary: Rotary, dtype: Any) -> None:
        attention = LlamaAttention(config, layer, rotary, dtype)
        mlp = LlamaMLP(config, dtype)
        super().__init__(attention, mlp, config.hidden_size, config.rms_norm_eps, dtype)


# ---- backbone
class LlamaModel(DecoderModel):
    """Token table, blocks, final norm. One rotary table serves every layer."""

    def __init__(self, config: LlamaConfig, dtype: Any) -> None:
        self.rotary = Rotary(
            config.head_dim, config.rope_theta, config.rope_scaling, config.rope_interleaved
        )
        super().__init__(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            num_layers=config.num_hidden_layers,
            block=lambda layer: LlamaDecoderLayer(config, layer, self.rotary, dtype),
            eps=config.rms_norm_eps,
            dtype=dtype,
        )


# ---- head
class LlamaForCausalLM(CausalLM):
    """The backbone with a head over the vocabulary, tied to the token table or its own."""

    def __init__(self, config: LlamaConfig, dtype: Any = None) -> None:
        super().__init__(
            LlamaModel(config, dtype),
            config.hidden_size,
            config.vocab_size,
            config.tie_word_embeddings,
            dtype,
        )
        self.config = config


# ---- weight names
FAMILY = Family(
    name="llama",
    config_from_hf=LlamaConfig.from_hf,
    config_from_gguf=LlamaConfig.from_gguf,
    build=LlamaForCausalLM,
    gguf_names=GGUF_DECODER_NAMES,
    # Old exports carry the rotary table; it follows from the config.
    ignored=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"rotary_emb\.inv_freq"),
    extras=GGUF_ROPE_TENSORS,
    gguf_row_order=interleaved_rows,
)
