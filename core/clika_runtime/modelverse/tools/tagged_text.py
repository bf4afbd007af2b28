"""Arguments written between tags, one after the other, as text without quotes."""

from __future__ import annotations

import json

from .cursor import Cursor, Malformed, Reading, Sink
from .toolset import Tool

__all__ = ["TaggedArguments"]

MAX_VALUE = 4 << 20
_WORDS = {"True": "true", "False": "false", "None": "null"}


class TaggedArguments:
    """Reads arguments in the order of their coming and tells them as one JSON object.

    The tool's schema says whether an argument is a string; where it does not, a text that is JSON
    is the value it says, and every other a string. A string is told as it comes. With ``trim`` a
    line break behind the opening tag and one before the closing tag do not belong to it.
    """

    def __init__(self, tool: Tool | None, sink: Sink, trim: bool = False) -> None:
        self._tool = tool
        self._sink = sink
        self._trim = trim
        self._seen: set[str] = set()

    def read(self, cursor: Cursor, name: str, end: str) -> Reading[None]:
        """Read one argument up to its closing tag. `Malformed` for a name that is empty or comes
        again."""
        if not name or name in self._seen:
            raise Malformed
        begin = "{" if not self._seen else ", "
        self._seen.add(name)
        self._sink(f"{begin}{json.dumps(name, ensure_ascii=False)}: ")
        if self._tool is not None and self._tool.is_text(name):
            self._sink('"')
            stop = yield from cursor.until((end,), _Escaped(self._sink, self._trim))
            if stop is None:
                raise Malformed
            self._sink('"')
        else:
            text, _ = yield from cursor.collect((end,), MAX_VALUE)
            if self._trim:
                text = text.removeprefix("\n").removesuffix("\n")
            self._sink(_value(text))

    def close(self) -> None:
        """The arguments are complete."""
        self._sink("}" if self._seen else "{}")


class _Escaped:
    """Passes a text on as the inside of a JSON string; with ``trim`` without a line break at either
    end."""

    def __init__(self, sink: Sink, trim: bool) -> None:
        self._sink = sink
        self._trim = trim
        self._first = True
        self._held = ""

    def __call__(self, text: str) -> None:
        if self._trim:
            if self._first:
                self._first = False
                text = text.removeprefix("\n")
            text = self._held + text
            self._held = "\n" if text.endswith("\n") else ""
            text = text.removesuffix("\n")
        if text:
            self._sink(json.dumps(text, ensure_ascii=False)[1:-1])


def _value(text: str) -> str:
    """The JSON text of a value whose type is not known."""
    stripped = text.strip()
    try:
        json.loads(stripped, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _WORDS.get(stripped) or json.dumps(text, ensure_ascii=False)
    return stripped


def _refuse(name: str) -> None:
    raise ValueError(name)
