"""Tiny random llama checkpoints of transformers' own class, and the same weights as GGUF files."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

VOCAB = 192
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}

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
}


@dataclass
class Tiny:
    """A checkpoint's folder and its model in transformers."""

    folder: Path
    model: Any

    def reference(self, ids: Sequence[int]) -> Any:
        """Logits of transformers after each id, float32."""
        import torch

        with torch.no_grad():
            return self.model(torch.tensor([list(ids)])).logits[0].float().numpy()


def make(
    folder: Path, dtype: str = "float32", seed: int = 0, shards: bool = False, **changes: Any
) -> Tiny:
    """Writes a checkpoint with large random weights: norms and biases away from 1 and 0."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    settings: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCAB,
        "max_position_embeddings": 256,
        "initializer_range": 0.3,
        "rms_norm_eps": 1e-5,
        **changes,
    }
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**settings)).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "norm" in name:
                value.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                value.normal_(0.0, 0.3)
    model = model.to(getattr(torch, dtype))
    with quiet():
        model.save_pretrained(folder, max_shard_size="40KB" if shards else "5GB")
    return Tiny(folder, model)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars and notes of transformers."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def reload(tiny: Tiny, dtype: str) -> Tiny:
    """The same weights in transformers, computing in another dtype."""
    import torch
    from transformers import LlamaForCausalLM

    with quiet():
        model = LlamaForCausalLM.from_pretrained(tiny.folder, dtype=getattr(torch, dtype)).eval()
    return Tiny(tiny.folder, model)


def ids(count: int, seed: int = 5) -> list[int]:
    """Random token ids."""
    return [int(i) for i in np.random.default_rng(seed).integers(0, VOCAB, count)]


# ---- GGUF
def permuted(rows: Any, heads: int) -> Any:
    """Query and key rows in the order of GGUF's llama files, whose rotary pairs are neighbours."""
    size = rows.shape[0] // heads
    split = rows.reshape(heads, 2, size // 2, *rows.shape[1:])
    return np.ascontiguousarray(np.swapaxes(split, 1, 2)).reshape(rows.shape)


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """The GGUF name of a tensor of transformers' llama."""
    stem, leaf = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, rest = stem.split(".", 3)
        return f"blk.{layer}.{GGUF_NAMES[rest]}.{leaf}"
    return f"{GGUF_NAMES[stem]}.{leaf}"


def write_gguf(
    tiny: Tiny, path: Path, kind: Callable[[str], str] = lambda name: "F32", metadata: bool = True
) -> Path:
    """The checkpoint as a GGUF file; ``kind`` gives the type of each matrix by its GGUF name."""
    import gguf

    config = tiny.model.config
    writer = gguf.GGUFWriter(path, "llama")
    if metadata:
        writer.add_block_count(config.num_hidden_layers)
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(config.head_dim)
        rope = config.rope_parameters
        writer.add_rope_freq_base(rope["rope_theta"])
        if rope["rope_type"] == "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "llama3":
            writer.add_tensor("rope_freqs.weight", _rope_factors(tiny))
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, value in tiny.model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = value.float().numpy()
        for part, count in heads.items():
            if f".{part}." in name:
                array = permuted(array, count)
        target = gguf_name(name)
        wanted = kind(target) if array.ndim == 2 else "F32"
        if wanted == "F32":
            writer.add_tensor(target, array)
        else:
            quantized = gguf.GGMLQuantizationType[wanted]
            writer.add_tensor(target, gguf.quants.quantize(array, quantized), raw_dtype=quantized)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _rope_factors(tiny: Tiny) -> Any:
    """What transformers divides each frequency by under llama3 scaling."""
    rotary = tiny.model.model.rotary_emb
    theta = tiny.model.config.rope_parameters["rope_theta"]
    size = tiny.model.config.head_dim
    plain = theta ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    return (plain / rotary.inv_freq.double().numpy()).astype(np.float32)


def dequantized(tiny: Tiny, path: Path) -> Tiny:
    """The model in transformers with the values that a quantized GGUF file stands for."""
    import copy

    import gguf
    import torch

    config = tiny.model.config
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    found = {t.name: t for t in gguf.GGUFReader(path).tensors}
    model = copy.deepcopy(tiny.model).float()
    state = {}
    for name in model.state_dict():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        tensor = found[gguf_name(name)]
        array = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        for part, count in heads.items():
            if f".{part}." in name:
                # The inverse order: pairs of neighbours back to halves.
                size = array.shape[0] // count
                split = array.reshape(count, size // 2, 2, *array.shape[1:])
                array = np.ascontiguousarray(np.swapaxes(split, 1, 2)).reshape(array.shape)
        state[name] = torch.from_numpy(np.array(array))
    model.load_state_dict(state, strict=not config.tie_word_embeddings)
    return Tiny(tiny.folder, model)
