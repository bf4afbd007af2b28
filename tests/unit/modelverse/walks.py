"""Random replies under a constraint: a model that knows nothing but the mask."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clika_runtime.modelverse.constraints import ConstraintState
from clika_runtime.tokenizer import Tokenizer

__all__ = ["allowed", "tokens_of", "walk"]

#: What closes something, tried in this order once a walk is to come to its end.
CLOSERS = ('"', "}", "]", ")", ",", ":", "0", "e", "t", "\n")


def allowed(mask: NDArray[np.int32]) -> NDArray[np.int64]:
    """The ids whose bit is set."""
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))


@lru_cache(maxsize=8)
def _closing_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    ids = {tokenizer.token_bytes(index): index for index in range(tokenizer.vocab_size)}
    return tuple(ids[text.encode()] for text in CLOSERS if text.encode() in ids)


def tokens_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids whose bytes are the text; special tokens in it are one each."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    if ids and (tokenizer.token_bytes(ids[0]) or b"").decode(errors="replace") == " ":
        ids = ids[1:] if not text.startswith(" ") else ids
    return ids


def walk(
    state: ConstraintState,
    tokenizer: Tokenizer,
    rng: random.Random,
    *,
    patience: int = 40,
    limit: int = 600,
    endings: Sequence[str] = (),
    record: list[Any] | None = None,
) -> list[int]:
    """The ids of a random reply. After ``patience`` tokens it hurries: it stops where it may, takes
    an ending whole where one fits, and else what closes something."""
    ids: list[int] = []
    stops = tokenizer.stop_ids
    tails = [tokens_of(tokenizer, text) for text in endings]
    while not state.finished and len(ids) < limit:
        hurried = len(ids) >= patience
        if state.accepting and (hurried or rng.random() < 0.3):
            break
        mask = state.mask()
        if record is not None:
            record.append(mask.copy())
        choices = allowed(mask)
        choices = choices[~np.isin(choices, list(stops))] if stops else choices
        if not len(choices):
            break
        chosen: list[int] = []
        if hurried or rng.random() < 0.1:
            rng.shuffle(tails)
            for tail in tails if rng.random() < 0.4 else ():
                if tail and state.admitted(tail) == len(tail):
                    chosen = tail
                    break
            else:
                near = [index for index in _closing_ids(tokenizer) if index in choices]
                if near:
                    chosen = [near[0] if rng.random() < 0.8 else rng.choice(near)]
        if not chosen:
            chosen = [int(choices[rng.randrange(len(choices))])]
        for token in chosen:
            state.accept(token)
            ids.append(token)
    return ids
