"""Arguments written between tags, one after the other, as text without quotes."""

from __future__ import annotations

import json

from .cursor import Cursor, Reading
from .toolset import Tool

__all__ = ["TaggedArguments", "argument_text", "read_value", "trimmed"]

MAX_VALUE = 4 << 20
_WORDS = {"True": "true", "False": "false", "None": "null"}


def argument_text(tool: Tool | None, name: str, text: str) -> str:
    """The JSON text of an argument. The tool's schema says whether it is a string; where it does
    not, a text that is JSON is the value it says, and every other a string."""
    is_text = tool.is_text(name) if tool is not None else None
    if not is_text:
        stripped = text.strip()
        try:
            value = json.loads(stripped, parse_constant=_refuse)
        except (ValueError, RecursionError):
            if stripped in _WORDS:
                return _WORDS[stripped]
        else:
            del value
            return stripped
    return json.dumps(text, ensure_ascii=False)


def _refuse(name: str) -> None:
    raise ValueError(name)


class TaggedArguments:
    """Collects arguments in the order of their coming; a name that comes again is malformed."""

    def __init__(self, tool: Tool | None) -> None:
        self._tool = tool
        self._seen: set[str] = set()

    def add(self, name: str, text: str) -> str | None:
        """The piece of JSON for one more argument; None for a name that is empty or comes
        again."""
        if not name or name in self._seen:
            return None
        begin = "{" if not self._seen else ", "
        self._seen.add(name)
        value = argument_text(self._tool, name, text)
        return f"{begin}{json.dumps(name, ensure_ascii=False)}: {value}"

    def close(self) -> str:
        """The end of the object."""
        return "}" if self._seen else "{}"


def trimmed(text: str) -> str:
    """A value without the line break behind its opening tag and before its closing one."""
    return text.removeprefix("\n").removesuffix("\n")


def read_value(cursor: Cursor, end: str) -> Reading[str]:
    """Read a value up to its closing tag."""
    text, _ = yield from cursor.collect((end,), MAX_VALUE)
    return text
