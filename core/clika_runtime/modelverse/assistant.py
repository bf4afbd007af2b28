"""A smaller model that drafts the replies of another one (`speculation`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from clika_runtime.errors import InvalidArgumentError

from .cache import KVCache
from .engine import Engine, Work
from .prefixes import PrefixStore
from .speculation import RATE, Speculation, plain

if TYPE_CHECKING:
    from .generation import GenerativeModel
    from .scheduler import Request

__all__ = ["Assistant", "check_assistant", "check_tokens"]

# New tokens of a text that are fed together with those of others.
LONG = 16
# New tokens of a step that costs as much as one with a single token, or nearly.
FEW = 2


def check_assistant(model: GenerativeModel, assistant: Any) -> None:
    """Raises unless ``assistant`` is a model over the same tokens as ``model``."""
    if not hasattr(assistant, "tokenizer") or not hasattr(assistant, "engine"):
        raise InvalidArgumentError(
            f"assistant_model: a loaded model is needed, got {type(assistant).__name__}"
        )
    check_tokens(
        model.tokenizer,
        model.loaded.model.vocab_size,
        assistant.tokenizer,
        assistant.loaded.model.vocab_size,
    )


def check_tokens(ours: Any, our_size: int, theirs: Any, their_size: int) -> None:
    """Raises unless two tokenizers have the same tokens, as far as both models have logits (their
    counts are the sizes): ids that mean another text would make drafts that are never right."""
    if ours is theirs:
        return
    shared = min(our_size, their_size)
    if ours.vocab_size != theirs.vocab_size:
        raise InvalidArgumentError(
            f"assistant_model: its tokenizer has {theirs.vocab_size} tokens, the model's has "
            f"{ours.vocab_size}; an assistant needs the tokenizer of the model"
        )
    for index in range(min(shared, ours.vocab_size)):
        if ours.id_to_token(index) != theirs.id_to_token(index):
            raise InvalidArgumentError(
                f"assistant_model: token {index} is {theirs.id_to_token(index)!r:.60} there and "
                f"{ours.id_to_token(index)!r:.60} here; an assistant needs the tokenizer of the "
                "model"
            )


@dataclass
class _Draft:
    """What the assistant's cache holds of one request: ``fed``, the first ``sure`` of them tokens
    of its text."""

    sequence: int
    fed: list[int] = field(default_factory=list)
    sure: int = 0


class Assistant:
    """Drafts of one model for another one's requests, all of a step together.

    It has a cache and plans of its own over the model's weights, with as many sequences as the
    other model has, and keeps prefixes as that one does. Who asks holds the lock of the engine that
    is helped."""

    def __init__(self, model: GenerativeModel, sequences: int, vocabulary: int) -> None:
        config = replace(model.engine.cache.config, max_sequences=sequences, total_tokens=None)
        cache = KVCache(model.loaded.model.cache_specs(), config)
        self.engine = Engine(model.loaded.model, cache, chunk=model.engine.chunk)
        self.prefixes = PrefixStore(cache)
        self.vocabulary = min(vocabulary, model.loaded.model.vocab_size)
        self.seconds = 0.0  # of a drafted token, the least seen lately
        self._steps = 0
        self.rate = RATE  # how often tokens were right, in the requests so far
        self._drafts: dict[Speculation, _Draft] = {}

    def release(self, owner: Speculation) -> None:
        """The request has ended; what was computed of its text is kept as a prefix."""
        draft = self._drafts.pop(owner, None)
        if draft is not None:
            cache = self.engine.cache
            cache.truncate(draft.sequence, min(draft.sure, cache.length(draft.sequence)))
            self.prefixes.keep(draft.sequence, draft.fed)
            cache.free(draft.sequence)

    def draft(self, requests: Sequence[Request], most: Sequence[int]) -> list[list[int]]:
        """For each request at most so many tokens that may follow. One that the assistant fails at
        gets none, and a warning."""
        drafts: list[list[int]] = [[] for _ in requests]
        turns: list[tuple[int, Request, _Draft, int]] = []
        for place, (request, count) in enumerate(zip(requests, most, strict=True)):
            found = self._place(request, count)
            if found is not None:
                turns.append((place, request, *found))
        number = 0
        while turns:
            ids = self._step(turns, [drafts[turn[0]] for turn in turns])
            going = [(turn, token) for turn, token in zip(turns, ids, strict=True) if token >= 0]
            for (place, *_), token in going:
                drafts[place].append(token)
            number += 1
            turns = [turn for turn, _ in going if turn[3] > number]
        return drafts

    def _place(self, request: Request, count: int) -> tuple[_Draft, int] | None:
        """The place of a request in the cache, cut to what is still its text, and how many tokens
        may be drafted there."""
        owner = request.speculation
        cache = self.engine.cache
        length = len(request.tokens) + len(request.produced)
        count = min(count, cache.config.max_tokens - length)
        if owner is None or count < 1:
            return None
        draft = self._drafts.get(owner)
        if draft is None:
            if not cache.free_sequences or max(request.tokens) >= self.vocabulary:
                return None
            draft = self._drafts[owner] = _Draft(cache.add())
            known = self.prefixes.take(draft.sequence, request.tokens)
            draft.fed = list(request.tokens[:known])
            draft.sure = known
        replied = request.produced[max(0, draft.sure - len(request.tokens)) :]
        if replied and max(replied) >= self.vocabulary:
            return None
        fed = draft.fed
        same = min(draft.sure, len(fed))  # fewer where a draft was interrupted
        while same < min(len(fed), length - 1) and fed[same] == _token(request, same):
            same += 1
        same = min(same, length - 1)
        del fed[same:]
        cache.truncate(draft.sequence, same)
        draft.sure = length
        return draft, count

    def _record(self, seconds: float) -> None:
        """A step that gave each of its drafts a token."""
        self._steps += 1
        if self._steps == 2:  # the first one may have compiled its plan
            self.seconds = seconds
        elif self._steps > 2:
            self.seconds = min(seconds, 1.02 * self.seconds)

    def _step(
        self, turns: Sequence[tuple[int, Request, _Draft, int]], drafted: Sequence[list[int]]
    ) -> list[int]:
        """The next token of each draft, -1 for none; what is new of its text is fed first."""
        work: list[Work] = []
        for (_, request, draft, _), tokens in zip(turns, drafted, strict=True):
            reply = [*request.produced, *tokens]
            begin = len(draft.fed)
            prompt = request.tokens[begin:]
            new = [*prompt, *reply[max(0, begin - len(request.tokens)) :]]
            index = len(reply)
            work.append(Work(draft.sequence, new, plain(request.sampling), index))
        try:
            # What is long goes in chunks of its own.
            for item, (_, _, draft, _) in zip(work, turns, strict=True):
                while len(item.tokens) > LONG:
                    piece = item.tokens[: min(self.engine.chunk, len(item.tokens) - 1)]
                    self.engine.step([Work(item.sequence, piece)])
                    draft.fed += piece
                    item.tokens = item.tokens[len(piece) :]
            begun = time.perf_counter()
            ids = self.engine.step(work)
            if max(len(item.tokens) for item in work) <= FEW:
                self._record(time.perf_counter() - begun)
        except Exception as error:
            for _, request, draft, _ in turns:
                owner = request.speculation
                if owner is not None:
                    owner.warnings.append(f"drafts of the assistant have ended: {error}")
                    owner.assistant = None
                    self._drafts.pop(owner, None)
                    self.engine.cache.free(draft.sequence)
            return [-1] * len(turns)
        for item, (_, _, draft, _) in zip(work, turns, strict=True):
            draft.fed += item.tokens
        return [token if token < self.vocabulary else -1 for token in ids]


def _token(request: Request, place: int) -> int:
    prompt = len(request.tokens)
    return request.tokens[place] if place < prompt else request.produced[place - prompt]
