"""The gemma decoders: a scaled token table, norms whose weights are stored minus one, a gelu-gated
MLP. Gemma 2 norms what each half of a block gives as well and bounds its scores; Gemma 3 norms
queries and keys, and its sliding layers have a rotary base of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import clika_runtime as crt
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
from clika_runtime.modelverse.rope_scaling import RopeScaling

__all__ = ["FAMILY", "GemmaConfig", "GemmaForCausalLM"]

KINDS = {
    "GemmaForCausalLM": "gemma",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3",
    "Gemma3ForConditionalGeneration": "multimodal",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "gemma3": "multimodal",
}
# Values that hold where a checkpoint states none.
HEAD_DIM = 256
POSITIONS = {"gemma": 8192, "gemma2": 8192, "gemma3": 131072}
WINDOW = 4096
PERIOD = {"gemma2": 2, "gemma3": 6}  # every so many layers one that sees everything
GLOBAL_THETA = {"gemma": 1e4, "gemma2": 1e4, "gemma3": 1e6}
LOCAL_THETA = 1e4
SOFTCAPS = {
    "gemma": {},
    "gemma2": {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3": {"final_logit_softcapping": 0.0},
}
# The models whose scores are scaled by the hidden size per head, which their GGUF files leave out.
GGUF_LAYERS_27B = {"gemma2": 46, "gemma3": 62}


# ---- config
@dataclass(frozen=True)
class GemmaConfig(DecoderConfig):
    """Sizes and switches of a gemma checkpoint.

    ``windows`` has the sliding window of each layer, 0 where a layer sees everything; layers with a
    window turn by ``local_theta`` and ``local_scaling``. Scores are scaled by
    ``query_pre_attn_scalar ** -0.5`` and, like the logits, bounded by a softcap where it is not 0.
    ``norm_offset`` is added to the weights of the norms: 1 in transformers' checkpoints, 0 in GGUF
    files, which store the sum. ``sandwich`` stands for the norms behind attention and MLP,
    ``head_norms`` for those of queries and keys."""

    query_pre_attn_scalar: float = HEAD_DIM
    attn_softcap: float = 0.0
    final_softcap: float = 0.0
    norm_offset: float = 1.0
    attention_bias: bool = False
    sandwich: bool = False
    head_norms: bool = False
    windows: tuple[int, ...] = ()
    local_theta: float = LOCAL_THETA
    local_scaling: RopeScaling = field(default_factory=RopeScaling)

    @classmethod
    def from_hf(cls, fields: Fields) -> GemmaConfig:
        """Read a `config.json` of Gemma 1, 2 or 3."""
        kind = checkpoint_kind(fields, KINDS)
        if kind == "multimodal":
            raise fields.unsupported(
                "model_type", "is 'gemma3', text and images; served are Gemma 3's text models"
            )
        if kind == "gemma3":
            # A text model taken out of a larger one keeps its settings one level down.
            fields = fields.section("text_config") or fields
        _check_activation(fields, kind)
        if fields.boolean("use_bidirectional_attention", False):
            raise fields.unsupported("use_bidirectional_attention", "is true; served are decoders")
        positions = fields.integer(
            "max_position_embeddings", POSITIONS[kind], high=LIMITS["positions"]
        )
        rope, local = _rope_from_hf(fields, kind, positions)
        config = cls.read_hf(
            fields,
            positions=POSITIONS[kind],
            head_dim=HEAD_DIM,
            rope=rope,
            tie_word_embeddings=fields.boolean("tie_word_embeddings", True),
            attention_bias=fields.boolean("attention_bias", False),
            attn_softcap=_softcap(fields, kind, "attn_logit_softcapping"),
            final_softcap=_softcap(fields, kind, "final_logit_softcapping"),
            sandwich=kind != "gemma",
            head_norms=kind == "gemma3",
            local_theta=local[0],
            local_scaling=local[1],
        )
        scalar: float = config.head_dim
        if kind != "gemma":
            scalar = fields.number("query_pre_attn_scalar", float(HEAD_DIM), low=1e-3, high=1e6)
        return replace(
            config,
            query_pre_attn_scalar=scalar,
            windows=_windows_from_hf(fields, kind, config.num_hidden_layers),
        )

    @classmethod
    def from_gguf(cls, fields: Fields, shapes: Shapes) -> GemmaConfig:
        """Read GGUF metadata (keys under ``gemma.``, ``gemma2.`` or ``gemma3.``)."""
        kind = fields.prefix.removesuffix(".")
        positions = fields.integer("context_length", high=LIMITS["positions"])
        rope = RopeScaling.from_gguf(fields, shapes, positions, GLOBAL_THETA[kind])
        local = rope if kind == "gemma2" else (LOCAL_THETA, RopeScaling())
        local_theta = fields.number("rope.freq_base_swa", local[0], low=1.0, high=1e12)
        if local[1].kind == "longrope" and local_theta != rope[0]:
            raise fields.unsupported(
                "rope.freq_base_swa", f"is {local_theta:g}, not 'rope.freq_base', beside longrope"
            )
        config = cls.read_gguf(
            fields,
            shapes,
            rope=rope,
            norm_offset=0.0,
            attention_bias="blk.0.attn_q.bias" in shapes,
            attn_softcap=_softcap(fields, kind, "attn_logit_softcapping"),
            final_softcap=_softcap(fields, kind, "final_logit_softcapping"),
            sandwich=kind != "gemma",
            head_norms=kind == "gemma3",
            local_theta=local_theta,
            local_scaling=local[1],
        )
        layers, scalar = config.num_hidden_layers, config.head_dim
        if layers == GGUF_LAYERS_27B.get(kind):
            scalar = config.hidden_size // config.num_attention_heads
        return replace(
            config,
            query_pre_attn_scalar=float(scalar),
            windows=_windows_from_gguf(fields, kind, layers),
        )


def _check_activation(fields: Fields, kind: str) -> None:
    """Every gemma is gated by gelu's tanh form. Gemma 1's first files say "gelu" and mean it."""
    if kind == "gemma":
        fields.choice("hidden_act", ("gelu_pytorch_tanh", "gelu"), "gelu_pytorch_tanh")
    fields.choice("hidden_activation", ("gelu_pytorch_tanh",), "gelu_pytorch_tanh")


def _softcap(fields: Fields, kind: str, key: str) -> float:
    """A bound of scores or logits, 0 for none; null switches it off."""
    if fields.prefix + key in fields.raw and not fields.has(key):
        return 0.0
    value = fields.number(key, SOFTCAPS[kind].get(key, 0.0), low=0.0, high=1e6)
    if value and key not in SOFTCAPS[kind]:
        raise fields.unsupported(key, f"is {value:g}; the models of this generation have none")
    return float(value)


Rope = tuple[float, RopeScaling]


def _rope_from_hf(fields: Fields, kind: str, positions: int) -> tuple[Rope, Rope]:
    """(theta, scaling) of the layers that see everything and of those that slide."""
    theta = GLOBAL_THETA[kind]
    if kind != "gemma3":
        rope = RopeScaling.from_hf(fields, positions, theta)
        return rope, rope
    local = fields.number("rope_local_base_freq", LOCAL_THETA, low=1.0, high=1e12)
    parameters = fields.section("rope_parameters")
    if parameters is None:
        return RopeScaling.from_hf(fields, positions, theta), (local, RopeScaling())
    sections = [parameters.section(f"{name}_attention") for name in ("full", "sliding")]
    if not any(sections):
        raise parameters.fail("full_attention", "is missing, and so is 'sliding_attention'")
    theta = fields.number("rope_theta", theta, low=1.0, high=1e12)
    found = [
        (base, RopeScaling())
        if section is None
        else RopeScaling.from_section(section, fields, positions, base)
        for section, base in zip(sections, (theta, local), strict=True)
    ]
    return found[0], found[1]


def _windows_from_hf(fields: Fields, kind: str, layers: int) -> tuple[int, ...]:
    """`layer_types`, or a period: Gemma 2 alternates, every sixth layer of Gemma 3 sees
    everything."""
    if kind == "gemma":
        return (0,) * layers
    sliding = read_layer_types(fields, layers)
    if sliding is None:
        period = fields.integer("sliding_window_pattern", PERIOD[kind], high=LIMITS["layers"])
        sliding = _periodic(layers, period)
    window = 0
    if any(sliding):
        window = fields.integer("sliding_window", WINDOW, high=LIMITS["positions"])
    return tuple(window if slides else 0 for slides in sliding)


def _windows_from_gguf(fields: Fields, kind: str, layers: int) -> tuple[int, ...]:
    """The pattern is a period or one switch per layer; gemma3 files without a window have none."""
    if kind == "gemma":
        return (0,) * layers
    default = WINDOW if kind == "gemma2" else 0
    window = fields.integer("attention.sliding_window", default, low=0, high=LIMITS["positions"])
    key = "attention.sliding_window_pattern"
    pattern = fields.get(key, PERIOD[kind])
    if isinstance(pattern, Sequence) and not isinstance(pattern, str):
        if len(pattern) != layers or not all(isinstance(item, bool) for item in pattern):
            raise fields.fail(key, f"must be a period or {layers} switches, one for each block")
        sliding = tuple(pattern)
    else:
        sliding = _periodic(layers, fields.integer(key, PERIOD[kind], high=LIMITS["layers"]))
    return tuple(window if slides else 0 for slides in sliding)


def _periodic(layers: int, period: int) -> tuple[bool, ...]:
    return tuple((layer + 1) % period != 0 for layer in range(layers))


Norm = Callable[[int], nn.Module]  # makes a norm over that many elements


# ---- attention
class GemmaAttention(Attention):
    """Grouped-query attention, sliding or not, with norms per head in Gemma 3."""

    def __init__(
        self, config: GemmaConfig, layer: int, rotary: Rotary, norm: Norm, dtype: Any
    ) -> None:
        super().__init__(
            layer=layer,
            hidden_size=config.hidden_size,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            rotary=rotary,
            bias=config.attention_bias,
            scale=1.0 / math.sqrt(config.query_pre_attn_scalar),
            window=config.windows[layer],
            softcap=config.attn_softcap,
            head_norm=(lambda: norm(config.head_dim)) if config.head_norms else None,
            dtype=dtype,
        )


# ---- mlp
class GemmaMLP(GatedMLP):
    """``down(gelu(gate(x)) * up(x))``, gelu in its tanh form."""

    def __init__(self, config: GemmaConfig, dtype: Any) -> None:
        super().__init__(
            config.hidden_size, config.intermediate_size, dtype=dtype, activation="geglu"
        )


# ---- block
class GemmaDecoderLayer(DecoderLayer):
    """Attention and MLP, each after a norm and added to the residual."""

    def __init__(
        self, config: GemmaConfig, layer: int, rotary: Rotary, norm: Norm, dtype: Any
    ) -> None:
        super().__init__(
            GemmaAttention(config, layer, rotary, norm, dtype),
            GemmaMLP(config, dtype),
            config.hidden_size,
            config.rms_norm_eps,
            dtype,
            config.norm_offset,
        )


class GemmaSandwichLayer(GemmaDecoderLayer):
    """Gemma 2 and 3: what attention and MLP give is normed too, before it is added."""

    def __init__(
        self, config: GemmaConfig, layer: int, rotary: Rotary, norm: Norm, dtype: Any
    ) -> None:
        super().__init__(config, layer, rotary, norm, dtype)
        self.pre_feedforward_layernorm: Any = norm(config.hidden_size)
        self.post_feedforward_layernorm: Any = norm(config.hidden_size)

    def forward(
        self, x: Any, h: Any, positions: Any, step: Any, next_norm: Any, rows: Any = None
    ) -> tuple[Any, Any]:
        attended = self.post_attention_layernorm(self.self_attn(x, positions, step, rows))
        if rows is not None:
            h = crt.index_select(h, 0, rows)
        h, x = self.pre_feedforward_layernorm.add(attended, h)
        h, x = next_norm.add(self.post_feedforward_layernorm(self.mlp(x)), h)
        return x, h


# ---- backbone
class GemmaModel(DecoderModel):
    """Scaled token table, blocks, final norm; one rotary table for the layers that slide and one
    for the others."""

    def __init__(self, config: GemmaConfig, dtype: Any) -> None:
        self.rotary = Rotary(config.head_dim, config.rope_theta, config.rope_scaling)
        self.local_rotary = self.rotary
        if (config.local_theta, config.local_scaling) != (config.rope_theta, config.rope_scaling):
            self.local_rotary = Rotary(config.head_dim, config.local_theta, config.local_scaling)
        kind = GemmaSandwichLayer if config.sandwich else GemmaDecoderLayer

        def norm(size: int) -> nn.Module:
            return nn.RMSNorm(size, config.rms_norm_eps, dtype, config.norm_offset)

        def block(layer: int) -> nn.Module:
            rotary = self.local_rotary if config.windows[layer] else self.rotary
            return kind(config, layer, rotary, norm, dtype)

        super().__init__(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            num_layers=config.num_hidden_layers,
            block=block,
            eps=config.rms_norm_eps,
            dtype=dtype,
            offset=config.norm_offset,
        )
        # Rounded to the dtype of the rows, as the models were trained.
        scale = crt.tensor(math.sqrt(config.hidden_size), dtype=dtype or crt.float32)
        self.embed_scale = float(scale.item())

    def embed(self, tokens: Any) -> Any:
        """Rows of the token table times the root of the hidden size."""
        return super().embed(tokens) * self.embed_scale


# ---- head
class GemmaForCausalLM(CausalLM):
    """The backbone with a head over the vocabulary, tied to the token table; Gemma 2 bounds the
    logits."""

    def __init__(self, config: GemmaConfig, dtype: Any = None) -> None:
        super().__init__(
            GemmaModel(config, dtype),
            config.hidden_size,
            config.vocab_size,
            config.tie_word_embeddings,
            dtype,
            config.final_softcap,
        )
        self.config = config


# ---- weight names
GGUF_SANDWICH_NAMES = {
    "blk.{}.post_attention_norm": "model.layers.{}.post_attention_layernorm",
    "blk.{}.ffn_norm": "model.layers.{}.pre_feedforward_layernorm",
    "blk.{}.post_ffw_norm": "model.layers.{}.post_feedforward_layernorm",
}

FAMILY = Family(
    name="gemma",
    config_from_hf=GemmaConfig.from_hf,
    config_from_gguf=GemmaConfig.from_gguf,
    build=GemmaForCausalLM,
    gguf_names=GGUF_DECODER_NAMES,
    gguf_names_by_architecture={"gemma2": GGUF_SANDWICH_NAMES, "gemma3": GGUF_SANDWICH_NAMES},
    extras=GGUF_ROPE_TENSORS,
)
