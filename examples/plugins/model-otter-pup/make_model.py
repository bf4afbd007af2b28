"""Writes the model's files into ``src/otter_pup/weights``; run it before the package is built.

    python make_model.py

The model is built, not trained: token t has the t-th unit vector, attention adds nothing, and the
feed-forward turns the vector of a word into that of the word that follows it in a sentence below.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from clika_runtime.io import write_safetensors

SENTENCES = (
    "otters hold hands while they sleep",
    "a pup floats on its mother's belly",
    "stones crack the shells of clams",
)
UNKNOWN, END = "<unk>", "<end>"
HIDDEN, HEADS = 32, 2
FOLDER = Path(__file__).parent / "src" / "otter_pup" / "weights"


def main() -> None:
    words = [UNKNOWN, END, *dict.fromkeys(" ".join(SENTENCES).split())]
    ids = {word: number for number, word in enumerate(words)}
    FOLDER.mkdir(exist_ok=True)
    _write_weights(ids)
    _write("config.json", {
        "model_type": "otter", "architectures": ["OtterForCausalLM"], "torch_dtype": "float32",
        "hidden_size": HIDDEN, "intermediate_size": HIDDEN, "num_hidden_layers": 1,
        "num_attention_heads": HEADS, "vocab_size": len(ids), "max_position_embeddings": 64,
        "eos_token_id": ids[END],
    })  # fmt: skip
    _write("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [
            {"id": ids[text], "content": text, "special": True, "normalized": False,
             "single_word": False, "lstrip": False, "rstrip": False}
            for text in (UNKNOWN, END)
        ],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
                          "split": True},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never",
                    "split": True},
        "post_processor": None,
        "model": {"type": "WordLevel", "unk_token": UNKNOWN,
                  "vocab": {w if w in (UNKNOWN, END) else "▁" + w: i for w, i in ids.items()}},
    })  # fmt: skip
    _write("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast",
                                     "unk_token": UNKNOWN, "eos_token": END})  # fmt: skip


def _write_weights(ids: dict[str, int]) -> None:
    follow = np.zeros((HIDDEN, HIDDEN), np.float32)  # [to, from]
    for sentence in SENTENCES:
        line = [ids[word] for word in (*sentence.split(), END)]
        follow[line[1:], line[:-1]] = 1.0
    layer = "model.layers.0."
    tensors = {
        "model.embed_tokens.weight": np.eye(len(ids), HIDDEN, dtype=np.float32),
        "model.norm.weight": np.ones(HIDDEN, np.float32),
        layer + "input_layernorm.weight": np.ones(HIDDEN, np.float32),
        layer + "mlp.up_proj.weight": np.eye(HIDDEN, dtype=np.float32),
        layer + "mlp.down_proj.weight": follow,
    }
    for part in "qkvo":
        tensors[f"{layer}self_attn.{part}_proj.weight"] = np.zeros((HIDDEN, HIDDEN), np.float32)
    rows = {name: ("float32", array.shape, array) for name, array in tensors.items()}
    write_safetensors(FOLDER / "model.safetensors", rows)


def _write(name: str, content: dict[str, object]) -> None:
    (FOLDER / name).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
