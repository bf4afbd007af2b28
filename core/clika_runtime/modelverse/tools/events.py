"""What is read out of a reply: events while it streams, and the whole of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "CallArguments",
    "CallEnd",
    "CallStart",
    "CallWithdrawn",
    "Event",
    "ReasoningDelta",
    "Reply",
    "TextDelta",
    "ToolCall",
    "collect",
]


@dataclass(frozen=True)
class TextDelta:
    """More text of the answer."""

    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """More text of the reasoning."""

    text: str


@dataclass(frozen=True)
class CallStart:
    """A call begins. ``index`` counts calls from 0; ``id`` is the model's own, where it wrote
    one; streams of a `GenerativeModel` give one to the others."""

    index: int
    name: str
    id: str = ""


@dataclass(frozen=True)
class CallArguments:
    """More of the arguments, a JSON object as text."""

    index: int
    text: str


@dataclass(frozen=True)
class CallEnd:
    """The call is complete; ``id`` as in `CallStart`, for formats that write it behind."""

    index: int
    id: str = ""


@dataclass(frozen=True)
class CallWithdrawn:
    """The call that began last is none: it is malformed or cut off. What was written follows as
    text, and the index is used again."""

    index: int


Event = TextDelta | ReasoningDelta | CallStart | CallArguments | CallEnd | CallWithdrawn


@dataclass
class ToolCall:
    """A call: the name of a tool, and its arguments, a JSON object as text."""

    name: str
    arguments: str
    id: str = ""

    @property
    def parsed(self) -> dict[str, Any] | None:
        """The arguments as Python values; None where Python's reader refuses their text.

        >>> ToolCall("add", '{"a": 1}').parsed
        {'a': 1}
        """
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


@dataclass
class Reply:
    """A whole reply, taken apart."""

    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)


def collect(events: Iterable[Event]) -> Reply:
    """The reply that the events tell.

    >>> collect([TextDelta("Hi"), CallStart(0, "f"), CallArguments(0, "{}"), CallEnd(0)])
    Reply(text='Hi', reasoning='', calls=[ToolCall(name='f', arguments='{}', id='')])
    """
    text: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    arguments: list[str] = []
    for event in events:
        if isinstance(event, TextDelta):
            text.append(event.text)
        elif isinstance(event, ReasoningDelta):
            reasoning.append(event.text)
        elif isinstance(event, CallStart):
            calls.append(ToolCall(event.name, "", event.id))
            arguments = []
        elif isinstance(event, CallArguments):
            arguments.append(event.text)
        elif isinstance(event, CallEnd):
            calls[-1].arguments = "".join(arguments)
            calls[-1].id = event.id or calls[-1].id
        else:
            calls.pop()
    return Reply("".join(text), "".join(reasoning), calls)
