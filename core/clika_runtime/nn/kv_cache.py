"""Keys and values of earlier tokens, for modules that call `group_query_attention_varlen`.

A plain cache: every sequence has a row of fixed length in one tensor per layer. (What the model
library generates with is ``modelverse.cache``: paged, shared between requests.)"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError

__all__ = ["KVCache", "KVCacheConfig", "KVLayerSpec", "StepIndices"]

_MOST = (1 << 31) - 1  # positions and slots are int32


@dataclass(frozen=True)
class KVCacheConfig:
    """Sizes of a cache: ``max_seqs`` sequences of at most ``max_tokens_per_seq`` tokens, with
    ``num_kv_heads`` heads of ``head_dim`` elements of ``kv_dtype`` in each of ``num_layers``."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    kv_dtype: Any = field(default_factory=lambda: crt.float32)
    max_seqs: int = 1
    max_tokens_per_seq: int = 4096
    device: Any = "cpu"

    def __post_init__(self) -> None:
        names = ("num_layers", "num_kv_heads", "head_dim", "max_seqs", "max_tokens_per_seq")
        for name in names:
            _whole("KVCacheConfig", name, getattr(self, name), 1)


@dataclass(frozen=True)
class KVLayerSpec:
    """How a layer's rows are kept: ``preallocate`` makes them with the cache, else they are made
    when they are first asked for."""

    preallocate: bool = False


@dataclass(frozen=True)
class StepIndices:
    """What `group_query_attention_varlen` reads of a step of B sequences: int32 tensors of the
    cache's device, and the length of the longest sequence.

    ``cu_seqlens_q`` and ``cu_seqlens_k`` [B + 1] are the cumulative lengths of the new tokens and
    of the sequences with them, ``kvcache_start`` [B] the tokens that came before, ``slot_ids`` [B]
    the sequences' rows of the cache."""

    cu_seqlens_q: Any
    cu_seqlens_k: Any
    kvcache_start: Any
    slot_ids: Any
    max_seqlen_k: int


class KVCache:
    """One key and one value tensor ``[max_seqs, num_kv_heads, max_tokens_per_seq, head_dim]`` per
    layer. Made by ``make``.

        config = nn.KVCacheConfig(num_layers=2, num_kv_heads=1, head_dim=8, max_tokens_per_seq=64)
        cache = nn.KVCache.make(config, [nn.KVLayerSpec(preallocate=True)] * 2)
        step = cache.prepare_step([0, 5], [0], [0])  # five tokens of a new sequence
    """

    def __init__(self, config: KVCacheConfig, specs: Sequence[KVLayerSpec]) -> None:
        if len(specs) != config.num_layers:
            raise InvalidArgumentError(
                f"KVCache: {len(specs)} layer specs are given for {config.num_layers} layer(s)"
            )
        self.config = config
        self._rows: list[tuple[Any, Any] | None] = [None] * config.num_layers
        self._written = [0] * config.max_seqs  # tokens of each slot that steps were made for
        for layer, spec in enumerate(specs):
            if spec.preallocate:
                self._layer(layer)

    @classmethod
    def make(cls, config: KVCacheConfig, specs: Sequence[KVLayerSpec]) -> KVCache:
        """An empty cache; ``specs`` has an entry for each layer."""
        return cls(config, specs)

    def num_layers(self) -> int:
        """How many layers have rows."""
        return self.config.num_layers

    def keys(self, layer: int) -> Any:
        """The key rows of a layer, the same tensor each time."""
        return self._layer(layer)[0]

    def values(self, layer: int) -> Any:
        """The value rows of a layer, the same tensor each time."""
        return self._layer(layer)[1]

    def _layer(self, layer: int) -> tuple[Any, Any]:
        config = self.config
        if not 0 <= layer < config.num_layers:
            raise InvalidArgumentError(
                f"kv cache layer {layer} is out of range: the cache has {config.num_layers} "
                "layer(s)"
            )
        rows = self._rows[layer]
        if rows is None:
            shape = (
                config.max_seqs,
                config.num_kv_heads,
                config.max_tokens_per_seq,
                config.head_dim,
            )
            key, value = (
                crt.zeros(shape, dtype=config.kv_dtype, device=config.device) for _ in range(2)
            )
            rows = self._rows[layer] = key, value
        return rows

    def prepare_step(
        self, cum_q_lens: Sequence[int], past_lens: Sequence[int], slots: Sequence[int]
    ) -> StepIndices:
        """The indices of a step of B sequences: ``cum_q_lens`` [B + 1] are the cumulative lengths
        of their new tokens, from 0 on, ``past_lens`` [B] how many tokens each has in the cache,
        ``slots`` [B] its row there.

        `InvalidArgumentError` for lengths that do not fit together, a slot that the cache lacks or
        that is named twice, and a sequence that grows beyond ``max_tokens_per_seq``.
        """
        name = "KVCache.prepare_step"
        bounds = [_whole(name, "cum_q_lens", value, 0) for value in cum_q_lens]
        past = [_whole(name, "past_lens", value, 0) for value in past_lens]
        rows = [_whole(name, "slots", value, 0) for value in slots]
        if len(bounds) < 2 or not len(bounds) - 1 == len(past) == len(rows):
            raise InvalidArgumentError(
                f"{name}: a step of B sequences has B + 1 cum_q_lens, B past_lens and B slots; "
                f"{len(bounds)}, {len(past)} and {len(rows)} are given"
            )
        counts = [stop - start for start, stop in itertools.pairwise(bounds)]
        if bounds[0] != 0 or min(counts) < 1:
            raise InvalidArgumentError(
                f"{name}: cum_q_lens begin with 0 and grow with every sequence, got {bounds!s:.80}"
            )
        lengths = [before + count for before, count in zip(past, counts, strict=True)]
        self._check_slots(name, rows, lengths)
        for slot, length in zip(rows, lengths, strict=True):
            self._written[slot] = max(self._written[slot], length)
        numbers = (bounds, [0, *itertools.accumulate(lengths)], past, rows)
        q, k, start, slot_ids = (
            crt.tensor(row, dtype=crt.int32, device=self.config.device) for row in numbers
        )
        return StepIndices(q, k, start, slot_ids, max(lengths))

    def _check_slots(self, name: str, slots: list[int], lengths: list[int]) -> None:
        config = self.config
        if len(set(slots)) != len(slots):
            raise InvalidArgumentError(f"{name}: a slot is named twice in {slots!s:.80}")
        for slot, length in zip(slots, lengths, strict=True):
            if slot >= config.max_seqs:
                raise InvalidArgumentError(
                    f"{name}: slot {slot} is out of range: the cache has {config.max_seqs} slot(s)"
                )
            if length > config.max_tokens_per_seq:
                raise InvalidArgumentError(
                    f"{name}: the sequence of slot {slot} would have {length} tokens, the cache "
                    f"holds {config.max_tokens_per_seq}; raise max_tokens_per_seq"
                )

    def reset(self) -> None:
        """Empties the cache: what steps have written is zero again. The tensors stay."""
        for slot, length in enumerate(self._written):
            if not length:
                continue
            for key, value in filter(None, self._rows):
                key[slot, :, :length].zero_()
                value[slot, :, :length].zero_()
            self._written[slot] = 0


def _whole(owner: str, name: str, value: Any, least: int) -> int:
    good = hasattr(value, "__index__") and not isinstance(value, bool)
    if not good or not least <= value.__index__() <= _MOST:
        raise InvalidArgumentError(
            f"{owner}: {name} takes whole numbers from {least} to {_MOST}, got {value!r:.80}"
        )
    return int(value.__index__())
