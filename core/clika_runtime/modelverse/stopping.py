"""Stop strings over streamed text: what could still become one is held back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from clika_runtime.errors import InvalidArgumentError, told

__all__ = ["StopStrings", "check_stop"]

MAX_STOPS = 64
MAX_STOP_CHARACTERS = 4096


def check_stop(stop: str | Iterable[str] | None, name: str = "stop") -> tuple[str, ...]:
    """The stop strings as a tuple; one string stands for itself. Empty ones are refused: they stop
    everything. ``name`` is that of the option in messages."""
    if stop is None:
        return ()
    if isinstance(stop, bytes) or not isinstance(stop, Iterable):
        raise InvalidArgumentError(
            f"{name}: a string or a list of strings is needed, got {type(stop).__name__}"
        )
    strings = (stop,) if isinstance(stop, str) else tuple(islice(stop, MAX_STOPS + 1))
    if len(strings) > MAX_STOPS:
        raise InvalidArgumentError(
            f"{name}: more than {MAX_STOPS} strings are given, which are the most that are taken"
        )
    for item in strings:
        if not isinstance(item, str) or not item or len(item) > MAX_STOP_CHARACTERS:
            raise InvalidArgumentError(
                f"{name}: {told(item)} must be a string of 1 to {MAX_STOP_CHARACTERS} characters"
            )
    return strings


class StopStrings:
    """Watches a stream of text for the first of several strings.

    The string that is complete first ends the stream, of two that are complete at once the longer;
    the text ends before it. ``push`` returns the text that is certain; ``found`` is the string that
    ended the stream. The result is the same however the text is cut into pieces.

    >>> stops = StopStrings(["END"])
    >>> stops.push("the E"), stops.push("N"), stops.push("D of"), stops.found
    ('the ', '', '', 'END')
    """

    def __init__(self, stops: Sequence[str]) -> None:
        # The longer first: of two that are complete at once it wins.
        self._stops = tuple(sorted(stops, key=len, reverse=True))
        self._borders = [_borders(stop) for stop in self._stops]
        self._firsts = {stop[0] for stop in self._stops}
        # Of each string, how much of it the text ends with.
        self._begun = [0] * len(self._stops)
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """Takes the next piece; returns what may be shown now."""
        if self.found is not None:
            return ""
        if not self._held and not any(first in text for first in self._firsts):
            return text
        for place, letter in enumerate(text):
            stop = self._follow(letter)
            if stop is not None:
                self.found = stop
                whole = self._held + text[: place + 1]
                self._held = ""
                return whole[: -len(stop)]
        self._held += text
        split = len(self._held) - max(self._begun)
        shown, self._held = self._held[:split], self._held[split:]
        return shown

    def _follow(self, letter: str) -> str | None:
        """Takes a letter; the string that it completes, if any (Knuth, Morris and Pratt, Fast
        pattern matching in strings, 1977: the time per letter does not grow with what is held)."""
        complete = None
        begun = self._begun
        for number, stop in enumerate(self._stops):
            size = begun[number]
            borders = self._borders[number]
            while size and stop[size] != letter:
                size = borders[size - 1]
            if stop[size] == letter:
                size += 1
            begun[number] = size
            if size == len(stop) and complete is None:
                complete = stop
        return complete

    def flush(self) -> str:
        """The rest, when the stream has ended without a stop string."""
        shown, self._held = self._held, ""
        return shown if self.found is None else ""


def _borders(text: str) -> list[int]:
    """For each beginning of a text, the longest shorter beginning that it ends with."""
    borders = [0] * len(text)
    size = 0
    for place in range(1, len(text)):
        while size and text[size] != text[place]:
            size = borders[size - 1]
        if text[size] == text[place]:
            size += 1
        borders[place] = size
    return borders
