"""DeepSeek-V3, R1 and V3.1: marks of their own around name and arguments.

V3 and R1 write the word ``function`` first and the arguments as a block of code; V3.1 writes the
name and the arguments.
"""

from __future__ import annotations

from ..cursor import Cursor, Malformed, Reading
from ..format import Around, ToolFormat
from ..grammar import GrammarWriter
from ..json_text import json_arguments
from ..output import Output
from ..toolset import Tool

__all__ = ["DeepSeek"]

_SECTION = "<｜tool▁calls▁begin｜>"
_SECTION_END = "<｜tool▁calls▁end｜>"
_CALL = "<｜tool▁call▁begin｜>"
_CALL_END = "<｜tool▁call▁end｜>"
_SEPARATOR = "<｜tool▁sep｜>"


class DeepSeek(ToolFormat):
    """``<｜tool▁call▁begin｜>name<｜tool▁sep｜>{...}<｜tool▁call▁end｜>`` within a section."""

    name = "deepseek"
    begins = (_SECTION, _CALL)
    markers = (_SECTION, _SECTION_END, _CALL, _CALL_END, _SEPARATOR)
    signs = (_SECTION,)
    ends_reasoning = True

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        if mark == _SECTION:
            yield from cursor.space()
            yield from cursor.expect(_CALL)
        while True:
            yield from self._call(cursor, out)
            yield from cursor.space()
            if not (yield from cursor.found(_CALL)):
                break
        yield from cursor.found(_SECTION_END)

    def _call(self, cursor: Cursor, out: Output) -> Reading[None]:
        head, _ = yield from cursor.collect((_SEPARATOR,))
        yield from cursor.space()
        fenced = head.strip() == "function" and (yield from cursor.ahead()) != "{"
        if fenced:
            head, _ = yield from cursor.collect(("\n",))
            yield from cursor.space()
            yield from cursor.expect("```json")
            yield from cursor.space()
        if (yield from cursor.ahead()) != "{":
            raise Malformed
        out.start(head.strip())
        yield from json_arguments(cursor, out.arguments)
        out.end()
        yield from cursor.space()
        if fenced and (yield from cursor.found("```")):
            yield from cursor.space()
        yield from cursor.found(_CALL_END)

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        head = grammar.text(f"{_CALL}{grammar.name(tool)}{_SEPARATOR}")
        return f"{head} {grammar.arguments(tool)} {grammar.text(_CALL_END)}"

    def around(self, grammar: GrammarWriter) -> Around:
        return Around(_SECTION, "", _SECTION_END)
