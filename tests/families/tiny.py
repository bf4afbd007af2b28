"""Tiny random checkpoints of transformers' own classes, and the same weights as GGUF files."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

VOCAB = 192
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "rms_norm_eps": 1e-5,
    "attn_implementation": "eager",  # the one that knows every setting
}


@dataclass
class Tiny:
    """A checkpoint's folder and its model in transformers."""

    folder: Path
    model: Any

    @property
    def config(self) -> Any:
        return self.model.config

    def reference(self, ids: Sequence[int]) -> Any:
        """Logits of transformers after each id, float32."""
        import torch

        with torch.no_grad():
            return self.model(torch.tensor([list(ids)]), use_cache=False).logits[0].float().numpy()


def make(
    folder: Path,
    model_class: Any,
    config: Any,
    dtype: str = "float32",
    *,
    offset: float = 0.0,
    shards: bool = False,
    seed: int = 0,
) -> Tiny:
    """Writes a checkpoint with large random weights: norms away from 1 and biases away from 0.

    ``offset`` is what the model adds to the weights of its norms."""
    import torch

    torch.manual_seed(seed)
    model = model_class(config).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "norm" in name:
                value.uniform_(0.5 - offset, 1.5 - offset)
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

    with quiet():
        model = type(tiny.model).from_pretrained(
            tiny.folder, dtype=getattr(torch, dtype), attn_implementation="eager"
        )
    return Tiny(tiny.folder, model.eval())


def ids(count: int, seed: int = 5) -> list[int]:
    """Random token ids."""
    return [int(i) for i in np.random.default_rng(seed).integers(0, VOCAB, count)]


# ---- GGUF
Change = Callable[[str, Any, Any], Any]


def unchanged(name: str, array: Any, config: Any) -> Any:
    """The tensor as transformers has it."""
    return array


@dataclass(frozen=True)
class Layout:
    """How an architecture's GGUF files hold what transformers calls by other names.

    ``store(name, array, config)`` turns a tensor into the file's form and ``restore`` back;
    ``describe(writer, config)`` adds the metadata of its own."""

    architecture: str
    store: Change = unchanged
    restore: Change = unchanged
    describe: Callable[[Any, Any], None] = lambda writer, config: None

    def gguf_name(self, name: str) -> str:
        """The file's name of a tensor, by the `gguf` package's own table."""
        import gguf

        numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
        table = gguf.get_tensor_name_map(numbers[self.architecture], SIZES["num_hidden_layers"] + 8)
        found = table.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found is not None, name
        return found


def _stored(tiny: Tiny) -> Iterator[str]:
    for name in tiny.model.state_dict():
        if name != "lm_head.weight" or not tiny.config.tie_word_embeddings:
            yield name


def write_gguf(
    tiny: Tiny,
    path: Path,
    layout: Layout,
    kind: Callable[[str], str] = lambda name: "F32",
    **extra: Any,
) -> Path:
    """The checkpoint as a GGUF file; ``kind`` gives the type of each matrix by its GGUF name;
    ``extra`` are further metadata, under the architecture's name."""
    import gguf

    config = tiny.config
    writer = gguf.GGUFWriter(path, layout.architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    size = getattr(config, "head_dim", None)
    if size is not None:
        writer.add_key_length(size)
        writer.add_value_length(size)
    layout.describe(writer, config)
    for key, value in extra.items():
        writer.add_key_value(f"{layout.architecture}.{key}", value, _value_type(value))
    state = tiny.model.state_dict()
    for name in _stored(tiny):
        array = layout.store(name, state[name].float().numpy(), config)
        target = layout.gguf_name(name)
        wanted = kind(target) if array.ndim == 2 else "F32"
        if wanted == "F32":
            writer.add_tensor(target, np.ascontiguousarray(array))
        else:
            quantized = gguf.GGMLQuantizationType[wanted]
            writer.add_tensor(target, gguf.quants.quantize(array, quantized), raw_dtype=quantized)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _value_type(value: Any) -> Any:
    import gguf

    if isinstance(value, list):
        return gguf.GGUFValueType.ARRAY
    if isinstance(value, int) and not isinstance(value, bool):
        return gguf.GGUFValueType.UINT32
    return gguf.GGUFValueType.get_type(value)


def add_rope(writer: Any, rope: Any) -> None:
    """The rotary settings of a `rope_parameters` section as llama.cpp's converter writes them."""
    import gguf

    kind = rope["rope_type"]
    writer.add_rope_freq_base(rope["rope_theta"])
    if kind in ("linear", "yarn", "longrope"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_factor(rope["factor"])
    if kind in ("yarn", "longrope"):
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if kind == "yarn":
        for key, add in (
            ("beta_fast", writer.add_rope_scaling_yarn_beta_fast),
            ("beta_slow", writer.add_rope_scaling_yarn_beta_slow),
        ):
            if rope.get(key) is not None:
                add(rope[key])
    if kind == "longrope":
        writer.add_rope_scaling_attn_factors(rope["attention_factor"])
        for name in ("short", "long"):
            factors = np.array(rope[f"{name}_factor"], np.float32)
            writer.add_tensor(f"rope_factors_{name}.weight", factors)


def dequantized(tiny: Tiny, path: Path, layout: Layout) -> Tiny:
    """The model in transformers with the values that a quantized GGUF file stands for."""
    import copy

    import gguf
    import torch

    found = {t.name: t for t in gguf.GGUFReader(path).tensors}
    model = copy.deepcopy(tiny.model).float()
    state = {}
    for name in _stored(tiny):
        tensor = found[layout.gguf_name(name)]
        array = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        state[name] = torch.from_numpy(np.array(layout.restore(name, array, tiny.config)))
    model.load_state_dict(state, strict=not tiny.config.tie_word_embeddings)
    return Tiny(tiny.folder, model)
