"""Tiny checkpoints for the tests of loading and generation, written without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from clika_runtime.io import write_safetensors

SPECIAL = ("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
}


def vocabulary() -> dict[str, int]:
    """Special tokens, then one token per byte."""
    from clika_runtime.tokenizer.streaming import byte_alphabet

    names = [*SPECIAL, *byte_alphabet()]
    return {name: number for number, name in enumerate(names)}


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The tensors of a llama checkpoint without biases."""
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    size = hidden // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    result = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    for layer in range(config["num_hidden_layers"]):
        stem = f"model.layers.{layer}"
        result |= {
            f"{stem}.input_layernorm.weight": (hidden,),
            f"{stem}.post_attention_layernorm.weight": (hidden,),
            f"{stem}.self_attn.q_proj.weight": (queries, hidden),
            f"{stem}.self_attn.k_proj.weight": (keys, hidden),
            f"{stem}.self_attn.v_proj.weight": (keys, hidden),
            f"{stem}.self_attn.o_proj.weight": (hidden, queries),
            f"{stem}.mlp.gate_proj.weight": (inner, hidden),
            f"{stem}.mlp.up_proj.weight": (inner, hidden),
            f"{stem}.mlp.down_proj.weight": (hidden, inner),
        }
    if not config["tie_word_embeddings"]:
        result["lm_head.weight"] = (vocab, hidden)
    return result


def tensors(config: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Random float32 values for every tensor."""
    rng = np.random.default_rng(seed)
    return {
        name: (rng.standard_normal(shape) * 0.3 + (1.0 if len(shape) == 1 else 0.0)).astype(
            np.float32
        )
        for name, shape in shapes(config).items()
    }


def write_weights(folder: Path, values: dict[str, Any]) -> None:
    """`model.safetensors` with these arrays."""
    write_safetensors(
        folder / "model.safetensors",
        {name: ("float32", tuple(array.shape), array) for name, array in values.items()},
    )


def write_model(folder: Path, template: bool = True, **changes: Any) -> dict[str, Any]:
    """A whole checkpoint with a byte-level tokenizer; returns its config."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = vocabulary()
    config = {**CONFIG, "vocab_size": len(words), **changes}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_weights(folder, tensors(config))
    backend = Tokenizer(models.BPE(vocab=words, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIAL))
    backend.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    if template:
        settings["chat_template"] = TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return config
