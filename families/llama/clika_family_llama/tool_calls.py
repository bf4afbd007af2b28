"""Llama 3 and 4: calls as JSON, or as Python.

    {"name": "get_weather", "parameters": {"city": "Oslo"}}
    [get_weather(city="Oslo"), now()]

Both may stand behind ``<|python_tag|>``; Llama 4 writes ``<|python_start|>`` and ``<|python_end|>``
around the second.
"""

from __future__ import annotations

from clika_runtime.modelverse.tools import (
    Around,
    Cursor,
    GrammarWriter,
    Output,
    Tool,
    ToolFormat,
)
from clika_runtime.modelverse.tools.cursor import Reading
from clika_runtime.modelverse.tools.json_text import json_call, json_calls
from clika_runtime.modelverse.tools.python_text import (
    python_argument,
    python_call,
    python_calls,
)

__all__ = ["LlamaJson", "LlamaPythonic"]

_TAG, _START, _END = "<|python_tag|>", "<|python_start|>", "<|python_end|>"


class LlamaJson(ToolFormat):
    """Objects of ``name`` and ``parameters``, several with semicolons between them.

    Without the mark only a reply that is nothing else counts, and only calls of tools that are
    offered. Behind the mark may also stand a call of a tool that the model knows by itself:
    ``brave_search.call(query="...")``.
    """

    name = "llama3-json"
    begins = (_TAG,)
    markers = (_TAG,)
    signs = ('"parameters":', _TAG)
    between = "; "

    def opening(self, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        yield from self._objects(cursor, out, known=True)

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        if (yield from cursor.ahead()) in ("{", "["):
            yield from self._objects(cursor, out, known=False)
        else:
            yield from python_call(cursor, out)

    def _objects(self, cursor: Cursor, out: Output, known: bool) -> Reading[None]:
        if (yield from cursor.ahead()) == "[":
            yield from json_calls(cursor, out, known)
            return
        while True:
            yield from json_call(cursor, out, known)
            yield from cursor.space()
            if not (yield from cursor.found(";")):
                return
            yield from cursor.space()
            if (yield from cursor.ahead()) != "{":
                return

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        return grammar.json_call(tool, "parameters")


class LlamaPythonic(ToolFormat):
    """Calls in a list, arguments by name. Without a mark as in `LlamaJson`."""

    name = "llama-pythonic"
    begins = (_START, _TAG)
    markers = (_TAG, _START, _END)
    signs = (_START, "func_name1(", "[func_name")

    def opening(self, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        yield from cursor.expect("[")
        yield from python_calls(cursor, out, known=True)

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        if (yield from cursor.found("[")):
            yield from python_calls(cursor, out)
        else:
            yield from python_call(cursor, out)
        yield from cursor.space()
        yield from cursor.found(_END)

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        return python_argument(tool, grammar)

    def around(self, grammar: GrammarWriter) -> Around:
        return Around("[", ", ", "]")
