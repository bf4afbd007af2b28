"""GLM 4.5 and later: a name, and arguments between tags.

<tool_call>get_weather
<arg_key>city</arg_key>
<arg_value>Oslo</arg_value>
</tool_call>
"""

from __future__ import annotations

from ..cursor import Cursor, Malformed, Reading
from ..format import ToolFormat
from ..grammar import GrammarWriter, property_schema
from ..output import Output
from ..tagged_text import TaggedArguments
from ..toolset import Tool

__all__ = ["Glm"]

_KEY, _KEY_END = "<arg_key>", "</arg_key>"
_VALUE, _VALUE_END = "<arg_value>", "</arg_value>"
_END = "</tool_call>"


class Glm(ToolFormat):
    """``<tool_call>name`` with ``<arg_key>`` and ``<arg_value>``."""

    name = "glm"
    begins = ("<tool_call>",)
    markers = ("<tool_call>", _END, _KEY, _KEY_END, _VALUE, _VALUE_END)
    signs = (_KEY,)
    between = "\n"

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        head, stop = yield from cursor.collect((_KEY, _END, "\n"))
        if not head.strip() and stop == "\n":
            head, stop = yield from cursor.collect((_KEY, _END, "\n"))
        name = head.strip()
        if not name or "<" in name or "{" in name:
            raise Malformed
        out.start(name)
        arguments = TaggedArguments(self.tools.get(name), out.arguments)
        while stop != _END:
            if stop != _KEY:
                yield from cursor.space()
                if (yield from cursor.found(_END)):
                    break
                yield from cursor.expect(_KEY)
            key, _ = yield from cursor.collect((_KEY_END,))
            yield from cursor.space()
            yield from cursor.expect(_VALUE)
            yield from arguments.read(cursor, key.strip(), _VALUE_END)
            stop = ""
        arguments.close()
        out.end()

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        def item(name: str) -> str:
            begin = grammar.text(f"{_KEY}{name}{_KEY_END}\n{_VALUE}")
            if tool.is_text(name):
                value = grammar.text_value(tool, name, _VALUE_END)
            else:
                value = f"{grammar.json(property_schema(tool, name))} {grammar.text(_VALUE_END)}"
            return f'{begin} {value} "\\n"'

        begin = grammar.text(f"<tool_call>{grammar.name(tool)}\n")
        return f"{begin} {grammar.members(tool, item)} {grammar.closing(_END)}"
