"""Gemma: calls in a notation of its own, and as Python.

    <start_function_call>call:get_weather{city:<escape>Oslo<escape>}<end_function_call>
    <|tool_call>call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>
    [get_weather(city="Oslo")]

The first is FunctionGemma's, the second Gemma 4's; the third is what prompts ask Gemma 3 for, in a
list or in a block of code ``tool_code``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from clika_runtime.modelverse.tools import (
    Around,
    Cursor,
    GrammarWriter,
    Malformed,
    Output,
    Tool,
    ToolFormat,
)
from clika_runtime.modelverse.tools.cursor import Reading
from clika_runtime.modelverse.tools.json_text import JSON_NUMBER, MAX_DEPTH
from clika_runtime.modelverse.tools.members import call_members, separated
from clika_runtime.modelverse.tools.python_text import python_argument, python_call, python_calls

__all__ = ["FunctionGemma", "Gemma4", "GemmaPythonic"]

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_PLAIN = re.compile(r"[-+.\w]+")
_WORDS = {"true": "true", "false": "false", "null": "null", "None": "null"}
MAX_TEXT = 4 << 20


class _Braced(ToolFormat):
    """``call:name{key:value,...}``: strings stand between two equal marks, keys without."""

    quote: ClassVar[str] = ""
    end: ClassVar[str] = ""
    between = ""

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        yield from cursor.expect("call:")
        name = yield from cursor.run(_NAME)
        yield from cursor.space()
        yield from cursor.expect("{")
        out.start(name)
        yield from call_members(
            cursor, out, "}", lambda: self._key(cursor), lambda: self._value(cursor, 0)
        )
        yield from cursor.space()
        yield from cursor.found(self.end)

    def _key(self, cursor: Cursor) -> Reading[str]:
        if (yield from cursor.found(self.quote)):
            key, _ = yield from cursor.collect((self.quote,))
            yield from cursor.space()
            yield from cursor.expect(":")
        else:
            key, _ = yield from cursor.collect((":",))
        if not key.strip():
            raise Malformed
        yield from cursor.space()
        return key.strip()

    def _value(self, cursor: Cursor, depth: int) -> Reading[str]:
        if depth > MAX_DEPTH:
            raise Malformed
        if (yield from cursor.found(self.quote)):
            text, _ = yield from cursor.collect((self.quote,), MAX_TEXT)
            return json.dumps(text, ensure_ascii=False)
        for begin, end in (("[", "]"), ("{", "}")):
            if (yield from cursor.found(begin)):
                items = yield from self._items(cursor, end, depth)
                return f"{begin}{', '.join(items)}{end}"
        word = yield from cursor.run(_PLAIN, 400)
        if word in _WORDS:
            return _WORDS[word]
        if JSON_NUMBER.fullmatch(word) is None:
            raise Malformed
        return word

    def _items(self, cursor: Cursor, end: str, depth: int) -> Reading[list[str]]:
        items: list[str] = []

        def item() -> Reading[None]:
            key = ""
            if end == "}":
                name = yield from self._key(cursor)
                key = f"{json.dumps(name, ensure_ascii=False)}: "
            value = yield from self._value(cursor, depth + 1)
            items.append(key + value)

        yield from separated(cursor, end, item)
        return items

    # ------------------------------------------------------------ writing
    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        def item(name: str) -> str:
            if ":" in name or name != name.strip() or name.startswith("}"):
                grammar.refuse(tool, f"the argument {name!r:.80} cannot be written as a key")
            value = self._written(tool, grammar, tool.properties[name], 0)
            return f"{grammar.text(name + ':')} {value}"

        begin = grammar.text(f"{self.begins[0]}call:{grammar.name(tool)}{{")
        members = grammar.members(tool, item, ",")
        return f"{begin} {members} {grammar.closing('}' + self.end)}"

    def _written(self, tool: Tool, grammar: GrammarWriter, schema: Any, depth: int) -> str:
        """The notation of values of a schema."""
        schema = tool.resolved(schema)
        kind = schema.get("type")
        if depth > 8:
            grammar.refuse(tool, "its schema is nested too deeply for this format")
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if values is not None:
            scalars = [v for v in values if v is None or isinstance(v, (str, bool, int, float))]
            if not scalars:
                grammar.refuse(tool, f"none of the values {values!r:.80} can be written")
            return "(" + " | ".join(self._literal(grammar, value) for value in scalars) + ")"
        if kind == "string":
            grammar.only_text(tool, schema)
            return f"{grammar.text(self.quote)} {grammar.up_to(self.quote, schema)}"
        if kind in ("number", "integer"):
            return grammar.json(schema)
        if kind == "boolean":
            return '("true" | "false")'
        if kind == "null":
            return '"null"'
        if kind == "array":
            return self._array(tool, grammar, schema, depth)
        if kind == "object":
            inner = Tool(tool.name, {**_shared(tool.parameters), **schema})

            def item(name: str) -> str:
                value = self._written(inner, grammar, inner.properties[name], depth + 1)
                return f"{grammar.text(name + ':')} {value}"

            return f'"{{" {grammar.members(inner, item, ",")} "}}"'
        grammar.refuse(tool, f"values of type {kind!r:.80} cannot be written in this format")

    def _array(
        self, tool: Tool, grammar: GrammarWriter, schema: Mapping[str, Any], depth: int
    ) -> str:
        grammar.only(tool, schema, frozenset(("type", "items", "minItems", "maxItems")))
        item = self._written(tool, grammar, schema.get("items", {}), depth + 1)
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return '"[" "]"'
        bound = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
        body = f'{item} ("," {item}){bound}'
        return f'"[" ({body}){"" if least else "?"} "]"'

    def _literal(self, grammar: GrammarWriter, value: Any) -> str:
        if isinstance(value, str):
            return grammar.text(f"{self.quote}{value}{self.quote}")
        return grammar.text(json.dumps(value))


def _shared(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: parameters[key] for key in ("$defs", "definitions") if key in parameters}


class FunctionGemma(_Braced):
    """FunctionGemma: ``<start_function_call>``, strings between ``<escape>``."""

    name = "functiongemma"
    quote = "<escape>"
    end = "<end_function_call>"
    begins = ("<start_function_call>",)
    markers = ("<start_function_call>", "<end_function_call>", "<escape>")
    signs = ("<start_function_call>",)


class Gemma4(_Braced):
    """Gemma 4: ``<|tool_call>``, strings between marks of quotation."""

    name = "gemma4"
    quote = '<|"|>'
    end = "<tool_call|>"
    begins = ("<|tool_call>",)
    markers = ("<|tool_call>", "<tool_call|>", '<|"|>')
    reasonings = ("gemma",)
    signs = ("<|tool_call>",)


class GemmaPythonic(ToolFormat):
    """A list of calls, as the whole reply, or calls in a block of code ``tool_code``."""

    name = "gemma-pythonic"
    begins = ("```tool_code\n",)
    signs = ("tool_code", "func_name1(", "[func_name")

    def opening(self, cursor: Cursor, out: Output) -> Reading[None]:
        yield from cursor.space()
        yield from cursor.expect("[")
        yield from python_calls(cursor, out, known=True)

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        while True:
            yield from cursor.space()
            if (yield from cursor.found("```")) or not (yield from cursor.ahead()):
                return
            if (yield from cursor.found("[")):
                yield from python_calls(cursor, out)
            else:
                yield from python_call(cursor, out)

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        return python_argument(tool, grammar)

    def around(self, grammar: GrammarWriter) -> Around:
        return Around("[", ", ", "]")
