"""Text that is still arriving, read as if it were all there.

A format is a generator over a `Cursor`: it reads on with ``yield from``, and a bare ``yield``
inside the cursor's methods waits for more text. No method's result depends on how the text was cut
into pieces, so neither does the format's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import TypeVar

__all__ = ["Cursor", "Malformed", "Reading", "Sink"]

T = TypeVar("T")
Sink = Callable[[str], None]
#: A generator that waits by yielding, and its result.
Reading = Generator[None, None, T]


class Malformed(Exception):
    """What is read is not of the format. Never leaves the parser."""


class Cursor:
    """A place in a text of which only the part around the place is held."""

    __slots__ = ("_at", "_kept", "_text", "ended")

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._kept: list[str] | None = None
        self.ended = False

    # ------------------------------------------------------------ from outside
    def feed(self, piece: str) -> None:
        """More text."""
        self._text = self._text[self._at :] + piece
        self._at = 0

    def keep(self, begin: str = "") -> None:
        """Note what is read from here on, as if ``begin`` had been read first."""
        self._kept = [begin] if begin else []

    def kept(self) -> str:
        """What was noted; noting ends."""
        result = "".join(self._kept or ())
        self._kept = None
        return result

    # ------------------------------------------------------------ without waiting
    def take(self, count: int) -> str:
        """Read so many characters of those that are here."""
        result = self._text[self._at : self._at + count]
        self._at += len(result)
        if self._kept is not None:
            self._kept.append(result)
        return result

    def here(self, pattern: re.Pattern[str]) -> str:
        """Read what the pattern matches in the text that is here."""
        found = pattern.match(self._text, self._at)
        return self.take(found.end() - self._at) if found is not None else ""

    # ------------------------------------------------------------ with waiting
    def ahead(self, count: int = 1) -> Reading[str]:
        """The next characters, unread; fewer at the end of the text."""
        while len(self._text) - self._at < count and not self.ended:
            yield
        return self._text[self._at : self._at + count]

    def found(self, literal: str) -> Reading[bool]:
        """Read the literal, if it comes next."""
        while True:
            have = self._text[self._at : self._at + len(literal)]
            if have == literal:
                self.take(len(literal))
                return True
            if self.ended or not literal.startswith(have):
                return False
            yield

    def expect(self, literal: str) -> Reading[None]:
        """Read the literal; `Malformed` when something else comes."""
        if not (yield from self.found(literal)):
            raise Malformed

    def space(self, sink: Sink | None = None) -> Reading[None]:
        """Read white space."""
        while True:
            text = self.here(_SPACE)
            if text and sink is not None:
                sink(text)
            if self._at < len(self._text) or self.ended:
                return
            yield

    def run(self, pattern: re.Pattern[str], most: int = 256) -> Reading[str]:
        """Read characters as long as the pattern (of one class of characters, repeated) matches
        them; `Malformed` for more than ``most``."""
        pieces: list[str] = []
        size = 0
        while True:
            text = self.here(pattern)
            pieces.append(text)
            size += len(text)
            if size > most:
                raise Malformed
            if self._at < len(self._text) or self.ended:
                return "".join(pieces)
            yield

    def until(self, stops: tuple[str, ...], sink: Sink) -> Reading[str | None]:
        """Read up to the first of several texts and read that too; what stands before it goes to
        the sink as it comes. Returns which it was, None at the end of the text."""
        if not stops:
            while True:
                text = self.take(len(self._text) - self._at)
                if text:
                    sink(text)
                if self.ended:
                    return None
                yield
        whole, first, longest = _patterns(stops)
        while True:
            found = whole.search(self._text, self._at)
            end = found.start() if found is not None else len(self._text)
            if not self.ended:
                end = min(end, self._partial(stops, first, longest))
            if end > self._at:
                sink(self.take(end - self._at))
            if found is not None and found.start() == end:
                return self.take(found.end() - found.start())
            if self.ended:
                return None
            yield

    def _partial(self, stops: tuple[str, ...], first: re.Pattern[str], longest: int) -> int:
        """Where a stop may have begun that is not complete yet."""
        at = max(self._at, len(self._text) - longest + 1)
        while True:
            found = first.search(self._text, at)
            if found is None:
                return len(self._text)
            at = found.start()
            tail = self._text[at:]
            if any(len(tail) < len(stop) and stop.startswith(tail) for stop in stops):
                return at
            at += 1

    def collect(self, stops: tuple[str, ...], most: int = 256) -> Reading[tuple[str, str]]:
        """Read up to the first of several texts: what stands before it, and which it was.
        `Malformed` at the end of the text, and where more than ``most`` characters stand before."""
        pieces: list[str] = []
        size = 0

        def add(text: str) -> None:
            nonlocal size
            size += len(text)
            if size > most:
                raise Malformed
            pieces.append(text)

        stop = yield from self.until(stops, add)
        if stop is None:
            raise Malformed
        return "".join(pieces), stop


_SPACE = re.compile(r"\s+")


@lru_cache(maxsize=256)
def _patterns(stops: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str], int]:
    ordered = sorted(stops, key=len)
    whole = re.compile("|".join(map(re.escape, ordered)))
    first = re.compile("[" + "".join(re.escape(stop[0]) for stop in stops) + "]")
    return whole, first, len(ordered[-1])
