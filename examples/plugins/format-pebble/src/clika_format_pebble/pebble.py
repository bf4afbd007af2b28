"""Calls as ``<@name {"argument": "value"}@>``."""

from __future__ import annotations

import re

from clika_runtime.modelverse.tools import Cursor, GrammarWriter, Output, Tool, ToolFormat
from clika_runtime.modelverse.tools.cursor import Reading
from clika_runtime.modelverse.tools.json_text import json_arguments

_NAME = re.compile(r"\w+")


class Pebble(ToolFormat):
    """A mark, a name, arguments, a mark."""

    name = "pebble"
    begins = ("<@",)
    markers = ("<@", "@>")
    signs = ("<@",)

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        name = yield from cursor.run(_NAME)
        yield from cursor.expect(" ")
        out.start(name)
        yield from json_arguments(cursor, out.arguments)
        out.end()
        yield from cursor.found("@>")

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        begin = grammar.text(f"<@{grammar.name(tool)} ")
        return f"{begin} {grammar.arguments(tool)} {grammar.closing('@>')}"
