"""Mistral: an array of objects, or a name and its arguments, behind a mark.

    [TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Oslo"}, "id": "a1b2c3d4e"}]
    [TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Oslo"}

The second form comes with the tokenizers from version 11 on; there ``[ARGS]`` and ``[CALL_ID]`` may
be missing.
"""

from __future__ import annotations

import re

from ..cursor import Cursor, Malformed, Reading
from ..format import Around, ToolFormat
from ..grammar import GrammarWriter
from ..json_text import json_arguments, json_calls
from ..output import Output
from ..toolset import Tool

__all__ = ["Mistral"]

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class Mistral(ToolFormat):
    """``[TOOL_CALLS]``, both forms."""

    name = "mistral"
    begins = ("[TOOL_CALLS]",)
    markers = ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]")
    reasonings = ("mistral", "think")
    signs = ("[TOOL_CALLS]",)

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        if (yield from cursor.ahead()) == "[":
            yield from json_calls(cursor, out)
            return
        name = yield from cursor.run(_NAME)
        yield from cursor.space()
        call_id = ""
        if (yield from cursor.found("[CALL_ID]")):
            call_id = yield from cursor.run(_NAME)
            if not call_id:
                raise Malformed
        yield from cursor.found("[ARGS]")
        yield from cursor.space()
        if (yield from cursor.ahead()) != "{":
            raise Malformed
        out.start(name, call_id)
        yield from json_arguments(cursor, out.arguments)
        out.end(call_id)

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        if grammar.has("[ARGS]"):
            head = grammar.text(f"[TOOL_CALLS]{grammar.name(tool)}[ARGS]")
            return f"{head} {grammar.arguments(tool)}"
        return grammar.json_call(tool)

    def around(self, grammar: GrammarWriter) -> Around:
        if grammar.has("[ARGS]"):
            return Around(between="")
        return Around("[TOOL_CALLS][", ", ", "]")
