"""How the next token of a request is chosen: its settings, and what it carries from token to token.

The logits of a row pass these stages, in this order; each is the operator of that name:

1. ``top_logprobs``, where they are asked for: of the model's own distribution, before all that
   follows;
2. ``bias_logits``: biases and bans (llama.cpp and vLLM begin with them too);
3. ``penalize_logits``: repetition, then frequency and presence, then DRY;
4. ``mask_logits``: the tokens that a `LogitsMask` allows;
5. ``sample``: temperature, then top-n-sigma, top-k, typical, top-p, min-p and XTC, in llama.cpp's
   order, over probabilities at the temperature, as in transformers and vLLM;
6. ``mirostat`` (version 1 or 2), which takes the place of 5's filters, at the temperature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from clika_runtime.errors import InvalidArgumentError

__all__ = ["GREEDY", "Ahead", "Choice", "LogitsMask", "Sampling", "TokenLogprob", "look"]

NO_LOGPROBS = -1


@runtime_checkable
class LogitsMask(Protocol):
    """What restricts the tokens of one reply: a grammar, a schema, a list of choices.

    Before each token of the reply ``mask()`` is asked once, after it ``accept()`` is told the
    token (not a stop id: the reply has ended). Both are called by the thread that runs the steps,
    for one request at a time; what either raises ends that request alone. An object serves one
    reply. The state that a compiled constraint gives at ``start()`` is one.

    An object may have ``finished``, true when nothing may follow: the reply ends there; and
    ``stop_ids``, which end the reply beside the request's own. It may have
    ``vocab_size`` and a function ``fill(masks, words)`` that writes the words of several such
    objects into the rows of one int32 array ``[len(masks), ceil(vocab_size / 32)]`` and returns
    errors by index of the object: then ``mask()`` is not called.

    With ``rollback(count)``, which takes the last tokens back, its reply may be drafted
    (`speculation`). ``fill`` takes a third argument then, a draft for each object, and an object
    has a row more than its draft has tokens: the words behind each of them, zeros behind one that
    does not follow. Without ``fill`` the draft is told by ``accept`` and taken back.

    With ``first_admitted(tokens)``, the index of the first of the tokens that ``mask()`` would
    allow (-1: none of them), a greedy token is chosen first and asked about then: the mask is made
    only where it allows none of the likeliest.
    """

    def mask(self) -> Any:
        """Which tokens may follow: a NumPy int32 array of at most ceil(V / 32) words, bit
        ``v % 32`` of word ``v // 32`` for token ``v`` (tokens beyond its end are not allowed), or
        None where all are. It is read before the next call of either method."""

    def accept(self, token: int) -> None:
        """A token of the reply was chosen."""


@dataclass(frozen=True)
class Sampling:
    """How a row's next token is drawn.

    ``temperature`` 0 is greedy. Off are: ``top_k`` 0, ``top_p`` 1, ``min_p`` 0, ``top_n_sigma`` 0,
    ``typical_p`` 1, ``xtc_probability`` 0, ``repetition_penalty`` 1, ``frequency_penalty`` and
    ``presence_penalty`` 0, ``dry_multiplier`` 0, ``mirostat_tau`` 0. ``penalty_window`` is how many
    of the last tokens the penalties see (0: all). ``bias`` are pairs of a token and what is added
    to its logit; -inf bans it. ``logprobs`` asks for the log-probability of each token and of so
    many of the likeliest (-1: none at all). A draw is a function of ``seed`` and of the index of
    the token in the reply."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    top_n_sigma: float = 0.0
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_window: int = 0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    mirostat_tau: float = 0.0
    mirostat_eta: float = 0.1
    mirostat_version: int = 2
    bias: tuple[tuple[int, float], ...] = ()
    logprobs: int = NO_LOGPROBS

    @property
    def reads_history(self) -> bool:
        """Whether earlier tokens change the logits."""
        return (
            self.repetition_penalty != 1.0
            or self.frequency_penalty != 0.0
            or self.presence_penalty != 0.0
            or self.dry_multiplier != 0.0
        )

    @property
    def adjusts(self) -> bool:
        """Whether a step needs more than the common filters."""
        return (
            self.reads_history
            or bool(self.bias)
            or self.top_n_sigma > 0.0
            or self.typical_p < 1.0
            or self.xtc_probability > 0.0
            or self.mirostat_tau > 0.0
        )


GREEDY = Sampling()

#: Steps behind one whose likeliest token its mask did not admit, whose masks are made before them:
#: after the first of them, and after many on end.
FIRST_BEFORE, MOST_BEFORE = 4, 64


