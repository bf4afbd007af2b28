"""Drafts: tokens that may follow, which one step of the model looks at together.

A draft of k tokens stands behind the newest token of a sequence, and the step gives the token that
follows each of them: what the model would have chosen one by one, since a row's numbers do not
depend on the rows beside it and a draw depends on the seed and the index of the token. As far as
the draft is what was chosen it is kept, with the token behind it; so a reply is the same with and
without, to the bit, whatever the draft is and however tokens are chosen.

Drafts come from what a constraint forces, from the text so far (`PromptLookup`; Saxena, "Prompt
Lookup Decoding", 2023), or from a smaller model (`assistant`; Leviathan et al., arXiv:2211.17192);
the first of these that has something gives it. How long they are is decided before
each step, by how often drafts of the request were right and by what steps have cost (`Pace`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .knobs import MAX_DRAFT

if TYPE_CHECKING:
    from .assistant import Assistant
    from .sampling import Sampling

__all__ = ["Pace", "PromptLookup", "Speculation"]

# The longest run of tokens that is looked up, and the shortest.
LONGEST, SHORTEST = 4, 2
# The share of drafted tokens that is right, before anything is known of a request, and how fast
# what is seen replaces what was believed.
RATE, FOLLOW = 0.6, 0.15
# Tokens without a draft before one is tried again, at first and at most.
REST, MOST_REST = 16, 256
# What a row more is believed to cost, as a share of the step, where no such step was seen.
ROW_COST = 0.1
# A rate from which on more right tokens tell nothing new.
SURE = 0.9
# How much faster a draft has to be by these numbers, which do not see all: two models that take
# turns push each other out of the processor's caches.
GAIN = 1.1
# Steps after which it is seen again what one without a draft costs.
STALE = 32
LENGTHS = (1, 3, 7, MAX_DRAFT)


class PromptLookup:
    """What followed the last tokens of a text where they stood before.

    The longest run is looked up first, the last place where it stood counts. Where the text repeats
    itself with a period, the draft goes on with it.

        PromptLookup().draft([5, 6, 7, 8, 9, 5, 6], [], 3)  # [7, 8, 9]
    """

    def __init__(self) -> None:
        self._text: list[int] = []
        self._ends: list[dict[tuple[int, ...], int]] = [
            {} for _ in range(SHORTEST, LONGEST + 1)
        ]  # per length of a run: where it ended last
        self._replied = 0

    def draft(self, prompt: Sequence[int], produced: Sequence[int], most: int) -> list[int]:
        """At most ``most`` tokens that may follow the prompt and the reply so far, which grows from
        call to call."""
        text = self._text
        known = len(text)
        if not text:
            text += prompt
        text += produced[self._replied :]
        self._replied = len(produced)
        # A run is listed when a token follows it.
        for end in range(max(known, 1), len(text)):
            for length, ends in enumerate(self._ends, SHORTEST):
                if end >= length:
                    ends[tuple(text[end - length : end])] = end
        for length in range(LONGEST, SHORTEST - 1, -1):
            if len(text) < length:
                continue
            place = self._ends[length - SHORTEST].get(tuple(text[-length:]))
            if place is not None:
                period = len(text) - place
                found = text[place : place + most]
                while len(found) < most:
                    found.append(found[len(found) - period])
                return found
        return []


class Pace:
    """What steps have cost by their number of rows, and which length of a draft pays best.

    A cost is the least that was seen, and rises slowly where that is not reached any more."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._seen: dict[int, int] = {}
        self._last: dict[int, int] = {}  # the number of the step that was seen last
        self._steps = 0

    def record(self, rows: int, seconds: float) -> None:
        """A step of so many rows took so long."""
        size = _size(rows)
        count = self._seen[size] = self._seen.get(size, 0) + 1
        self._steps += 1
        self._last[size] = self._steps
        # The first step of a kind may have compiled its plan.
        old = self._seconds.get(size)
        kept = seconds if old is None or count == 1 else min(seconds, old * 1.02)
        self._seconds[size] = kept

    def cost(self, rows: int) -> float:
        """Seconds of a step of so many rows, seen or believed."""
        size = _size(rows)
        if self._seen.get(size, 0) > 1:
            return self._seconds[size]
        below = [other for other in self._seconds if other < size and self._seen[other] > 1]
        if not below:
            return 1.0 + ROW_COST * rows
        known = max(below)
        return self._seconds[known] * (1.0 + ROW_COST * (size / known - 1.0))

    def best(self, sequences: int, rate: float, most: int, each: float = 0.0) -> int:
        """The length of a draft that gives the most tokens per second when each of ``sequences``
        has one, its tokens are right at ``rate`` and cost ``each`` seconds; 0 for no draft, and
        where it is not known, or not any more, what a step without one costs."""
        size = _size(sequences)
        if self._seen.get(size, 0) < 2 or self._steps - self._last[size] >= STALE:
            return 0
        best, length = GAIN / self.cost(sequences), 0
        for count in sorted({min(other, most) for other in LENGTHS}):
            right = sum(rate**place for place in range(count + 1))
            speed = right / (self.cost(sequences * (1 + count)) + count * each)
            if count and speed > best:
                best, length = speed, count
        return length


