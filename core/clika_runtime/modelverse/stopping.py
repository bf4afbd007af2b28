"""Stop strings over streamed text: what could still become one is held back."""

from __future__ import annotations

from collections.abc import Sequence

from clika_runtime.errors import InvalidArgumentError

__all__ = ["StopStrings", "check_stop"]

MAX_STOPS = 64
MAX_STOP_CHARACTERS = 4096


def check_stop(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """The stop strings as a tuple; one string stands for itself. Empty ones are refused: they stop
    everything."""
    if stop is None:
        return ()
    strings = (stop,) if isinstance(stop, str) else tuple(stop)
    if len(strings) > MAX_STOPS:
        raise InvalidArgumentError(
            f"stop: {len(strings)} strings are given, at most {MAX_STOPS} are taken"
        )
    for item in strings:
        if not isinstance(item, str) or not item or len(item) > MAX_STOP_CHARACTERS:
            raise InvalidArgumentError(
                f"stop: {item!r:.80} must be a string of 1 to {MAX_STOP_CHARACTERS} characters"
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
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """Takes the next piece; returns what may be shown now."""
        if self.found is not None:
            return ""
        if not self._stops:
            return text
        self._held += text
        ends = [
            (place + len(stop), place, stop)
            for stop in self._stops
            if (place := self._held.find(stop)) >= 0
        ]
        if ends:
            _, place, self.found = min(ends)
            shown, self._held = self._held[:place], ""
            return shown
        keep = self._pending()
        split = len(self._held) - keep
        shown, self._held = self._held[:split], self._held[split:]
        return shown

    def _pending(self) -> int:
        """Characters at the end that a stop string could begin with."""
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(self._held)), longest, -1):
                if self._held.endswith(stop[:size]):
                    longest = size
                    break
        return longest

    def flush(self) -> str:
        """The rest, when the stream has ended without a stop string."""
        shown, self._held = self._held, ""
        return shown if self.found is None else ""
