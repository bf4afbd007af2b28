"""Grammars of forced tool calls: what a format writes, as llguidance's form of Lark.

A mark of a format is one special token in one vocabulary and a piece of text in another, so a
grammar is written for a tokenizer. What the grammar admits, the format's parser reads back as one
call whose arguments the tool's schema admits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from clika_runtime.errors import InvalidArgumentError

from ..constraints.spec import ConstraintSpec
from .toolset import Tool, chosen_tools

if TYPE_CHECKING:
    from clika_runtime.tokenizer import Tokenizer

    from .format import ToolFormat
    from .reasoning import Reasoning

__all__ = ["MAX_CALLS", "GrammarWriter", "forced_call", "property_schema"]

#: Calls of one forced reply: a model that repeats itself comes to an end.
MAX_CALLS = 32

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_SPACE = r"( |\n[ \t]{0,24})?"
#: Keywords of an object that its members in order, the required ones and some others, fulfil.
_OBJECT = frozenset(
    ("type", "properties", "required", "additionalProperties", "$defs", "definitions", "strict")
)
_TEXT = frozenset(("type", "enum", "const", "minLength", "maxLength", "format"))
_NOTES = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
    + ("nullable", "$schema", "$id", "$comment")
)


class GrammarWriter:
    """Puts a grammar together. Methods return Lark expressions and add the rules they need.

    ``several`` says that the reply may have more than one call, ``number`` which of them is being
    written."""

    def __init__(self, tokenizer: Tokenizer, markers: Iterable[str], several: bool = False) -> None:
        self.several = several
        self.number = 0
        ids = {marker: tokenizer.token_to_id(marker) for marker in markers}
        self._special = {
            marker: index for marker, index in ids.items() if index in tokenizer.special_ids
        }
        self._stops = tokenizer.stop_ids
        self._rules: list[str] = []
        self._documents: dict[str, str] = {}
        pattern = "|".join(sorted(map(re.escape, self._special), key=len, reverse=True))
        self._cut = re.compile(f"({pattern})") if pattern else None

    # ------------------------------------------------------------ parts
    def text(self, literal: str) -> str:
        """A text, marks in it as the vocabulary has them."""
        parts = [literal] if self._cut is None else self._cut.split(literal)
        terms = [
            f"<[{self._special[part]}]>" if part in self._special else _quoted(part)
            for part in parts
            if part
        ]
        return " ".join(terms) or '""'

    def closing(self, literal: str) -> str:
        """A text at the end of a call, without a mark that ends the reply itself. Such a mark has
        no second call behind it: `InvalidArgumentError` where several are asked for."""
        for marker, index in self._special.items():
            if index in self._stops and literal.endswith(marker):
                if self.several:
                    raise InvalidArgumentError(
                        f"tool_choice: several calls are asked for, and {marker!r}, which closes "
                        "one, ends the replies of this checkpoint; leave out parallel_tool_calls"
                    )
                return self.closing(literal.removesuffix(marker))
        return self.text(literal)

    def ending(self, literal: str) -> str:
        """A text at the end of the reply, without a mark that ends it itself."""
        for marker, index in self._special.items():
            if index in self._stops and literal.endswith(marker):
                return self.ending(literal.removesuffix(marker))
        return self.text(literal)

    def has(self, marker: str) -> bool:
        """Whether a mark is a special token of the vocabulary."""
        return marker in self._special

    def name(self, tool: Tool) -> str:
        """The tool's name, of letters that every format can write."""
        if _NAME.fullmatch(tool.name) is None:
            self.refuse(tool, "its name must be of letters, digits, '_', '.' and '-'")
        return tool.name

    def json(self, schema: Mapping[str, Any] | bool) -> str:
        """A JSON document of a schema."""
        value = {} if schema is True else schema
        if isinstance(value, Mapping):
            value = {**value, "x-guidance": {"whitespace_pattern": _SPACE}}
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"tools: a schema is no JSON: {error!s:.200}") from error
        if text not in self._documents:
            self._documents[text] = self.rule(f"%json {text}")
        return self._documents[text]

    def arguments(self, tool: Tool) -> str:
        """The arguments of a tool as a JSON object."""
        return self.json({"type": "object", **tool.parameters})

    def json_call(self, tool: Tool, key: str = "arguments") -> str:
        """The call as an object of name and arguments."""
        head = f'{{"name": "{self.name(tool)}", "{key}": '
        return f'{self.text(head)} {self.arguments(tool)} "}}"'

    def up_to(self, tag: str, schema: Mapping[str, Any] | None = None, before: str = "") -> str:
        """A text of a schema of strings, ``before`` and the closing tag, which does not stand in
        the text."""
        schema = schema or {}
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if values is not None:
            fitting = [value for value in values if isinstance(value, str) and tag not in value]
            if not fitting:
                raise InvalidArgumentError(f"tools: no value of {values!r:.200} can be written")
            choice = " | ".join(map(_quoted, fitting))
            return f"({choice}) {self.text(before + tag)}"
        least, most = schema.get("minLength", 0), schema.get("maxLength", "")
        text = "(?s:.*)" if not least and most == "" else f"(?s:.{{{least},{most}}})"
        if self.has(tag):
            value = self.terminal(f"/{text}/")
            return f"{value} {self.text(before + tag)}"
        # A terminal takes as much as it can, so it ends with the tag, and at the first one.
        end = _escaped(tag)
        value = self.terminal(f"/{text}{_escaped(before)}{end}/ & ~/(?s:.*){end}(?s:.+)/")
        return self.rule(value, "lazy")

    def text_value(self, tool: Tool, name: str, tag: str, before: str = "") -> str:
        """An argument that is a string, without quotes, and its closing tag."""
        schema = tool.resolved(tool.properties[name])
        self.only_text(tool, schema)
        return self.up_to(tag, schema, before)

    def members(self, tool: Tool, item: Callable[[str], str], separator: str = "") -> str:
        """The arguments of a tool, in the order of its schema: ``item(name)`` is one of them."""
        schema = tool.parameters
        self.only(tool, schema, _OBJECT)
        required = schema.get("required") or ()
        missing = [name for name in required if name not in tool.properties]
        if missing:
            self.refuse(tool, f"{missing[0]!r:.80} is required and not among the properties")
        names = list(tool.properties)
        for name in names:
            if not name or not name.isprintable():
                self.refuse(tool, f"an argument is named {name!r:.80}")
        return self.sequence([(item(name), name in required) for name in names], separator)

    def sequence(self, items: Sequence[tuple[str, bool]], separator: str = "") -> str:
        """Items in order, of which some may be left out, with separators between them."""
        if not separator:
            return " ".join(f"({item})" if must else f"({item})?" for item, must in items) or '""'
        between = self.text(separator)
        rest, first = '""', '""'
        for item, must in reversed(items):
            first_rule = f"({item}) {rest}" + ("" if must else f" | {first}")
            rest_rule = f"{between} ({item}) {rest}" + ("" if must else f" | {rest}")
            first, rest = self.rule(first_rule), self.rule(rest_rule)
        return first

    # ------------------------------------------------------------ rules
    def rule(self, body: str, options: str = "") -> str:
        """A rule of its own, with options of the library in brackets."""
        name = f"r{len(self._rules)}"
        self._rules.append(f"{name}{f'[{options}]' if options else ''}: {body}")
        return name

    def terminal(self, body: str) -> str:
        """A terminal of its own: one regular expression."""
        name = f"T{len(self._rules)}"
        self._rules.append(f"{name}: {body}")
        return name

    def source(self, start: str) -> str:
        """The whole grammar."""
        return "\n".join([f"start: {start}", *self._rules]) + "\n"

    # ------------------------------------------------------------ refusals
    def refuse(self, tool: Tool, reason: str) -> NoReturn:
        """The tool cannot be written in the format."""
        raise InvalidArgumentError(f"tool_choice: a call of {tool.name!r:.80}: {reason}")

    def only(self, tool: Tool, schema: Mapping[str, Any], allowed: frozenset[str]) -> None:
        """Refuse a schema with keywords beyond the allowed ones and those that demand nothing."""
        for key in schema:
            if key not in allowed and key not in _NOTES and not str(key).startswith("x-"):
                self.refuse(tool, f"the keyword {key!r:.80} cannot be kept to in this format")

    def only_text(self, tool: Tool, schema: Mapping[str, Any]) -> None:
        """Refuse a schema of strings with more than values and lengths."""
        self.only(tool, schema, _TEXT)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    """A text within a regular expression between slashes."""
    return re.escape(text).replace("/", "\\/").replace("\\\n", "\\n")


