"""Tiny random qwen checkpoints of transformers' own classes, and the same weights as GGUF files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.families import tiny
from tests.families.tiny import SIZES, Layout, Tiny, ids, reload

__all__ = ["VARIANTS", "Tiny", "dequantized", "ids", "make", "reload", "write_gguf"]

WINDOW = 16
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 32,
    "beta_fast": 4.0,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "original_max_position_embeddings": 8,
    "short_factor": [1.0 + 0.05 * i for i in range(8)],
    "long_factor": [1.0 + 0.6 * i for i in range(8)],
    "attention_factor": 1.25,
}
SLIDING = {"use_sliding_window": True, "sliding_window": WINDOW}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]

# The generation, and what differs from the plain sizes.
VARIANTS: dict[str, tuple[int, dict[str, Any]]] = {
    "qwen2": (2, {}),
    "qwen2_tied": (2, {"tie_word_embeddings": True}),
    "qwen2_sliding": (2, {**SLIDING, "max_window_layers": 1}),
    "qwen2_layer_types": (2, {**SLIDING, "layer_types": MIXED}),
    "qwen2_yarn": (2, {"rope_parameters": YARN}),
    "qwen3": (3, {"head_dim": 32}),
    "qwen3_tied": (3, {"head_dim": 16, "tie_word_embeddings": True}),
    "qwen3_biases": (3, {"head_dim": 16, "attention_bias": True}),
    "qwen3_sliding": (3, {"head_dim": 16, **SLIDING, "max_window_layers": 2}),
    "qwen3_yarn": (3, {"head_dim": 16, "rope_parameters": YARN}),
    "qwen3_longrope": (3, {"head_dim": 16, "rope_parameters": LONGROPE}),
}
# A GGUF file of these architectures has no place for windows of single layers.
IN_GGUF = [name for name in VARIANTS if "sliding" not in name and "layer_types" not in name]


def make(folder: Path, variant: str, dtype: str = "float32") -> Tiny:
    """Writes a checkpoint of a variant."""
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

    generation, changes = VARIANTS[variant]
    classes = {2: (Qwen2Config, Qwen2ForCausalLM), 3: (Qwen3Config, Qwen3ForCausalLM)}
    config_class, model_class = classes[generation]
    return tiny.make(folder, model_class, config_class(**{**SIZES, **changes}), dtype)


def _layout(checkpoint: Tiny) -> Layout:
    return Layout(
        checkpoint.config.model_type,
        describe=lambda writer, config: tiny.add_rope(writer, config.rope_parameters),
    )


def write_gguf(
    checkpoint: Tiny, path: Path, kind: Callable[[str], str] = lambda name: "F32", **extra: Any
) -> Path:
    """The checkpoint as a GGUF file."""
    return tiny.write_gguf(checkpoint, path, _layout(checkpoint), kind, **extra)


def dequantized(checkpoint: Tiny, path: Path) -> Tiny:
    """The model in transformers with the values that a quantized GGUF file stands for."""
    return tiny.dequantized(checkpoint, path, _layout(checkpoint))
