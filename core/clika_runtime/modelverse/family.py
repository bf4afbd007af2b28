"""What a family's code gives to the shared loader: a plain object, loaded by name from its
registration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .config import Fields
from .rope_scaling import FREQS_TENSOR, LONG_TENSOR, SHORT_TENSOR

__all__ = ["GGUF_DECODER_NAMES", "GGUF_ROPE_TENSORS", "Family", "checkpoint_kind"]

_LAYER = re.compile(r"(^|\.)(\d+)(?=\.|$)")

# Names that decoders share: GGUF's on the left, the tree's (transformers') on the right.
GGUF_DECODER_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.{}.attn_norm": "model.layers.{}.input_layernorm",
    "blk.{}.attn_q": "model.layers.{}.self_attn.q_proj",
    "blk.{}.attn_k": "model.layers.{}.self_attn.k_proj",
    "blk.{}.attn_v": "model.layers.{}.self_attn.v_proj",
    "blk.{}.attn_output": "model.layers.{}.self_attn.o_proj",
    "blk.{}.attn_q_norm": "model.layers.{}.self_attn.q_norm",
    "blk.{}.attn_k_norm": "model.layers.{}.self_attn.k_norm",
    "blk.{}.ffn_norm": "model.layers.{}.post_attention_layernorm",
    "blk.{}.ffn_gate": "model.layers.{}.mlp.gate_proj",
    "blk.{}.ffn_up": "model.layers.{}.mlp.up_proj",
    "blk.{}.ffn_down": "model.layers.{}.mlp.down_proj",
}

# Divisors of the rotary frequencies, and the methods of ``CausalLM`` that take them.
GGUF_ROPE_TENSORS = {
    FREQS_TENSOR: "set_rope_factors",
    SHORT_TENSOR: "set_short_rope_factors",
    LONG_TENSOR: "set_long_rope_factors",
}


@dataclass(frozen=True)
class Family:
    """A family states how its config is read, how its module tree is built, and its names.

    ``config_from_hf(fields)`` reads a `config.json`; ``config_from_gguf(fields, shapes)`` reads
    GGUF metadata, with the shapes of the file's tensors. ``build(config, dtype)`` makes the
    storage-free tree. ``gguf_names`` maps a checkpoint name with ``{}`` for the layer number to the
    tree's name, and ``gguf_names_by_architecture`` those that one architecture names otherwise;
    safetensors names are the tree's own unless ``renames`` (prefix -> prefix) says otherwise.
    ``ignored`` are patterns of checkpoint names that carry nothing; ``extras`` maps a
    checkpoint name to the model's method that takes the tensor as a NumPy array.

    ``gguf_row_order(config, slot)`` is for families whose GGUF files store the rows of a weight in
    another order than safetensors: which row of the latter each of the former is, None where the
    order is the same. Adapters of one form on a base of the other need it."""

    name: str
    config_from_hf: Callable[[Fields], Any]
    build: Callable[[Any, Any], Any]
    config_from_gguf: Callable[[Fields, Mapping[str, tuple[int, ...]]], Any] | None = None
    gguf_names: Mapping[str, str] = field(default_factory=dict)
    gguf_names_by_architecture: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    extras: Mapping[str, str] = field(default_factory=dict)
    gguf_row_order: Callable[[Any, str], Sequence[int] | None] | None = None

    def tree_name(self, name: str, kind: str, architecture: str = "") -> str:
        """The tree's name for a checkpoint's tensor; an unknown name comes back as it is.

        >>> names = {"blk.{}.attn_q": "model.layers.{}.self_attn.q_proj"}
        >>> family = Family("f", dict, dict, gguf_names=names)
        >>> family.tree_name("blk.3.attn_q.weight", "gguf")
        'model.layers.3.self_attn.q_proj.weight'
        """
        if kind == "gguf":
            stem, dot, leaf = name.rpartition(".")
            match = _LAYER.search(stem)
            pattern = (
                stem if match is None else f"{stem[: match.start(2)]}{{}}{stem[match.end(2) :]}"
            )
            own = self.gguf_names_by_architecture.get(architecture, {})
            target = own.get(pattern) or self.gguf_names.get(pattern)
            if target is None or not dot:
                return name
            return f"{target.format(match[2]) if match else target}.{leaf}"
        for old, new in self.renames.items():
            if name.startswith(old):
                return new + name[len(old) :]
        return name

    def is_ignored(self, name: str) -> bool:
        """Whether a checkpoint's tensor carries nothing that the tree needs."""
        return any(re.fullmatch(pattern, name) for pattern in self.ignored)


def checkpoint_kind(fields: Fields, kinds: Mapping[str, str]) -> str:
    """Which kind of its family a `config.json` is: ``kinds`` maps architectures and model types to
    kinds. The first of `architectures` says it; where that is no known one, `model_type`.

    >>> kinds = {"Qwen3ForCausalLM": "qwen3", "qwen3": "qwen3"}
    >>> checkpoint_kind(Fields({"model_type": "qwen3"}, "config.json"), kinds)
    'qwen3'
    """
    names = fields.get("architectures", None)
    first = names[0] if isinstance(names, list) and names else None
    model_type = fields.text("model_type", "")
    for name in (first, model_type):
        if isinstance(name, str) and name in kinds:
            return kinds[name]
    raise fields.unsupported("model_type", f"is '{model_type}'; served are {', '.join(kinds)}")