def property_schema(tool: Tool, name: str) -> Mapping[str, Any] | bool:
    """The schema of one argument by itself: definitions that it may refer to come along."""
    schema = tool.properties[name]
    if not isinstance(schema, Mapping):
        return bool(schema)
    shared = {
        key: tool.parameters[key] for key in ("$defs", "definitions") if key in tool.parameters
    }
    return {**shared, **schema}


def forced_call(
    tokenizer: Tokenizer,
    format: type[ToolFormat],
    tools: Any,
    choice: str = "required",
    *,
    reasoning: Reasoning | None = None,
    inside: bool = False,
    several: bool = False,
) -> ConstraintSpec:
    """The constraint of a reply that is exactly one call, as the format writes it; with
    ``several`` 1 to 32 calls.

    ``choice`` is ``required`` (any of the tools) or the name of one. With ``inside`` the prompt has
    opened reasoning, which comes first and is free. Errors: `InvalidArgumentError` for tools that
    cannot be written in the format, with the reason, and for several calls in a format that has one
    in a reply.
    """
    chosen = chosen_tools(tools, choice)
    markers = format.markers if reasoning is None else (*format.markers, *reasoning.markers)
    writer = GrammarWriter(tokenizer, markers, several)
    made = format(chosen)
    begin, between, end = made.around(writer)
    if several and between is None:
        raise InvalidArgumentError(
            f"tool_choice: several calls are asked for, and format '{format.name}' has one in a "
            "reply; leave out parallel_tool_calls"
        )

    def call(number: int) -> str:
        writer.number = number
        return writer.rule(" | ".join(writer.rule(made.write(tool, writer)) for tool in chosen))

    calls = call(0)
    if several:
        separator = writer.text(between or "")
        if made.numbered:
            more = '""'
            for number in range(MAX_CALLS - 1, 0, -1):
                more = writer.rule(f'{separator} {call(number)} {more} | ""')
        else:
            more = f"({separator} {calls}){{0,{MAX_CALLS - 1}}}"
        calls = f"{calls} {more}"
    start = f"{writer.text(begin)} {calls} {writer.ending(end)}"
    if inside and reasoning is not None:
        start = f"{writer.up_to(reasoning.end)} /\\n{{0,2}}/ {start}"
    return ConstraintSpec.lark(writer.source(start))
