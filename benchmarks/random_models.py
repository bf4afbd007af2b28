"""Models of published shapes with random weights, made on a device: what a step costs depends on
their sizes and types alone.

    model = random_model(QWEN2_5_0_5B, "bfloat16", crt.Device("cuda"))
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import clika_runtime as crt
from benchmarks.checkpoints import MINIMUM, SCALES
from clika_runtime import nn
from clika_runtime._native._core import pack_weight
from clika_runtime.dtypes import by_name
from clika_runtime.io.schemes import SCHEMES_BY_NAME
from clika_runtime.modelverse.config import Fields
from clika_runtime.modelverse.requirements import owners

__all__ = ["GEMMA3_270M", "LLAMA3_8B", "QWEN2_5_0_5B", "TINY", "Published", "moved", "random_model"]

_TILE = 1 << 24  # elements drawn; larger weights repeat them


@dataclass(frozen=True)
class Published:
    """A model's name, the module of its family and its configuration as published."""

    name: str
    family: str
    config: Mapping[str, Any]

    def cut(self, **config: Any) -> Published:
        """The same with other sizes."""
        return Published(self.name, self.family, {**self.config, **config})


QWEN2_5_0_5B = Published(
    "Qwen2.5-0.5B",
    "clika_family_qwen.qwen",
    {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
    },
)
LLAMA3_8B = Published(
    "Llama-3-8B",
    "clika_family_llama.llama",
    {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
    },
)
GEMMA3_270M = Published(
    "Gemma-3-270M",
    "clika_family_gemma.gemma",
    {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_size": 640,
        "intermediate_size": 2048,
        "num_hidden_layers": 18,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "vocab_size": 262144,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "query_pre_attn_scalar": 256,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
    },
)
#: For trying the benchmark where nothing is fast.
TINY = LLAMA3_8B.cut(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=512,
)


class _Source:
    """Weights of any size out of a few drawn numbers, every one in memory of its own."""

    def __init__(self, kind: str, compute: Any, device: Any) -> None:
        import numpy as np

        self.kind = kind
        self.compute = compute
        self.device = device
        self.random = np.random.default_rng(7)
        drawn = self.random.standard_normal(_TILE, dtype=np.float32)
        self.tile = crt.tensor(drawn).to(compute).to(device)
        self.blocks: dict[tuple[int, int], Any] = {}

    def dense(self, shape: tuple[int, ...], scale: float, dtype: Any) -> Any:
        """Normal numbers of that deviation."""
        count = 1
        for size in shape:
            count *= size
        flat = crt.empty((count,), dtype=dtype, device=self.device)
        tile = (self.tile * scale).to(dtype)
        for start in range(0, count, _TILE):
            stop = min(count, start + _TILE)
            crt.copy_(flat[start:stop], tile[: stop - start])
        return flat.reshape(shape)

    def packed(self, shape: tuple[int, int]) -> Any:
        """Random codes of the kind under scales that give numbers of deviation ``columns **
        -0.5``."""
        import numpy as np

        rows, columns = shape
        if shape not in self.blocks:
            few = min(rows, max(1, _TILE // columns))
            sample = over(self._codes(16, columns, 1.0), (16, columns), self.kind)
            deviation = float(crt.dequantize(sample, dtype=crt.float32).numpy().std())
            drawn = self._codes(few, columns, columns**-0.5 / deviation)
            self.blocks[shape] = np.tile(drawn, (-(-rows // few), 1))[:rows]
        return over(self.blocks[shape], shape, self.kind).to(self.device)

    def _codes(self, rows: int, columns: int, scale: float) -> Any:
        """Random blocks under one scale: uint8 [rows, bytes of a row]."""
        import numpy as np

        scheme = SCHEMES_BY_NAME[f"GGUF_{self.kind}"]
        count = rows * columns // scheme.columns
        data = self.random.integers(0, 256, (count, scheme.nbytes), np.uint8)
        for place, at in enumerate(SCALES[self.kind]):
            value = np.float16(scale * MINIMUM[self.kind] if place else scale)
            data[:, at : at + 2] = np.frombuffer(value.tobytes(), np.uint8)
        return data.reshape(rows, -1)


def over(data: Any, shape: tuple[int, int], kind: str) -> Any:
    """A packed weight over blocks as they are published."""
    scheme = SCHEMES_BY_NAME[f"GGUF_{kind}"].number
    return crt.Tensor.from_buffer(data, shape, crt.float32, scheme=scheme, mapped=False)


def random_model(about: Published, kind: str, device: Any, compute: Any = None) -> Any:
    """The family's tree with weights of a dtype, or of a GGUF type under activations of ``compute``
    (float32 when None, as such a file is loaded)."""
    family = importlib.import_module(about.family).FAMILY
    config = family.config_from_hf(Fields(dict(about.config), "config.json"))
    dense = kind in ("bfloat16", "float16", "float32")
    compute = by_name(kind) if dense else compute or crt.float32
    model = family.build(config, compute)
    source = _Source(kind, compute, device)
    table = getattr(model, "table", None)
    tied = bool(getattr(model, "tied", False))
    for _, owner, attribute in owners(model):
        shape = tuple(int(size) for size in getattr(owner, attribute).shape)
        linear = isinstance(owner, nn.Linear) and attribute == "weight"
        if not dense and (linear or isinstance(owner, nn.Embedding)):
            mode = "fast" if linear or (tied and owner is table) else "table"
            value = pack_weight(source.packed(shape), mode)
            owner.mode = "exact" if mode == "table" else mode
        elif len(shape) > 1:
            value = source.dense(shape, shape[-1] ** -0.5, compute)
        else:  # norms near one, biases near zero
            value = source.dense(shape, 0.1, compute)
            if attribute == "weight":
                value = value + 1.0
        if isinstance(owner, nn.Embedding):
            owner.output_dtype = compute
        setattr(owner, attribute, value)
    return model


def moved(about: Published, model: Any, device: Any, compute: Any) -> Any:
    """A tree of the same weights on a device, dense ones in the dtype ``compute``."""
    family = importlib.import_module(about.family).FAMILY
    config = family.config_from_hf(Fields(dict(about.config), "config.json"))
    other = family.build(config, compute)
    for (_, owner, attribute), (_, target, _) in zip(owners(model), owners(other), strict=True):
        value = getattr(owner, attribute)
        value = value if value.scheme else value.to(compute)
        setattr(target, attribute, value.to(device))
        for name in ("mode", "output_dtype"):
            if name in vars(owner):
                setattr(target, name, vars(owner)[name])
        if isinstance(target, nn.Embedding):
            target.output_dtype = compute
    return other