def _size(rows: int) -> int:
    """The class of a number of rows: the next power of 2."""
    return 1 << (rows - 1).bit_length()


class _Source:
    """How the drafts of one source went: the rate at which their tokens are right, and when one is
    tried again where they do not pay."""

    def __init__(self) -> None:
        self.rate = RATE
        self._idle = 0  # tokens since the last draft
        self._rest = REST

    def length(self, pace: Pace, sequences: int, most: int, each: float = 0.0) -> int:
        """How long the next draft is to be."""
        found = pace.best(sequences, self.rate, most, each)
        if found:
            return found
        self._idle += 1
        return min(1, most) if self._idle > self._rest else 0

    def record(self, drafted: int, accepted: int) -> None:
        """How a draft went."""
        tried = self._idle > self._rest
        self.rate = 1.0 - (1.0 - self.rate) * (1.0 - FOLLOW) ** accepted
        if accepted < drafted:
            self.rate *= 1.0 - FOLLOW
        if not tried:
            self._rest = REST
        elif accepted == drafted and self.rate < SURE:
            self._rest = 0  # the rate may be better than is believed: look again
        else:
            self._rest = min(MOST_REST, max(REST, 2 * self._rest))
        self._idle = 0


@dataclass(eq=False)
class Speculation:
    """The drafts of one request: where they come from, and how they went.

    ``lookup_tokens`` is the longest draft out of the text (0: none), ``assistant_tokens`` that of
    the ``assistant``, which is asked where the text has nothing. ``drafted`` tokens were looked at
    in ``steps`` steps, ``accepted`` of them were right."""

    lookup_tokens: int = 0
    assistant: Assistant | None = None
    assistant_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    steps: int = 0
    warnings: list[str] = field(default_factory=list)
    _lookup: PromptLookup = field(default_factory=PromptLookup)
    _rules: _Source = field(default_factory=_Source)
    _text: _Source = field(default_factory=_Source)
    _model: _Source = field(default_factory=_Source)

    def __post_init__(self) -> None:
        self._asked = self._text  # for the last draft
        if self.assistant is not None:
            self._model.rate = self.assistant.rate

    def forced(self, mask: Any, pace: Pace, sequences: int, most: int) -> list[int]:
        """A draft of what a constraint leaves no choice about, as far as that goes. (The tokens may
        be others of the same text.)"""
        find = getattr(mask, "forced", None)
        if find is None:
            return []
        self._asked = self._rules
        count = self._rules.length(pace, sequences, most)
        return list(find()[:count]) if count else []

    def look_up(
        self, prompt: Sequence[int], produced: Sequence[int], pace: Pace, sequences: int, most: int
    ) -> list[int]:
        """A draft out of the text, of at most so many tokens, where it pays."""
        self._asked = self._text
        count = self._text.length(pace, sequences, min(most, self.lookup_tokens))
        return self._lookup.draft(prompt, produced, count) if count else []

    def ask(self, pace: Pace, sequences: int, most: int) -> int:
        """How many tokens the assistant is to draft."""
        if self.assistant is None:
            return 0
        self._asked = self._model
        each = self.assistant.seconds
        return self._model.length(pace, sequences, min(most, self.assistant_tokens), each)

    def record(self, drafted: int, accepted: int) -> None:
        """How a draft went."""
        self.drafted += drafted
        self.accepted += accepted
        self.steps += 1
        self._asked.record(drafted, accepted)

    def close(self) -> None:
        """The request has ended."""
        if self.assistant is not None:
            # The next request begins with what was seen in this one.
            self.assistant.rate = self._model.rate
            self.assistant.release(self)


def plain(sampling: Sampling) -> Sampling:
    """What an assistant draws by: the same seed, temperature and common filters, so that it draws
    the same token where it has the same distribution."""
    from .sampling import Sampling

    return Sampling(
        sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p, sampling.seed
    )
