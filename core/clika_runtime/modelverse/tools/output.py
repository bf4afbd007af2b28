"""From what a format reads to events: white space at edges, and calls that may be withdrawn."""

from __future__ import annotations

from .cursor import Cursor, Malformed
from .events import (
    CallArguments,
    CallEnd,
    CallStart,
    CallWithdrawn,
    Event,
    ReasoningDelta,
    TextDelta,
)

__all__ = ["Output"]

MAX_NAME = 256


class _Edges:
    """A text whose white space at the end is held back, and at the start left out on demand."""

    def __init__(self, bare: bool) -> None:
        self.bare = bare  # white space comes next is left out
        self._space: list[str] = []

    def feed(self, piece: str) -> str:
        if self.bare:
            piece = piece.lstrip()
        body = piece.rstrip()
        if not body:
            if piece:
                self._space.append(piece)
            return ""
        self.bare = False
        shown = "".join(self._space) + body
        self._space = [piece[len(body) :]] if len(body) < len(piece) else []
        return shown

    def cut(self) -> None:
        """Leave out the white space that is held, and what follows of it."""
        self._space = []
        self.bare = True

    def flush(self) -> str:
        text = "".join(self._space)
        self._space = []
        return text


class Output:
    """Where a format puts what it reads.

    ``text`` and ``reasoning`` go on; ``start``, ``arguments``, ``end`` tell a call. White space
    around calls and at the edges of reasoning is left out. With ``hold`` a call is told when it is
    complete, so none is ever withdrawn.
    """

    def __init__(self, cursor: Cursor, names: frozenset[str] | None, hold: bool) -> None:
        self.events: list[Event] = []
        self.names = names
        self._cursor = cursor
        self._hold = hold
        self._held: list[Event] = []
        self._index = 0
        self._open = False
        self._text = _Edges(bare=False)
        self._reasoning = _Edges(bare=True)
        self._reasoned = False

    @property
    def calls(self) -> int:
        """Calls that are complete."""
        return self._index

    def text(self, piece: str) -> None:
        shown = self._text.feed(piece)
        if shown:
            self.events.append(TextDelta(shown))

    def reasoning(self, piece: str) -> None:
        shown = self._reasoning.feed(piece)
        if shown:
            self._reasoned = True
            self.events.append(ReasoningDelta(shown))

    def end_reasoning(self) -> None:
        """The reasoning is over; more of it begins on a new line."""
        self._reasoning = _Edges(bare=True)
        self._text.cut()

    def begin_reasoning(self) -> None:
        """More reasoning after some that was over."""
        if self._reasoned:
            self._reasoned = False
            self.events.append(ReasoningDelta("\n"))

    def start(self, name: str, call_id: str = "", known: bool = False) -> None:
        """A call of a tool. `Malformed` for a name that is none, and with ``known`` for one that
        is not offered."""
        if self._open or not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise Malformed
        if known and self.names is not None and name not in self.names:
            raise Malformed
        self._open = True
        self._tell(CallStart(self._index, name, call_id))

    def arguments(self, piece: str) -> None:
        self._tell(CallArguments(self._index, piece))

    def end(self, call_id: str = "") -> None:
        """The call is complete."""
        self._tell(CallEnd(self._index, call_id))
        self.events += self._held
        self._held = []
        self._index += 1
        self._open = False
        self._text.cut()
        self._cursor.keep()

    def withdraw(self) -> None:
        """What was read since the last complete call is text."""
        if self._open and not self._hold:
            self.events.append(CallWithdrawn(self._index))
        self._open = False
        self._held = []
        self.text(self._cursor.kept())

    def finish(self) -> None:
        """The text has ended."""
        shown = self._text.flush()
        if shown:
            self.events.append(TextDelta(shown))

    def _tell(self, event: Event) -> None:
        (self._held if self._hold else self.events).append(event)
