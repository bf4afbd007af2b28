"""A llama checkpoint whose replies are known: its token table and its head spell a chain of
characters.

Attention and MLP add nothing, the table is the identity, and row ``next(t)`` of the head is the
unit vector of ``t``. So token ``t`` is always followed by ``next(t)``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

HIDDEN = 320
HEADS = 5
INTERMEDIATE = 64
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
REPLY = {"\n": "P", "P": "a", "a": "r", "r": "i", "i": "s", "s": "!", "!": "<|im_end|>"}
COUNTING = {str(i): str((i + 1) % 10) for i in range(10)}


def byte_alphabet() -> dict[int, str]:
    """Byte -> the character that stands for it in byte-level BPE."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in shown}
    extra = 0
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + extra)
            extra += 1
    return table


def write_tokenizer(folder: Path, template: str | None) -> dict[str, int]:
    """Byte-level BPE without merges; returns text -> id for bytes and specials."""
    alphabet = byte_alphabet()
    vocabulary = {special: i for i, special in enumerate(SPECIALS)}
    for byte in range(256):
        vocabulary[alphabet[byte]] = len(SPECIALS) + byte
    added = [
        {
            "id": i,
            "content": special,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, special in enumerate(SPECIALS)
    ]
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(document))
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "bos_token": "<|im_start|>",
        "clean_up_tokenization_spaces": False,
    }
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    ids = {special: i for i, special in enumerate(SPECIALS)}
    ids.update({chr(byte): len(SPECIALS) + byte for byte in range(128)})
    return ids


def write_model(
    folder: Path,
    chain: Mapping[str, str],
    *,
    template: str | None = TEMPLATE,
    window: int = 256,
) -> Path:
    """Write the checkpoint; tokens outside ``chain`` are followed by ``<|im_end|>``."""
    from clika_runtime.io import write_safetensors

    folder.mkdir(parents=True, exist_ok=True)
    ids = write_tokenizer(folder, template)
    vocabulary = len(SPECIALS) + 256
    following = np.full(vocabulary, ids["<|im_end|>"])
    for before, after in chain.items():
        following[ids[before]] = ids[after]
    table = np.zeros((vocabulary, HIDDEN), np.float32)
    table[np.arange(vocabulary), np.arange(vocabulary)] = 1.0
    head = np.zeros((vocabulary, HIDDEN), np.float32)
    head[following, np.arange(vocabulary)] = 1.0
    generator = np.random.RandomState(3)

    def noise(*shape: int) -> np.ndarray:
        return generator.uniform(-0.1, 0.1, shape).astype(np.float32)

    layer = "model.layers.0."
    tensors = {
        "model.embed_tokens.weight": table,
        "model.norm.weight": np.ones(HIDDEN, np.float32),
        "lm_head.weight": head,
        layer + "input_layernorm.weight": np.ones(HIDDEN, np.float32),
        layer + "post_attention_layernorm.weight": np.ones(HIDDEN, np.float32),
        layer + "self_attn.q_proj.weight": noise(HIDDEN, HIDDEN),
        layer + "self_attn.k_proj.weight": noise(HIDDEN, HIDDEN),
        layer + "self_attn.v_proj.weight": noise(HIDDEN, HIDDEN),
        layer + "self_attn.o_proj.weight": np.zeros((HIDDEN, HIDDEN), np.float32),
        layer + "mlp.gate_proj.weight": noise(INTERMEDIATE, HIDDEN),
        layer + "mlp.up_proj.weight": noise(INTERMEDIATE, HIDDEN),
        layer + "mlp.down_proj.weight": np.zeros((HIDDEN, INTERMEDIATE), np.float32),
    }
    rows = {name: ("float32", array.shape, array) for name, array in tensors.items()}
    write_safetensors(folder / "model.safetensors", rows)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "vocab_size": vocabulary,
        "max_position_embeddings": window,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "eos_token_id": ids["<|im_end|>"],
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder
