"""Tiny random llama checkpoints of transformers' own class, and the same weights as GGUF files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.families import tiny
from tests.families.tiny import SIZES, VOCAB, Layout, Tiny, ids, reload

__all__ = ["VARIANTS", "VOCAB", "Tiny", "dequantized", "ids", "make", "reload", "write_gguf"]

WINDOW = 32  # before the scalings below; the texts of the tests are longer
THETA = {"rope_theta": 10000.0}
LLAMA3 = {
    "rope_type": "llama3",
    **THETA,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": WINDOW,
}
LINEAR = {"rope_type": "linear", **THETA, "factor": 4.0}
YARN = {
    "rope_type": "yarn",
    **THETA,
    "factor": 8.0,
    "original_max_position_embeddings": WINDOW,
    "beta_fast": 4.0,
}
LONGROPE = {
    "rope_type": "longrope",
    **THETA,
    "original_max_position_embeddings": WINDOW,
    "short_factor": [1.0 + 0.05 * i for i in range(8)],
    "long_factor": [1.0 + 0.6 * i for i in range(8)],
    "attention_factor": 1.25,
}
DYNAMIC = {"rope_type": "dynamic", **THETA, "factor": 4.0}

# One line per shape that a checkpoint may have; every one is longer than its rotary scaling's
# border.
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tie_word_embeddings": True},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "multi_head": {"num_key_value_heads": 4},
    "multi_query": {"num_key_value_heads": 1},
    "wide_heads": {"head_dim": 32},
    "linear": {"rope_parameters": LINEAR},
    "llama3": {"rope_parameters": LLAMA3},
    "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
    "yarn": {"rope_parameters": YARN},
    "longrope": {"rope_parameters": LONGROPE},
}
# Scalings that follow the length of a text, beyond their window only where the cache reaches.
DYNAMIC_VARIANT = {"rope_parameters": DYNAMIC, "max_position_embeddings": WINDOW}


def make(
    folder: Path,
    variant: str = "plain",
    dtype: str = "float32",
    shards: bool = False,
    **changes: Any,
) -> Tiny:
    """Writes a checkpoint of a variant, with further changes of its configuration."""
    from transformers import LlamaConfig, LlamaForCausalLM

    own = DYNAMIC_VARIANT if variant == "dynamic" else VARIANTS[variant]
    config = LlamaConfig(**{**SIZES, **own, **changes})
    return tiny.make(folder, LlamaForCausalLM, config, dtype, shards=shards)


# ---- GGUF
def _heads(name: str, config: Any) -> int:
    """The heads whose rows the file stores in another order, 0 for other tensors."""
    if ".q_proj." in name:
        return int(config.num_attention_heads)
    return int(config.num_key_value_heads) if ".k_proj." in name else 0


def permuted(name: str, rows: Any, config: Any) -> Any:
    """Query and key rows in the order of GGUF's llama files, whose rotary pairs are neighbours."""
    heads = _heads(name, config)
    if not heads:
        return rows
    split = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return np.ascontiguousarray(np.swapaxes(split, 1, 2)).reshape(rows.shape)


def restored(name: str, rows: Any, config: Any) -> Any:
    """The inverse: pairs of neighbours back to halves."""
    heads = _heads(name, config)
    if not heads:
        return rows
    split = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return np.ascontiguousarray(np.swapaxes(split, 1, 2)).reshape(rows.shape)


def _describe(writer: Any, config: Any) -> None:
    writer.add_rope_dimension_count(config.head_dim)
    tiny.add_rope(writer, config.rope_parameters)
    if config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", _llama3_factors(config))


def _llama3_factors(config: Any) -> Any:
    """What transformers divides each frequency by under llama3 scaling."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config)
    size = config.head_dim
    plain = config.rope_parameters["rope_theta"] ** (
        -np.arange(0, size, 2, dtype=np.float64) / size
    )
    return (plain / scaled.double().numpy()).astype(np.float32)


LAYOUT = Layout("llama", permuted, restored, _describe)


def write_gguf(
    checkpoint: Tiny, path: Path, kind: Callable[[str], str] = lambda name: "F32", **extra: Any
) -> Path:
    """The checkpoint as a GGUF file."""
    return tiny.write_gguf(checkpoint, path, LAYOUT, kind, **extra)


def dequantized(checkpoint: Tiny, path: Path) -> Tiny:
    """The model in transformers with the values that a quantized GGUF file stands for."""
    return tiny.dequantized(checkpoint, path, LAYOUT)
