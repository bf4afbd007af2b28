"""Small real files to mutate: a whole llama checkpoint as safetensors, as GGUF and in quantized
forms, with its tokenizer, and tokenizers of other kinds."""

from __future__ import annotations

import base64
import json
import string
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

from tests.fuzz.template import TEMPLATE
from tests.unit.modelverse.quantized import FORMS
from tests.unit.tokenizer.small import MERGES, SPECIAL, USER, byte_level, vocabulary
from tests.unit.tokenizer.spm_models import trained

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


# Blocks of 64 columns; a vocabulary that costs little.
QUANTIZED = {
    **CONFIG,
    "hidden_size": 64,
    "intermediate_size": 128,
    "head_dim": 32,
    "vocab_size": 16,
}
QUANTIZED_FORMS = (
    *("fp8_block", "gptq_64", "gptq_act", "awq_32", "nf4_double", "bnb_int8"),
    *("ct_int4_act", "ct_int8", "ct_nvfp4", "modelopt_nvfp4", "mxfp4"),
)


def weights(config: dict[str, Any] = CONFIG) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    hidden, ffn = config["hidden_size"], config["intermediate_size"]

    def matrix(rows: int, columns: int) -> np.ndarray:
        return rng.standard_normal((rows, columns)).astype(np.float32)

    half = hidden // HEADS
    layer = "model.layers.0"
    return {
        "model.embed_tokens.weight": matrix(config["vocab_size"], hidden),
        f"{layer}.input_layernorm.weight": np.ones(hidden, np.float32),
        f"{layer}.self_attn.q_proj.weight": matrix(hidden, hidden),
        f"{layer}.self_attn.k_proj.weight": matrix(half, hidden),
        f"{layer}.self_attn.v_proj.weight": matrix(half, hidden),
        f"{layer}.self_attn.o_proj.weight": matrix(hidden, hidden),
        f"{layer}.post_attention_layernorm.weight": np.ones(hidden, np.float32),
        f"{layer}.mlp.gate_proj.weight": matrix(ffn, hidden),
        f"{layer}.mlp.up_proj.weight": matrix(ffn, hidden),
        f"{layer}.mlp.down_proj.weight": matrix(hidden, ffn),
        "model.norm.weight": np.ones(hidden, np.float32),
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


def write_quantized(folder: Path, name: str) -> None:
    """A checkpoint whose linears have one of the published forms."""
    import torch
    from safetensors.torch import save_file

    form = FORMS[name]
    rng = np.random.default_rng(1)
    tensors: dict[str, torch.Tensor] = {}
    for key, array in weights(QUANTIZED).items():
        stem = key.removesuffix(".weight")
        if stem.endswith("_proj"):
            parts, _ = form.make(rng, *array.shape)
            tensors |= {f"{stem}.{part}": value.contiguous() for part, value in parts.items()}
        else:
            tensors[key] = torch.from_numpy(array)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**QUANTIZED, form.key: form.config}))


def write_graph(path: Path) -> None:
    """A saved graph: a state, views, packed weights, a dynamic size, subgraphs that end by
    themselves."""
    import clika_runtime as crt
    from clika_runtime.graph.control import cond, scan

    state = crt.zeros(2)
    base = crt.tensor(np.arange(8, dtype=np.float32).reshape(4, 2))
    rows = crt.zeros((2, 34), dtype=crt.uint8)
    packed = crt.make_quantized(rows, "GGUF_Q8_0", [32, 2]).tensor
    repacked = crt.pack_weight(crt.make_quantized(rows, "GGUF_Q8_0", [32, 2]).tensor, "fast")

    def fn(x: Any, wide: Any) -> Any:
        state.add_(1.0)
        view = x.reshape(-1, 2)[1:] * base[1]
        (z,) = cond(x.sum() > 0, lambda a: a + state, lambda a: a, [base[0]])
        _, sums = scan(lambda s, a: (s + a, s * a), [crt.zeros(2)], [base])
        head = x[:2] * 2.0
        both = crt.linear(wide, packed) + crt.linear(wide, repacked)
        return [crt.relu(view) + 1.0, both, z, sums, crt.softmax(x, -1), head]

    given = (crt.ones(3, 4), crt.ones(2, 32))
    graph = crt.trace(fn, example_inputs=given, dynamic_axes={"x": {0: "n"}}).graph
    graph.save(path)


def rank_file() -> bytes:
    """All bytes and pairs of letters, as tiktoken writes them."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [(a + b).encode() for a in string.ascii_lowercase for b in string.ascii_lowercase]
    return b"".join(base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(tokens))


def write_tokenizers(folder: Path) -> None:
    """``bpe.model`` and ``unigram.model`` of SentencePiece, and a rank file."""
    folder.mkdir()
    plain = ("normalization_rule_name", "identity")
    (folder / "bpe.model").write_bytes(trained("bpe", (plain, ("byte_fallback", True))))
    (folder / "unigram.model").write_bytes(trained("unigram"))
    (folder / "qwen.tiktoken").write_bytes(rank_file())


def write_all(folder: Path) -> None:
    """``model.gguf``, ``graph.safetensors``, ``single/`` (one safetensors file), ``sharded/`` (two
    and an index), ``quantized/`` (a folder for each form) and ``tokenizers/``."""
    write_gguf(folder / "model.gguf")
    write_graph(folder / "graph.safetensors")
    write_tokenizers(folder / "tokenizers")
    for name in QUANTIZED_FORMS:
        write_quantized(folder / "quantized" / name, name)
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
