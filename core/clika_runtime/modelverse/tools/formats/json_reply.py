"""A reply that is nothing but JSON: one call as an object, or several in an array.

For models without a format of their own that are told to answer so; also in a block of code. Only
calls of tools that are offered count, so an answer that is other JSON stays text.
"""

from __future__ import annotations

from ..cursor import Cursor, Reading
from ..format import Around, ToolFormat
from ..grammar import GrammarWriter
from ..json_text import json_calls
from ..output import Output
from ..toolset import Tool

__all__ = ["JsonReply"]


class JsonReply(ToolFormat):
    """``{"name": ..., "arguments": {...}}`` as the whole reply."""

    name = "json"

    def opening(self, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        fence = yield from cursor.found("```")
        if fence:
            yield from cursor.found("json")
            yield from cursor.space()
        yield from json_calls(cursor, out, known=True)
        yield from cursor.space()
        if fence:
            yield from cursor.found("```")

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        return grammar.json_call(tool)

    def around(self, grammar: GrammarWriter) -> Around:
        return Around("[", ", ", "]") if grammar.several else Around()
