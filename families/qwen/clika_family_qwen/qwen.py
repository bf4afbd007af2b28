"""The qwen decoders: Qwen2 and Qwen2.5 have biases on queries, keys and values; Qwen3 has norms
over each head of queries and keys instead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from clika_runtime import nn
from clika_runtime.modelverse.config import LIMITS, Fields
from clika_runtime.modelverse.decoder_config import DecoderConfig, Shapes, read_layer_types
from clika_runtime.modelverse.family import (
    GGUF_DECODER_NAMES,
    GGUF_ROPE_TENSORS,
    Family,
    checkpoint_kind,
)
from clika_runtime.modelverse.modules import (
    Attention,
    CausalLM,
    DecoderLayer,
    DecoderModel,
    GatedMLP,
    Rotary,
)

__all__ = ["FAMILY", "QwenConfig", "QwenForCausalLM"]

KINDS = {
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
}
POSITIONS = 32768  # where a checkpoint states no window
QWEN3_HEAD_DIM = 128


# ---- config
@dataclass(frozen=True)
class QwenConfig(DecoderConfig):
    """Sizes and switches of a qwen checkpoint. ``windows`` has the sliding window of each layer, 0
    where a layer sees everything."""

    qkv_bias: bool = True
    output_bias: bool = False
    head_norms: bool = False
    windows: tuple[int, ...] = ()

    @classmethod
    def from_hf(cls, fields: Fields) -> QwenConfig:
        """Read a `config.json` of Qwen2 or Qwen3."""
        fields.choice("hidden_act", ("silu", "swish"), "silu")
        third = checkpoint_kind(fields, KINDS) == "qwen3"
        bias = third and fields.boolean("attention_bias", False)
        config = cls.read_hf(
            fields,
            positions=POSITIONS,
            head_dim=QWEN3_HEAD_DIM if third else None,
            qkv_bias=bias or not third,
            output_bias=bias,
            head_norms=third,
        )
        return replace(config, windows=_windows(fields, config.num_hidden_layers))

    @classmethod
    def from_gguf(cls, fields: Fields, shapes: Shapes) -> QwenConfig:
        """Read GGUF metadata (keys under ``qwen2.`` or ``qwen3.``); biases follow from the tensors
        that are there."""
        config = cls.read_gguf(
            fields,
            shapes,
            qkv_bias="blk.0.attn_q.bias" in shapes,
            output_bias="blk.0.attn_output.bias" in shapes,
            head_norms=fields.prefix == "qwen3.",
        )
        window = fields.integer("attention.sliding_window", 0, low=0)
        if 0 < window < config.max_position_embeddings:
            raise fields.unsupported(
                "attention.sliding_window",
                f"is {window}; GGUF files of this architecture do not say for which layers",
            )
        return replace(config, windows=(0,) * config.num_hidden_layers)


def _windows(fields: Fields, layers: int) -> tuple[int, ...]:
    """The last layers slide, from `max_window_layers` on, unless `layer_types` names them."""
    window = 0
    if fields.boolean("use_sliding_window", False):
        window = fields.integer("sliding_window", high=LIMITS["positions"])
    first = fields.integer("max_window_layers", 28, low=0)
    sliding = read_layer_types(fields, layers)
    if sliding is None:
        return tuple(window if layer >= first else 0 for layer in range(layers))
    if any(sliding) and not window:
        raise fields.fail("layer_types", "has sliding layers, 'use_sliding_window' is off")
    return tuple(window if slides else 0 for slides in sliding)


# ---- attention
class QwenAttention(Attention):
    """Grouped-query attention with biases (Qwen2) or norms per head (Qwen3)."""

    def __init__(self, config: QwenConfig, layer: int, rotary: Rotary, dtype: Any) -> None:
        super().__init__(
            layer=layer,
            hidden_size=config.hidden_size,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            rotary=rotary,
            bias=config.qkv_bias,
            output_bias=config.output_bias,
            window=config.windows[layer],
            head_norm=(
                (lambda: nn.RMSNorm(config.head_dim, config.rms_norm_eps, dtype))
                if config.head_norms
                else None
            ),
            dtype=dtype,
        )


# ---- mlp
class QwenMLP(GatedMLP):
    """``down(silu(gate(x)) * up(x))``."""

    def __init__(self, config: QwenConfig, dtype: Any) -> None:
        super().__init__(config.hidden_size, config.intermediate_size, dtype=dtype)


# ---- block
class QwenDecoderLayer(DecoderLayer):
    """Attention and MLP, each after a norm and added to the residual."""

    def __init__(self, config: QwenConfig, layer: int, rotary: Rotary, dtype: Any) -> None:
        attention = QwenAttention(config, layer, rotary, dtype)
        mlp = QwenMLP(config, dtype)
        super().__init__(attention, mlp, config.hidden_size, config.rms_norm_eps, dtype)


# ---- backbone
class QwenModel(DecoderModel):
    """Token table, blocks, final norm. One rotary table serves every layer."""

    def __init__(self, config: QwenConfig, dtype: Any) -> None:
        self.rotary = Rotary(config.head_dim, config.rope_theta, config.rope_scaling)
        super().__init__(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            num_layers=config.num_hidden_layers,
            block=lambda layer: QwenDecoderLayer(config, layer, self.rotary, dtype),
            eps=config.rms_norm_eps,
            dtype=dtype,
        )


# ---- head
class QwenForCausalLM(CausalLM):
    """The backbone with a head over the vocabulary, tied to the token table or its own."""

    def __init__(self, config: QwenConfig, dtype: Any = None) -> None:
        super().__init__(
            QwenModel(config, dtype),
            config.hidden_size,
            config.vocab_size,
            config.tie_word_embeddings,
            dtype,
        )
        self.config = config


# ---- weight names
FAMILY = Family(
    name="qwen",
    config_from_hf=QwenConfig.from_hf,
    config_from_gguf=QwenConfig.from_gguf,
    build=QwenForCausalLM,
    gguf_names=GGUF_DECODER_NAMES,
    extras=GGUF_ROPE_TENSORS,
)