class TokenLogprob(NamedTuple):
    """A token of a reply with its log-probability in the model's own distribution (before
    penalties, filters and temperature), and the likeliest tokens in its place, best first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class Choice:
    """What a request carries from one token to the next beside its place in the cache.

    ``tokens`` is the prompt; ``mask`` restricts the reply; ``breaks`` says whether a token ends a
    run that DRY follows, a function that is told the tokens in order. Who runs the steps calls
    ``accept`` with each token of the reply. A request whose ``Sampling`` neither adjusts nor asks
    for log-probabilities needs none.

        choice = Choice(Sampling(1.0, repetition_penalty=1.1), prompt)
        token = engine.step([Work(sequence, prompt, choice.sampling, 0, choice)])[0]
        choice.accept(token)
    """

    def __init__(
        self,
        sampling: Sampling,
        tokens: Sequence[int],
        mask: LogitsMask | None = None,
        breaks: Callable[[int], bool] | None = None,
    ) -> None:
        self.sampling = sampling
        self.mask = mask
        self.words: Any = None  # of the mask, for the step under way
        self.later: list[Any] = []  # those behind each token of a draft
        self.failure: Exception | None = None  # what asking the mask for the step failed with
        self.finished = False  # the mask says that nothing may follow
        self.wants_logprobs = sampling.logprobs != NO_LOGPROBS
        #: Whether the mask may be asked after the choice. The likeliest of all tokens, where the
        #: mask admits it, is the likeliest of those that it admits; nothing else that is asked for
        #: depends on the others.
        self.late = (
            sampling.temperature == 0.0
            and not sampling.mirostat_tau
            and not self.wants_logprobs
            and hasattr(mask, "first_admitted")
        )
        self.before = 0  # steps ahead whose masks are made before them all the same
        self._surprises = 0
        self.mu = 2.0 * sampling.mirostat_tau
        self.logprobs: list[TokenLogprob] = []
        self.run_limit = 0
        self.reply = 0
        self.length = 0
        self._history: Any = None
        self._breaks = breaks
        if sampling.reads_history:
            self._remember(tokens)

    @classmethod
    def needed(cls, sampling: Sampling, mask: LogitsMask | None) -> bool:
        """Whether a request with these settings needs a state."""
        return sampling.adjusts or mask is not None or sampling.logprobs != NO_LOGPROBS

    def asks_late(self) -> bool:
        """Whether the mask of the step at hand is asked after it."""
        if not self.late or self.before:
            self.before = max(0, self.before - 1)
            return False
        return True

    def told(self, admitted: bool) -> None:
        """Whether the likeliest of all tokens was admitted. Where it was not, the next ones often
        are not either: the masks of some steps are made before them then, of more the oftener that
        happens on end, which is cheaper than to choose twice."""
        self._surprises = 0 if admitted else self._surprises + 1
        if not admitted:
            self.before = min(FIRST_BEFORE << self._surprises, MOST_BEFORE)

    @property
    def draftable(self) -> bool:
        """Whether several tokens may be looked at in one step: the state behind a token that is not
        chosen yet can be told."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Why it is not `draftable`; empty where it is."""
        if self.sampling.mirostat_tau:
            return "mirostat's state follows from the token before"
        if self.mask is not None and not hasattr(self.mask, "rollback"):
            return f"{type(self.mask).__name__} has no rollback()"
        if self._breaks is not None and not getattr(self._breaks, "stateless", False):
            return "dry_sequence_breakers has texts longer than a letter"
        return ""

    def along(self, draft: Sequence[int]) -> list[Choice | Ahead]:
        """What the tokens behind a draft are chosen by: this choice, and one that is ahead by each
        token of the draft."""
        rows: list[Choice | Ahead] = [self]
        limit = self.run_limit
        words = self.later or [None] * len(draft)
        if self._history is not None:
            while self.length + len(draft) > len(self._history):
                self._history = _grown(self._history)
            self._history[self.length : self.length + len(draft)] = draft
        for place, token in enumerate(draft):
            if self._history is not None:
                limit = 0 if self._breaks and self._breaks(token) else limit + 1
            rows.append(Ahead(self, place + 1, limit, words[place]))
        return rows

    def _remember(self, tokens: Sequence[int]) -> None:
        import numpy as np

        self.reply = self.length = len(tokens)
        self._history = np.empty(max(64, 2 * self.length), np.int32)
        self._history[: self.length] = tokens
        for token in tokens:
            self._follow(token)

    def _follow(self, token: int) -> None:
        """How long a run may be that ends with this token."""
        self.run_limit = 0 if self._breaks and self._breaks(token) else self.run_limit + 1

    def window(self, ahead: int = 0) -> tuple[Any, int]:
        """The tokens that penalties see, and where the reply begins among them; ``ahead`` by so
        many tokens of a draft."""
        size = self.sampling.penalty_window
        end = self.length + ahead
        begin = max(0, end - size) if size else 0
        return self._history[begin:end], max(0, self.reply - begin)

    def allow(self, words: Any, vocabulary: int) -> None:
        """What the mask said of the next token."""
        if words is not None and not _is_mask(words, vocabulary):
            raise InvalidArgumentError(
                f"{type(self.mask).__name__}.mask: gave {words!r:.80}; an int32 array of at most "
                f"{(vocabulary + 31) // 32} words or None is needed"
            )
        self.words = None if words is None else words.view("int32")
        self.later = []

    def look_along(self, draft: Sequence[int], vocabulary: int) -> None:
        """Asks the mask what may come next, and behind each token of a draft."""
        mask = self.mask
        if mask is None:
            return
        self.allow(mask.mask(), vocabulary)
        if not draft:
            return
        # What it gave is read before its next call.
        first = None if self.words is None else self.words.copy()
        later: list[Any] = []
        told = 0
        try:
            for token in draft:
                if not _admits(later[-1] if later else first, token) or (
                    getattr(mask, "finished", False)
                ):
                    break
                mask.accept(token)
                told += 1
                self.allow(mask.mask(), vocabulary)
                later.append(None if self.words is None else self.words.copy())
        finally:
            if told:
                mask.rollback(told)  # type: ignore[attr-defined]
        empty = _nothing()
        self.words = first
        self.later = later + [empty] * (len(draft) - len(later))

    @property
    def allows_nothing(self) -> bool:
        """Whether the mask of the step left no token, but for those that biases ban."""
        if self.words is None:
            return False
        left = self.words.view("uint8").copy()
        for token, bias in self.sampling.bias:
            if bias == -math.inf and token // 8 < len(left):
                left[token // 8] &= ~(1 << token % 8) & 0xFF
        return not left.any()

    def accept(self, token: int) -> None:
        """The next token of the reply."""
        if self.later:
            self.words = self.later.pop(0)
        if self._history is not None:
            if self.length == len(self._history):
                self._history = _grown(self._history)
            self._history[self.length] = token
            self.length += 1
            self._follow(token)
        if self.mask is not None:
            self.mask.accept(token)
            self.finished = bool(getattr(self.mask, "finished", False))


class Ahead:
    """A choice as it stands behind some tokens of a draft; for the step that looks at the draft."""

    __slots__ = ("_choice", "_count", "run_limit", "words")
    mu = 0.0

    def __init__(self, choice: Choice, count: int, run_limit: int, words: Any) -> None:
        self._choice = choice
        self._count = count
        self.run_limit = run_limit
        self.words = words

    @property
    def sampling(self) -> Sampling:
        """The request's settings."""
        return self._choice.sampling

    def window(self) -> tuple[Any, int]:
        """`Choice.window` behind the tokens."""
        return self._choice.window(self._count)


def _is_mask(words: Any, vocabulary: int) -> bool:
    """Whether these are words of 32 bits for a vocabulary."""
    kind = getattr(words, "dtype", None)  # asked for its name, it would cost more than the check
    return (
        kind is not None
        and getattr(kind, "kind", "") in ("i", "u")
        and kind.itemsize == 4
        and kind.isnative
        and words.ndim == 1
        and 32 * (len(words) - 1) < vocabulary
    )


def _admits(words: Any, token: int) -> bool:
    if words is None:
        return True
    return token // 32 < len(words) and bool(int(words[token // 32]) >> token % 32 & 1)


def _nothing() -> Any:
    import numpy as np

    return np.zeros(0, np.int32)


def look(
    choices: Sequence[Choice | None],
    vocabulary: int,
    drafts: Sequence[Sequence[int]] | None = None,
) -> dict[int, Exception]:
    """Asks the masks of several requests what their next tokens may be, those that can be asked
    together at once; with drafts also behind each token of those. Result: what asking failed with,
    by index."""
    errors: dict[int, Exception] = {}
    together: dict[Any, list[int]] = {}
    for index, choice in enumerate(choices):
        if choice is None or choice.mask is None:
            continue
        try:
            fill = getattr(choice.mask, "fill", None)
            if fill is None:
                choice.look_along(drafts[index] if drafts else (), vocabulary)
            else:
                size = getattr(choice.mask, "vocab_size", 0)
                together.setdefault((fill, size), []).append(index)
        except Exception as error:
            errors[index] = error
    for (fill, size), members in together.items():
        chosen = [choice for index in members if (choice := choices[index]) is not None]
        along = [drafts[index] for index in members] if drafts else None
        try:
            rows, failed = _filled(fill, size, chosen, along)
            if not _is_mask(rows[0], vocabulary):  # they are of one kind and width
                chosen[0].allow(rows[0], vocabulary)
            words = iter(rows)
            for place, (index, choice) in enumerate(zip(members, chosen, strict=True)):
                first = next(words)
                later = [next(words) for _ in along[place]] if along else []
                if place in failed:
                    errors[index] = failed[place]
                else:
                    choice.words, choice.later = first, later
        except Exception as error:
            errors |= dict.fromkeys(members, error)
    return errors


def _filled(
    fill: Any, size: int, choices: list[Choice], drafts: list[Sequence[int]] | None
) -> tuple[Any, dict[int, Exception]]:
    import numpy as np

    masks = [choice.mask for choice in choices]
    count = len(masks) + sum(map(len, drafts or ()))
    words = np.zeros((count, (size + 31) // 32), np.int32)
    if drafts is None or count == len(masks):
        return words, fill(masks, words)
    return words, fill(masks, words, drafts)


def _grown(array: Any) -> Any:
    import numpy as np

    return np.concatenate([array, np.empty_like(array)])
