"""The part of a configuration that decoders share, from `config.json` and from GGUF metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .config import LIMITS, Fields, read_stop_ids
from .rope_scaling import DEFAULT_THETA, RopeScaling

__all__ = ["DecoderConfig", "Shapes", "interleaved_rows", "read_layer_types"]

Shapes = Mapping[str, tuple[int, ...]]
Config = TypeVar("Config", bound="DecoderConfig")


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and switches of a decoder, under the names that `config.json` uses.

    ``max_position_embeddings`` is the context that the model serves, scaling included.
    ``rope_interleaved`` says how a head's elements pair up: False in transformers' checkpoints,
    True in GGUF files whose query and key rows are stored in another order."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = DEFAULT_THETA
    rope_scaling: RopeScaling = field(default_factory=RopeScaling)
    rope_interleaved: bool = False
    tie_word_embeddings: bool = False
    eos_token_ids: tuple[int, ...] = ()

    @classmethod
    def read_hf(
        cls: type[Config],
        fields: Fields,
        *,
        positions: int = 2048,
        head_dim: int | None = None,
        rope: tuple[float, RopeScaling] | None = None,
        **switches: Any,
    ) -> Config:
        """Reads a `config.json`; ``switches`` are the family's own fields.

        ``positions`` and ``head_dim`` are the family's defaults (None: hidden / heads). ``rope`` is
        (theta, scaling) where the family reads them itself."""
        partial = fields.number("partial_rotary_factor", 1.0)
        if partial != 1.0:
            raise fields.unsupported("partial_rotary_factor", f"is {partial:g}; served is 1")
        hidden = fields.integer("hidden_size", high=LIMITS["hidden"])
        heads = fields.integer("num_attention_heads", high=LIMITS["heads"])
        vocab = fields.integer("vocab_size", high=LIMITS["vocab"])
        trained = fields.integer("max_position_embeddings", positions, high=LIMITS["positions"])
        theta, scaling = rope or RopeScaling.from_hf(fields, trained)
        size = fields.integer("head_dim", head_dim, high=LIMITS["head_dim"])
        kv_heads = fields.integer("num_key_value_heads", heads, high=LIMITS["heads"])
        values = {
            "hidden_size": hidden,
            "intermediate_size": fields.integer("intermediate_size", high=LIMITS["intermediate"]),
            "num_hidden_layers": fields.integer("num_hidden_layers", high=LIMITS["layers"]),
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": size
            or _divided(fields, "hidden_size", hidden, "num_attention_heads", heads, "head_dim"),
            "vocab_size": vocab,
            "max_position_embeddings": scaling.window(trained),
            "rms_norm_eps": fields.number("rms_norm_eps", 1e-6, low=0.0, high=1.0),
            "rope_theta": theta,
            "rope_scaling": scaling,
            "tie_word_embeddings": fields.boolean("tie_word_embeddings", False),
            "eos_token_ids": read_stop_ids(fields, "eos_token_id", vocab),
        }
        config = cls(**{**values, **switches})
        config.check(fields, "num_attention_heads", "num_key_value_heads")
        return config

    @classmethod
    def read_gguf(
        cls: type[Config],
        fields: Fields,
        shapes: Shapes,
        *,
        rope: tuple[float, RopeScaling] | None = None,
        **switches: Any,
    ) -> Config:
        """Reads GGUF metadata, with the shapes of the file's tensors; ``rope`` and ``switches`` as
        in ``read_hf``."""
        hidden = fields.integer("embedding_length", high=LIMITS["hidden"])
        heads = fields.integer("attention.head_count", high=LIMITS["heads"])
        kv_heads = fields.integer("attention.head_count_kv", heads, high=LIMITS["heads"])
        size = fields.integer("attention.key_length", None, high=LIMITS["head_dim"])
        head_dim = size or _divided(
            fields,
            "embedding_length",
            hidden,
            "attention.head_count",
            heads,
            "attention.key_length",
        )
        value_dim = fields.integer("attention.value_length", head_dim, high=LIMITS["head_dim"])
        fields.agree("attention.value_length", value_dim, "the head size", head_dim)
        rotary_dim = fields.integer("rope.dimension_count", head_dim, high=LIMITS["head_dim"])
        if rotary_dim != head_dim:
            raise fields.unsupported(
                "rope.dimension_count", f"is {rotary_dim}; served is the whole head, {head_dim}"
            )
        experts = fields.integer("expert_count", 0, low=0)
        if experts:
            raise fields.unsupported("expert_count", f"is {experts}; served are dense models")
        rows = shapes.get("token_embd.weight", (0, 0))[0]
        vocab = fields.integer("vocab_size", rows or None, high=LIMITS["vocab"])
        if vocab is None:
            raise fields.fail("vocab_size", "is missing and there is no tensor 'token_embd.weight'")
        trained = fields.integer("context_length", high=LIMITS["positions"])
        theta, scaling = rope or RopeScaling.from_gguf(fields, shapes, trained)
        values = {
            "hidden_size": hidden,
            "intermediate_size": fields.integer("feed_forward_length", high=LIMITS["intermediate"]),
            "num_hidden_layers": fields.integer("block_count", high=LIMITS["layers"]),
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "vocab_size": vocab,
            "max_position_embeddings": scaling.window(trained),
            "rms_norm_eps": fields.number(
                "attention.layer_norm_rms_epsilon", 1e-6, low=0.0, high=1.0
            ),
            "rope_theta": theta,
            "rope_scaling": scaling,
            "tie_word_embeddings": "output.weight" not in shapes,
        }
        config = cls(**{**values, **switches})
        config.check(fields, "attention.head_count", "attention.head_count_kv")
        return config

    def check(self, fields: Fields, heads_key: str, kv_key: str) -> None:
        """Refuses heads that do not group, or do not pair up."""
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if heads % kv_heads:
            raise fields.fail(
                kv_key, f"is {kv_heads}, which does not divide {heads}, '{heads_key}'"
            )
        if self.head_dim % 2:
            raise fields.fail(
                heads_key, f"gives heads of {self.head_dim}; rotary needs an even size"
            )
        self.rope_scaling.check(fields, self.head_dim)


def _divided(
    fields: Fields, hidden_key: str, hidden: int, heads_key: str, heads: int, key: str
) -> int:
    """The head size that is not given: an equal part of the hidden size."""
    if hidden % heads:
        raise fields.fail(
            hidden_key,
            f"is {hidden}, not a multiple of {heads}, '{heads_key}', and no '{key}' is given",
        )
    return hidden // heads


def read_layer_types(fields: Fields, layers: int) -> tuple[bool, ...] | None:
    """`layer_types` of a `config.json`: per layer whether it attends within the sliding window;
    None when the key is absent."""
    value = fields.get("layer_types", None)
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != layers:
        raise fields.fail(
            "layer_types", f"must be a list of {layers} names, one for each hidden layer"
        )
    served = ("full_attention", "sliding_attention")
    for index, name in enumerate(value):
        if name not in served:
            raise fields.unsupported(
                "layer_types",
                f"names {name!r:.60} at layer {index}; served are {', '.join(served)}",
            )
    return tuple(name == "sliding_attention" for name in value)


def interleaved_rows(config: DecoderConfig, slot: str) -> list[int] | None:
    """`Family.gguf_row_order` of GGUF files that store query and key rows for neighbouring rotary
    pairs: row ``2i`` of a head is its row ``i``, row ``2i + 1`` its row ``i + head_dim / 2``.

    None for every slot that is no query or key projection."""
    module = slot.split(".")[-2:-1]
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = heads.get(module[0] if module else "")
    if count is None:
        return None
    half = config.head_dim // 2
    return [
        head * config.head_dim + pair + part * half
        for head in range(count)
        for pair in range(half)
        for part in (0, 1)
    ]
