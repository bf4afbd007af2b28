"""What the played hub's repositories hold."""

from __future__ import annotations

import json

from tests.cli.wheels import tiny_gguf

REPO = "otters/Otter-1B"
GGUF = "otters/Otter-1B-GGUF"
TAKEN = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


def dense_files(shards: int = 1, size: int = 5000) -> dict[str, bytes]:
    """A safetensors repository as it is published: with files that no fetch takes."""
    config = {"model_type": "otter", "architectures": ["OtterForCausalLM"]}
    files = {
        "config.json": json.dumps(config).encode(),
        "generation_config.json": b'{"max_new_tokens": 3}',
        "tokenizer.json": b'{"version": "1.0"}' + b" " * 300,
        "tokenizer_config.json": b"{}",
        "README.md": b"# Otter",
        "LICENSE": b"free",
        "picture.png": b"\x89PNG" + b"x" * 2000,
        "pytorch_model.bin": b"pickle" * 1000,
        "onnx/model.onnx": b"onnx" * 1000,
    }
    if shards == 1:
        files["model.safetensors"] = bytes(range(250)) * (size // 250)
        return files
    names = [f"model-{i:05d}-of-{shards:05d}.safetensors" for i in range(1, shards + 1)]
    for number, name in enumerate(names):
        files[name] = bytes([number]) * size
    table = {f"layer.{number}": name for number, name in enumerate(names)}
    index = {"metadata": {"total_size": size * shards}, "weight_map": table}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    return files


def gguf_files() -> dict[str, bytes]:
    def weights(fill: int) -> bytes:
        return tiny_gguf("otter-gguf", bytes([fill]) * (4096 + 128 * fill))

    return {
        "README.md": b"# quantized",
        "Otter-1B-Q4_K_M.gguf": weights(1),
        "Otter-1B-Q6_K.gguf": weights(2),
        "Otter-1B-Q8_0.gguf": weights(3),
        "mmproj-Otter-1B-f16.gguf": weights(4),
        "Otter-1B.imatrix.gguf": weights(5),
    }
