"""Kimi K2: calls with numbered names within a section.

<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0
<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>
"""

from __future__ import annotations

import re

from ..cursor import Cursor, Malformed, Reading
from ..format import Around, ToolFormat
from ..grammar import GrammarWriter
from ..json_text import json_arguments
from ..output import Output
from ..toolset import Tool

__all__ = ["KimiK2"]

_SECTION = "<|tool_calls_section_begin|>"
_SECTION_END = "<|tool_calls_section_end|>"
_CALL = "<|tool_call_begin|>"
_CALL_END = "<|tool_call_end|>"
_ARGUMENTS = "<|tool_call_argument_begin|>"
_ID = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?", re.DOTALL)


class KimiK2(ToolFormat):
    """``functions.NAME:INDEX`` and arguments, within a section; the id is the whole of it."""

    name = "kimi-k2"
    begins = (_SECTION, _CALL)
    markers = (_SECTION, _SECTION_END, _CALL, _CALL_END, _ARGUMENTS)
    reasonings = ("think", "kimi")
    signs = (_SECTION, _CALL)
    numbered = True
    ends_reasoning = True

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        if mark == _SECTION:
            yield from cursor.space()
            yield from cursor.expect(_CALL)
        while True:
            head, _ = yield from cursor.collect((_ARGUMENTS,))
            call_id = head.strip()
            found = _ID.fullmatch(call_id)
            yield from cursor.space()
            if found is None or (yield from cursor.ahead()) != "{":
                raise Malformed
            out.start(found.group(1), call_id)
            yield from json_arguments(cursor, out.arguments)
            out.end(call_id)
            yield from cursor.space()
            yield from cursor.found(_CALL_END)
            yield from cursor.space()
            if not (yield from cursor.found(_CALL)):
                break
        yield from cursor.found(_SECTION_END)

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        name = f"functions.{grammar.name(tool)}:{grammar.number}"
        head = grammar.text(f"{_CALL}{name}{_ARGUMENTS}")
        return f"{head} {grammar.arguments(tool)} {grammar.text(_CALL_END)}"

    def around(self, grammar: GrammarWriter) -> Around:
        return Around(_SECTION, "", _SECTION_END)
