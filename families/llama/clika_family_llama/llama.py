"""The llama decoder: grouped-query attention with rotary embedding, a gated MLP, RMS norms before
each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clika_runtime.modelverse.config import LIMITS, Fields, RopeScaling, read_stop_ids
from clika_runtime.modelverse.family import Family
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
class LlamaConfig:
    """Sizes and switches of a llama checkpoint, under the names that `config.json` uses.

    ``rope_interleaved`` says how a head's elements pair up: False in transformers' checkpoints,
    True in GGUF files, whose query and key rows are stored in another order."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling = field(default_factory=RopeScaling)
    rope_interleaved: bool = False
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    eos_token_ids: tuple[int, ...] = ()

    @classmethod
    def from_hf(cls, fields: Fields) -> LlamaConfig:
        """Read a `config.json`."""
        fields.choice("hidden_act", ("silu", "swish"), "silu")
        partial = fields.number("partial_rotary_factor", 1.0)
        if partial != 1.0:
            raise fields.unsupported("partial_rotary_factor", f"is {partial:g}; served is 1")
        hidden = fields.integer("hidden_size", high=LIMITS["hidden"])
        heads = fields.integer("num_attention_heads", high=LIMITS["heads"])
        kv_heads = fields.integer("num_key_value_heads", heads, high=LIMITS["heads"])
        vocab = fields.integer("vocab_size", high=LIMITS["vocab"])
        positions = fields.integer("max_position_embeddings", 2048, high=LIMITS["positions"])
        theta, scaling = RopeScaling.from_hf(fields, positions)
        return cls(
            hidden_size=hidden,
            intermediate_size=fields.integer("intermediate_size", high=LIMITS["intermediate"]),
            num_hidden_layers=fields.integer("num_hidden_layers", high=LIMITS["layers"]),
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=_head_dim(
                fields, "head_dim", "hidden_size", hidden, "num_attention_heads", heads
            ),
            vocab_size=vocab,
            max_position_embeddings=positions,
            rms_norm_eps=fields.number("rms_norm_eps", 1e-6, low=0.0, high=1.0),
            rope_theta=theta,
            rope_scaling=scaling,
            tie_word_embeddings=fields.boolean("tie_word_embeddings", False),
            attention_bias=fields.boolean("attention_bias", False),
            mlp_bias=fields.boolean("mlp_bias", False),
            eos_token_ids=read_stop_ids(fields, "eos_token_id", vocab),
        )._checked(fields, "num_attention_heads", "num_key_value_heads")

    @classmethod
    def from_gguf(cls, fields: Fields, shapes: Mapping[str, tuple[int, ...]]) -> LlamaConfig:
        """Read GGUF metadata (keys under ``llama.``); switches follow from the tensors that are
        there."""
        hidden = fields.integer("embedding_length", high=LIMITS["hidden"])
        heads = fields.integer("attention.head_count", high=LIMITS["heads"])
        kv_heads = fields.integer("attention.head_count_kv", heads, high=LIMITS["heads"])
        head_dim = _head_dim(
            fields,
            "attention.key_length",
            "embedding_length",
            hidden,
            "attention.head_count",
            heads,
        )
        value_dim = fields.integer("attention.value_length", head_dim, high=LIMITS["head_dim"])
        fields.agree("attention.value_length", value_dim, "the head size", head_dim)
        rotary_dim = fields.integer("rope.dimension_count", head_dim, high=LIMITS["head_dim"])
        if rotary_dim != head_dim:
            raise fields.unsupported(
                "rope.dimension_count", f"is {rotary_dim}; served is the whole head, {head_dim}"
            )
        experts = fields.integer("expert_count", 0, low=0)
        if experts:
            raise fields.unsupported("expert_count", f"is {experts}; served are dense models")
        rows = shapes.get("token_embd.weight", (0, 0))[0]
        vocab = fields.integer("vocab_size", rows or None, high=LIMITS["vocab"])
        if vocab is None:
            raise fields.fail("vocab_size", "is missing and there is no tensor 'token_embd.weight'")
        theta, scaling = RopeScaling.from_gguf(fields)
        return cls(
            hidden_size=hidden,
            intermediate_size=fields.integer("feed_forward_length", high=LIMITS["intermediate"]),
            num_hidden_layers=fields.integer("block_count", high=LIMITS["layers"]),
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dim,
            vocab_size=vocab,
            max_position_embeddings=fields.integer("context_length", high=LIMITS["positions"]),
            rms_norm_eps=fields.number("attention.layer_norm_rms_epsilon", 1e-6, low=0.0, high=1.0),
            rope_theta=theta,
            rope_scaling=scaling,
            rope_interleaved=True,
            tie_word_embeddings="output.weight" not in shapes,
            attention_bias="blk.0.attn_q.bias" in shapes,
            mlp_bias="blk.0.ffn_gate.bias" in shapes,
        )._checked(fields, "attention.head_count", "attention.head_count_kv")

    def _checked(self, fields: Fields, heads_key: str, kv_key: str) -> LlamaConfig:
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if heads % kv_heads:
            raise fields.fail(
                kv_key, f"is {kv_heads}, which does not divide {heads}, '{heads_key}'"
            )
        if self.head_dim % 2:
            raise fields.fail(
                heads_key, f"gives heads of {self.head_dim}; rotary needs an even size"
            )
        return self


def _head_dim(
    fields: Fields, key: str, hidden_key: str, hidden: int, heads_key: str, heads: int
) -> int:
    given = fields.integer(key, None, high=LIMITS["head_dim"])
    if given is not None:
        return int(given)
    if hidden % heads:
        raise fields.fail(
            hidden_key,
            f"is {hidden}, not a multiple of {heads}, '{heads_key}', and no '{key}' is given",
        )
    return hidden // heads


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

    def set_rope_factors(self, factors: Any) -> None:
        """Takes the divisors of the rotary frequencies that a GGUF file carries, one per pair."""
        self.model.rotary.set_factors(factors, "rope_freqs.weight")


# ---- weight names
GGUF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.{}.attn_norm": "model.layers.{}.input_layernorm",
    "blk.{}.attn_q": "model.layers.{}.self_attn.q_proj",
    "blk.{}.attn_k": "model.layers.{}.self_attn.k_proj",
    "blk.{}.attn_v": "model.layers.{}.self_attn.v_proj",
    "blk.{}.attn_output": "model.layers.{}.self_attn.o_proj",
    "blk.{}.ffn_norm": "model.layers.{}.post_attention_layernorm",
    "blk.{}.ffn_gate": "model.layers.{}.mlp.gate_proj",
    "blk.{}.ffn_up": "model.layers.{}.mlp.up_proj",
    "blk.{}.ffn_down": "model.layers.{}.mlp.down_proj",
}

FAMILY = Family(
    name="llama",
    config_from_hf=LlamaConfig.from_hf,
    config_from_gguf=LlamaConfig.from_gguf,
    build=LlamaForCausalLM,
    gguf_names=GGUF_NAMES,
    # Old exports carry the rotary table; it follows from the config.
    ignored=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"rotary_emb\.inv_freq"),
    extras={"rope_freqs.weight": "set_rope_factors"},
)
