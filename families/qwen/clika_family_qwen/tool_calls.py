"""Qwen3-Coder: a function and its parameters between tags.

<tool_call>
<function=get_weather>
<parameter=city>
Oslo
</parameter>
</function>
</tool_call>
"""

from __future__ import annotations

from clika_runtime.modelverse.tools import (
    Cursor,
    GrammarWriter,
    Output,
    Tool,
    ToolFormat,
)
from clika_runtime.modelverse.tools.cursor import Reading
from clika_runtime.modelverse.tools.grammar import property_schema
from clika_runtime.modelverse.tools.tagged_text import TaggedArguments

__all__ = ["QwenCoder"]

_END = "</tool_call>"
_VALUE_END = "</parameter>"


class QwenCoder(ToolFormat):
    """``<function=name>`` with ``<parameter=name>``; the outer tag may be missing."""

    name = "qwen3-coder"
    begins = ("<tool_call>", "<function=")
    markers = ("<tool_call>", _END)
    signs = ("<function=",)
    between = "\n"

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        if mark == "<tool_call>":
            yield from cursor.space()
            yield from cursor.expect("<function=")
        name, _ = yield from cursor.collect((">",))
        out.start(name.strip())
        arguments = TaggedArguments(self.tools.get(name.strip()), out.arguments, trim=True)
        while True:
            yield from cursor.space()
            if (yield from cursor.found("</function>")):
                break
            yield from cursor.expect("<parameter=")
            key, _ = yield from cursor.collect((">",))
            yield from arguments.read(cursor, key.strip(), _VALUE_END)
        arguments.close()
        out.end()
        if mark == "<tool_call>":
            yield from cursor.space()
            yield from cursor.found(_END)

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        def item(name: str) -> str:
            if ">" in name:
                grammar.refuse(tool, f"the argument {name!r:.80} has a '>' in its name")
            begin = grammar.text(f"<parameter={name}>\n")
            if tool.is_text(name):
                value = grammar.text_value(tool, name, _VALUE_END, before="\n")
            else:
                document = grammar.json(property_schema(tool, name))
                value = f"{document} {grammar.text(chr(10) + _VALUE_END)}"
            return f'{begin} {value} "\\n"'

        begin = grammar.text(f"<tool_call>\n<function={grammar.name(tool)}>\n")
        end = grammar.closing(f"</function>\n{_END}")
        return f"{begin} {grammar.members(tool, item)} {end}"
