"""Small real files to mutate: a whole llama checkpoint as safetensors and as GGUF, with its
tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file

from tests.fuzz.template import TEMPLATE
from tests.unit.tokenizer.small import MERGES, SPECIAL, USER, byte_level, vocabulary

HIDDEN = 32
FFN = 64
HEADS = 2
VOCAB = len(vocabulary())

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 1,
    "head_dim": HIDDEN // HEADS,
    "vocab_size": VOCAB,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "attention_bias": False,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": [2],
}


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return rng.standard_normal((rows, columns)).astype(np.float32)

    half = HIDDEN // HEADS
    layer = "model.layers.0"
    return {
        "model.embed_tokens.weight": matrix(VOCAB, HIDDEN),
        f"{layer}.input_layernorm.weight": np.ones(HIDDEN, np.float32),
        f"{layer}.self_attn.q_proj.weight": matrix(HIDDEN, HIDDEN),
        f"{layer}.self_attn.k_proj.weight": matrix(half, HIDDEN),
        f"{layer}.self_attn.v_proj.weight": matrix(half, HIDDEN),
        f"{layer}.self_attn.o_proj.weight": matrix(HIDDEN, HIDDEN),
        f"{layer}.post_attention_layernorm.weight": np.ones(HIDDEN, np.float32),
        f"{layer}.mlp.gate_proj.weight": matrix(FFN, HIDDEN),
        f"{layer}.mlp.up_proj.weight": matrix(FFN, HIDDEN),
        f"{layer}.mlp.down_proj.weight": matrix(HIDDEN, FFN),
        "model.norm.weight": np.ones(HIDDEN, np.float32),
    }


GGUF_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "model.layers.0.input_layernorm.weight": "blk.0.attn_norm.weight",
    "model.layers.0.post_attention_layernorm.weight": "blk.0.ffn_norm.weight",
    "model.layers.0.self_attn.q_proj.weight": "blk.0.attn_q.weight",
    "model.layers.0.self_attn.k_proj.weight": "blk.0.attn_k.weight",
    "model.layers.0.self_attn.v_proj.weight": "blk.0.attn_v.weight",
    "model.layers.0.self_attn.o_proj.weight": "blk.0.attn_output.weight",
    "model.layers.0.mlp.gate_proj.weight": "blk.0.ffn_gate.weight",
    "model.layers.0.mlp.up_proj.weight": "blk.0.ffn_up.weight",
    "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down.weight",
}
KINDS = {
    "attn_q": "Q4_0",
    "attn_v": "Q4_1",
    "ffn_up": "Q8_0",
    "ffn_down": "F16",
    "token_embd": "Q8_0",
}


def write_gguf(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(VOCAB)
    tokens = list(vocabulary())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t in SPECIAL else 4 if t in USER else 1 for t in tokens])
    writer.add_token_merges(list(MERGES))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    writer.add_array("general.tags", [["a"], ["b", "c"]])
    for name, array in weights().items():
        target = GGUF_NAMES[name]
        kind = KINDS.get(target.split(".")[-2])
        if kind == "F16":
            writer.add_tensor(target, array.astype(np.float16))
        elif kind is not None:
            number = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(target, gguf.quants.quantize(array, number), raw_dtype=number)
        else:
            writer.add_tensor(target, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_all(folder: Path) -> None:
    """``model.gguf``, ``single/`` (one safetensors file) and ``sharded/`` (two and an index)."""
    write_gguf(folder / "model.gguf")
    tensors = weights()
    for name in ("single", "sharded"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(CONFIG, indent=2))
        byte_level().save(str(folder / name / "tokenizer.json"), pretty=False)
        config = {
            "bos_token": "<|im_start|>",
            "eos_token": {"content": "<|im_end|>"},
            "chat_template": TEMPLATE,
            "model_max_length": 64,
        }
        (folder / name / "tokenizer_config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "single" / "model.safetensors", metadata={"format": "pt"})
    names = list(tensors)
    halves = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, folder / "sharded" / file)
    weight_map = {name: file for file, part in halves.items() for name in part}
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "sharded" / "model.safetensors.index.json").write_text(json.dumps(index))
