"""Tool calls and reasoning: replies taken apart, and calls that are forced.

    from clika_runtime.modelverse.tools import OutputParser, choose_format, forced_call

    parser = OutputParser("hermes", reasoning="think", tools=tools)
    events = parser.push(piece)         # while the reply arrives
    events += parser.finish()
    reply = collect(events)             # text, reasoning, calls

    spec = forced_call(tokenizer, tool_format("hermes"), tools, "required")  # a ConstraintSpec

Formats are plugins of the hook ``clika_register_tool_parsers``: subclasses of `ToolFormat`. What
they read is a `Cursor`, so a format is written as if the whole text were there, and is the same for
a whole text and for a stream.
"""

from __future__ import annotations

from .choosing import choose_format, choose_reasoning, shown_ids, tool_format
from .cursor import Cursor, Malformed
from .events import (
    CallArguments,
    CallEnd,
    CallStart,
    CallWithdrawn,
    Event,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCall,
    collect,
)
from .format import Around, OutputParser, ToolFormat, parse_reply
from .grammar import GrammarWriter, forced_call
from .output import Output
from .reasoning import REASONINGS, Reasoning
from .toolset import Tool, read_tools

__all__ = [
    "REASONINGS",
    "Around",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "CallWithdrawn",
    "Cursor",
    "Event",
    "GrammarWriter",
    "Malformed",
    "Output",
    "OutputParser",
    "Reasoning",
    "ReasoningDelta",
    "Reply",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolFormat",
    "choose_format",
    "choose_reasoning",
    "collect",
    "forced_call",
    "parse_reply",
    "read_tools",
    "shown_ids",
    "tool_format",
]
