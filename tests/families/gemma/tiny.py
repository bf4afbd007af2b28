"""Tiny random gemma checkpoints of transformers' own classes, and the same weights as GGUF
files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.families import tiny
from tests.families.tiny import SIZES, Layout, Tiny, ids, reload

__all__ = ["VARIANTS", "Tiny", "dequantized", "ids", "make", "reload", "write_gguf"]

WINDOW = 16
SECOND = {"sliding_window": WINDOW, "query_pre_attn_scalar": 16}
# Bounds low enough that scores and logits of random weights reach them.
CAPS = {"attn_logit_softcapping": 4.0, "final_logit_softcapping": 12.0}
NO_CAPS = {"attn_logit_softcapping": None, "final_logit_softcapping": None}
THIRD = {"sliding_window": WINDOW, "query_pre_attn_scalar": 16, "num_hidden_layers": 7}
SLIDING = {"rope_type": "default", "rope_theta": 10000.0}


def ropes(**full: Any) -> dict[str, Any]:
    """Settings of the two kinds of layers; a base far from the local one."""
    return {"full_attention": {"rope_theta": 1e6, **full}, "sliding_attention": SLIDING}


LINEAR = ropes(rope_type="linear", factor=8.0)
YARN = ropes(rope_type="yarn", factor=8.0, original_max_position_embeddings=32, beta_fast=4.0)
MIXED = ["full_attention", "sliding_attention", "full_attention"]

# The generation, and what differs from the plain sizes.
VARIANTS: dict[str, tuple[int, dict[str, Any]]] = {
    "gemma": (1, {"head_dim": 32}),
    "gemma_multi_query": (1, {"head_dim": 16, "num_key_value_heads": 1}),
    "gemma2": (2, {"head_dim": 16, **SECOND, **CAPS}),
    "gemma2_wide": (2, {"head_dim": 32, **SECOND, **CAPS, "query_pre_attn_scalar": 32}),
    "gemma2_no_caps": (2, {"head_dim": 16, **SECOND, **NO_CAPS}),
    "gemma3": (3, {"head_dim": 16, **THIRD}),
    "gemma3_linear": (3, {"head_dim": 16, **THIRD, "rope_parameters": LINEAR}),
    "gemma3_yarn": (3, {"head_dim": 16, **THIRD, "rope_parameters": YARN}),
    "gemma3_capped": (3, {"head_dim": 16, **THIRD, "final_logit_softcapping": 12.0}),
    "gemma3_layer_types": (
        3,
        {"head_dim": 16, **THIRD, "num_hidden_layers": 3, "layer_types": MIXED},
    ),
    "gemma3_scalar": (3, {"head_dim": 16, **THIRD, "query_pre_attn_scalar": 50}),
}
# GGUF files leave the scale of the scores out, and null bounds.
IN_GGUF = [name for name in VARIANTS if name not in ("gemma3_scalar", "gemma2_no_caps")]


def make(folder: Path, variant: str, dtype: str = "float32") -> Tiny:
    """Writes a checkpoint of a variant."""
    import transformers

    generation, changes = VARIANTS[variant]
    names = {
        1: ("GemmaConfig", "GemmaForCausalLM"),
        2: ("Gemma2Config", "Gemma2ForCausalLM"),
        3: ("Gemma3TextConfig", "Gemma3ForCausalLM"),
    }
    config_class, model_class = (getattr(transformers, name) for name in names[generation])
    config = config_class(**{**SIZES, "pad_token_id": None, **changes})
    return tiny.make(folder, model_class, config, dtype, offset=1.0)


# ---- GGUF: the norms' weights are stored with the one that transformers adds to them
def _plus_one(name: str, array: Any, config: Any) -> Any:
    return array + 1.0 if name.endswith("norm.weight") else array


def _minus_one(name: str, array: Any, config: Any) -> Any:
    return array - 1.0 if name.endswith("norm.weight") else array


def _describe(writer: Any, config: Any) -> None:
    if config.model_type == "gemma":
        return
    writer.add_sliding_window(config.sliding_window)
    if config.attn_logit_softcapping:
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if config.model_type == "gemma3_text":
        tiny.add_rope(writer, config.rope_parameters["full_attention"])
        sliding = [kind == "sliding_attention" for kind in config.layer_types]
        if sliding[:6] != [True] * 5 + [False]:
            writer.add_sliding_window_pattern(sliding)


def _layout(checkpoint: Tiny) -> Layout:
    architecture = checkpoint.config.model_type.removesuffix("_text")
    return Layout(architecture, _plus_one, _minus_one, _describe)


def write_gguf(
    checkpoint: Tiny, path: Path, kind: Callable[[str], str] = lambda name: "F32", **extra: Any
) -> Path:
    """The checkpoint as a GGUF file."""
    return tiny.write_gguf(checkpoint, path, _layout(checkpoint), kind, **extra)


def dequantized(checkpoint: Tiny, path: Path) -> Tiny:
    """The model in transformers with the values that a quantized GGUF file stands for."""
    return tiny.dequantized(checkpoint, path, _layout(checkpoint))
