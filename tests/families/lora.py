"""Random LoRA adapters in files, and the same adapters in the weights of a transformers model."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clika_runtime.io import write_safetensors

Matrices = dict[str, tuple[Any, Any]]
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def matrices(
    model: Any, rank: int = 4, seed: int = 0, targets: tuple[str, ...] = TARGETS
) -> Matrices:
    """Module name -> (A [rank, inputs], B [outputs, rank]) of a model's linear layers."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in targets:
            outputs, inputs = module.weight.shape
            down = rng.standard_normal((rank, inputs)).astype(np.float32) * 0.2
            up = rng.standard_normal((outputs, rank)).astype(np.float32) * 0.2
            found[name] = (down, up)
    return found


def write_peft(folder: Path, values: Mapping[str, tuple[Any, Any]], **changes: Any) -> Path:
    """The folder that PEFT writes; an entry of None leaves a key out of the config."""
    folder.mkdir(parents=True, exist_ok=True)
    first = next(iter(values.values()), (np.zeros((1, 1)), None))
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "somebody/base",
        "r": int(first[0].shape[0]),
        "lora_alpha": 8,
        "use_rslora": False,
        "use_dora": False,
        "bias": "none",
        "fan_in_fan_out": False,
        "modules_to_save": None,
        "target_modules": sorted({name.rpartition(".")[2] for name in values}),
        "init_lora_weights": True,
        **changes,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    rows = {}
    for name, pair in values.items():
        for part, array in zip("AB", pair, strict=True):
            key = f"base_model.model.{name}.lora_{part}.weight"
            rows[key] = ("float32", tuple(array.shape), np.ascontiguousarray(array))
    write_safetensors(folder / "adapter_model.safetensors", rows)
    return folder


def write_gguf(
    path: Path,
    values: Mapping[str, tuple[Any, Any]],
    architecture: str = "llama",
    alpha: float = 8.0,
    kinds: Mapping[str, str] | None = None,
) -> Path:
    """An adapter as llama.cpp's converter writes it; names are those of the base's GGUF tensors.
    ``kinds`` replaces ``general.type`` and ``adapter.type``."""
    import gguf

    writer = gguf.GGUFWriter(str(path), architecture)
    said = {"general.type": "adapter", "adapter.type": "lora", **(kinds or {})}
    for key, value in said.items():
        writer.add_string(key, value)
    writer.add_float32("adapter.lora.alpha", alpha)
    for name, (down, up) in values.items():
        writer.add_tensor(f"{name}.lora_a", np.ascontiguousarray(down))
        writer.add_tensor(f"{name}.lora_b", np.ascontiguousarray(up))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def merged(model: Any, *parts: tuple[Matrices, float]) -> Any:
    """A copy of a transformers model whose weights are W + scale * B A, in float64."""
    import torch

    model = copy.deepcopy(model)
    modules = dict(model.named_modules())
    with torch.no_grad():
        for values, scale in parts:
            for name, (down, up) in values.items():
                weight = modules[name].weight
                delta = up.astype(np.float64) @ down.astype(np.float64) * scale
                weight.copy_((weight.double() + torch.from_numpy(delta)).to(weight.dtype))
    return model
