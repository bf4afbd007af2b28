"""Phi-4 and Granite 3: a mark, and an array of objects.

<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]
"""

from __future__ import annotations

from typing import ClassVar

from ..cursor import Cursor, Malformed, Reading
from ..format import Around, ToolFormat
from ..grammar import GrammarWriter
from ..json_text import json_calls
from ..output import Output
from ..toolset import Tool

__all__ = ["Granite", "Phi4"]


class _List(ToolFormat):
    """A mark, and calls in an array."""

    #: Behind the array; empty for none.
    ends: ClassVar[tuple[str, ...]] = ()

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        if (yield from cursor.ahead()) not in ("[", "{"):
            raise Malformed
        yield from json_calls(cursor, out)
        yield from cursor.space()
        for end in self.ends:
            if (yield from cursor.found(end)):
                break

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        return grammar.json_call(tool)

    def around(self, grammar: GrammarWriter) -> Around:
        return Around(f"{self.begins[0]}[", ", ", f"]{self.ends[0] if self.ends else ''}")


class Phi4(_List):
    """``<|tool_call|>[{...}]<|/tool_call|>``, or ``functools[{...}]``."""

    name = "phi-4"
    begins = ("<|tool_call|>", "functools")
    markers = ("<|tool_call|>", "<|/tool_call|>")
    ends = ("<|/tool_call|>", "</|tool_call|>")
    signs = ("<|tool_call|>", "functools[")


class Granite(_List):
    """``<|tool_call|>[{...}]`` of Granite 3."""

    name = "granite"
    begins = ("<|tool_call|>", "<tool_call>")
    markers = ("<|tool_call|>", "<tool_call>", "</tool_call>")
    ends = ("</tool_call>",)
    reasonings = ("granite", "granite-words")
    signs = ("<|tool_call|>", "<|start_of_role|>")

    def around(self, grammar: GrammarWriter) -> Around:
        return Around(f"{self.begins[0]}[", ", ", "]")
