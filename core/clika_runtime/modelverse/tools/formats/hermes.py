"""Hermes 2 Pro, Qwen2.5, Qwen3, Granite 4 and others: an object between tags.

<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>
"""

from __future__ import annotations

from ..cursor import Cursor, Malformed, Reading
from ..format import ToolFormat
from ..grammar import GrammarWriter
from ..json_text import json_calls
from ..output import Output
from ..toolset import Tool

__all__ = ["Hermes"]


class Hermes(ToolFormat):
    """``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``; as the whole reply also
    without the tags, where tools are offered."""

    name = "hermes"
    begins = ("<tool_call>",)
    markers = ("<tool_call>", "</tool_call>")
    between = "\n"
    signs = ('<tool_call>\n{"name"', "<tool_call>\\n{", "<tool_call>{")

    def opening(self, cursor: Cursor, out: Output) -> Reading[None]:
        # Small models (Qwen2.5-Coder) leave out the tags. Only calls of offered tools count then.
        if out.names is None:
            raise Malformed
        yield from cursor.space()
        yield from json_calls(cursor, out, known=True)

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        yield from json_calls(cursor, out)
        yield from cursor.space()
        yield from cursor.found("</tool_call>")

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        begin, end = grammar.text("<tool_call>\n"), grammar.closing("\n</tool_call>")
        return f"{begin} {grammar.json_call(tool)} {end}"
