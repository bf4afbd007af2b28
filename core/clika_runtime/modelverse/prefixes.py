"""Prefixes that a cache keeps when their sequences are gone, and prompts that begin with them.

By the numerics policy the rows of a token are the same whatever was computed beside it, so a prompt
that begins as an earlier text takes that text's rows, to the bit. Only blocks are held, which the
sequences of the cache share; where a step needs room, prefixes are let go, the one used longest ago
first. So they cost nothing beyond the pools that the cache has anyway."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .cache import KVCache, Snapshot

__all__ = ["LEAST", "Prefix", "PrefixStore", "common_length", "opening"]

#: Tokens that a prompt and a prefix have in common at least, else nothing is taken.
LEAST = 16
#: Prefixes that are kept at most.
MOST = 256


@dataclass(eq=False)
class Prefix:
    """The content of a sequence that is gone."""

    tokens: Any  # int32 [length]
    snapshot: Snapshot


class PrefixStore:
    """The prefixes of one cache; under the lock of its engine.

    store = PrefixStore(cache)
    store.keep(sequence, tokens)  # before the sequence is removed
    known = store.take(other, prompt)  # an empty sequence; the tokens that it holds now
    """

    def __init__(self, cache: KVCache) -> None:
        self.cache = cache
        self._kept: OrderedDict[int, Prefix] = OrderedDict()
        self._number = 0
        cache.reclaim = self.let_go

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def latest(self) -> Prefix | None:
        """The prefix used last."""
        return next(reversed(self._kept.values()), None)

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks that prefixes hold, in the cache's pools."""
        blocks = {block for kept in self._kept.values() for block in kept.snapshot.blocks}
        return len(blocks) * self.cache.block_size * self.cache.nbytes_per_token

    def keep(self, sequence: int, tokens: Sequence[int]) -> None:
        """Keeps what the sequence holds: ``tokens``, as many of them as it has."""
        import numpy as np

        length = min(self.cache.length(sequence), len(tokens))
        if length < LEAST:
            return
        self.cache.truncate(sequence, length)
        text = np.asarray(tokens[:length], np.int32)
        for number, kept in list(self._kept.items()):
            common = common_length(text, kept.tokens)
            if common == length:  # the longer one serves for both
                self._kept.move_to_end(number)
                return
            if common == len(kept.tokens):
                self._drop(number)
        self.add(Prefix(text, self.cache.snapshot(sequence)))

    def add(self, prefix: Prefix) -> None:
        """Keeps a prefix whose blocks are held for it."""
        self._kept[self._number] = prefix
        self._number += 1
        if len(self._kept) > MOST:
            self.let_go()

    def find(self, tokens: Any) -> tuple[int, Prefix | None]:
        """The prefix that has the most tokens in common with an array of tokens, and how many."""
        best, found = 0, None
        for number, kept in self._kept.items():
            common = common_length(tokens, kept.tokens)
            if common > best:
                best, found = common, number
        if found is None or best < LEAST:
            return 0, None
        self._kept.move_to_end(found)
        return best, self._kept[found]

    def take(self, sequence: int, tokens: Sequence[int]) -> int:
        """Gives an empty sequence what is known of the prompt but its last token; returns how many
        tokens that are."""
        import numpy as np

        common, found = self.find(np.asarray(tokens[:-1], np.int32))
        if found is not None:
            self.cache.restore(sequence, found.snapshot)
            self.cache.truncate(sequence, common)
        return common

    def forget(self, tokens: Any) -> None:
        """Forgets what an array of tokens may have taken rows from."""
        for number, kept in list(self._kept.items()):
            if common_length(tokens, kept.tokens):
                self._drop(number)

    def let_go(self) -> bool:
        """Forgets the prefix used longest ago; False where there is none."""
        number = next(iter(self._kept), None)
        if number is None:
            return False
        self._drop(number)
        return True

    def clear(self) -> None:
        """Forgets every prefix."""
        while self.let_go():
            pass

    def _drop(self, number: int) -> None:
        self.cache.release(self._kept.pop(number).snapshot)


def opening(tokens: Any) -> bytes:
    """What two arrays have in common that have `LEAST` tokens in common."""
    return bytes(tokens[:LEAST].tobytes())


def common_length(a: Any, b: Any) -> int:
    """How many tokens two arrays begin with alike; 0 where they are fewer than `LEAST`."""
    if opening(a) != opening(b) or len(a) < LEAST:
        return 0
    size = min(len(a), len(b))
    differs = a[:size] != b[:size]
    place = int(differs.argmax())
    return place if differs[place] else size
