"""gpt-oss: the harmony format, in which a whole reply is messages on channels.

    <|channel|>analysis<|message|>The user asks for the weather.<|end|><|start|>assistant
    <|channel|>commentary to=functions.get_weather <|constrain|>json
    <|message|>{"city": "Oslo"}<|call|>

``analysis`` is reasoning, ``final`` and ``commentary`` are text, a recipient makes a call.
"""

from __future__ import annotations

import re

from ..cursor import Cursor, Malformed, Reading
from ..format import ToolFormat
from ..grammar import GrammarWriter
from ..json_text import json_arguments
from ..output import Output
from ..reasoning import Reasoning
from ..toolset import Tool

__all__ = ["Harmony"]

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_ON = re.compile(r"<\|channel\|>\s*(\w+)")


class Harmony(ToolFormat):
    """Messages on channels. The marks of reasoning are its own."""

    name = "harmony"
    begins = (_START, _CHANNEL)
    markers = (_START, _CHANNEL, _MESSAGE, "<|constrain|>", *_ENDS)
    reasonings = ()
    signs = ("<|channel|>",)

    def run(
        self, cursor: Cursor, out: Output, reasoning: Reasoning | None, inside: bool
    ) -> Reading[None]:
        # The prompt ends with "<|start|>assistant": a recipient may come first.
        cursor.keep()
        yield from cursor.space()
        head = ""
        if (yield from cursor.found("to=")):
            head = "to="
        mark: str | None = None
        if not head:
            out.text(cursor.kept())
        while True:
            if not head:
                mark = yield from cursor.until((*self.begins, _MESSAGE, *_ENDS), out.text)
                if mark is None:
                    return
                if mark in _ENDS:
                    continue
                cursor.keep(mark)
            try:
                if mark != _MESSAGE:
                    rest, _ = yield from cursor.collect((_MESSAGE,))
                    head = head + (mark or "") + rest
                yield from self._message(head, cursor, out)
            except Malformed:
                out.withdraw()
            head, mark = "", None

    def _message(self, head: str, cursor: Cursor, out: Output) -> Reading[None]:
        recipient = _RECIPIENT.search(head)
        channel = _ON.search(head)
        if recipient is not None and recipient.group(1) != "assistant":
            yield from cursor.space()
            if (yield from cursor.ahead()) != "{":
                raise Malformed
            out.start(recipient.group(1).removeprefix("functions."))
            yield from json_arguments(cursor, out.arguments)
            out.end()
            yield from cursor.space()
            for end in _ENDS:
                if (yield from cursor.found(end)):
                    break
            return
        cursor.kept()
        if channel is not None and channel.group(1) == "analysis":
            out.begin_reasoning()
            yield from cursor.until((*_ENDS, _START), out.reasoning)
            out.end_reasoning()
        else:
            yield from cursor.until(_ENDS, out.text)

    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        head = f"{_CHANNEL}commentary to=functions.{grammar.name(tool)} <|constrain|>json{_MESSAGE}"
        return f"{grammar.text(head)} {grammar.arguments(tool)} {grammar.closing('<|call|>')}"
