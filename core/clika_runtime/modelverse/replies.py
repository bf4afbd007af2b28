"""How the reply of a conversation is to be: tools that are offered or forced, marks of reasoning,
constraints; and how it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from clika_runtime import plugins
from clika_runtime.errors import InvalidArgumentError, UnsupportedError, told
from clika_runtime.tokenizer import ChatTemplate

from .tools import (
    OutputParser,
    Reasoning,
    Tool,
    ToolFormat,
    choose_format,
    choose_reasoning,
    forced_call,
    read_tools,
    shown_ids,
)

if TYPE_CHECKING:
    from .constraints import ConstraintSpec
    from .generation import GenerativeModel

__all__ = ["ReplyForm", "chat_form", "read_choice"]

_CHOICES = ("auto", "none", "required")


@dataclass(frozen=True)
class ReplyForm:
    """What a reply is written in. ``rendered`` are the tools as the template gets them, ``tools``
    the same read; ``forced`` those of which one has to be called, or with ``several`` one or
    more."""

    format: type[ToolFormat] | None = None
    reasoning: Reasoning | None = None
    rendered: Any = None
    tools: tuple[Tool, ...] | None = None
    forced: tuple[Tool, ...] = ()
    shown: frozenset[int] = frozenset()
    several: bool = False

    def inside(self, prompt: str) -> bool:
        """Whether the prompt has opened reasoning."""
        return self.reasoning is not None and self.reasoning.opened_by(prompt)

    def parser(self, prompt: str) -> OutputParser:
        """What takes the reply to a prompt apart."""
        return OutputParser(
            self.format, reasoning=self.reasoning, inside=self.inside(prompt), tools=self.tools
        )

    def constraint(self, tokenizer: Any, prompt: str) -> ConstraintSpec | None:
        """What makes the reply a call, or several, where one is forced."""
        if not self.forced or self.format is None:
            return None
        return forced_call(
            tokenizer,
            self.format,
            self.forced,
            reasoning=self.reasoning,
            inside=self.inside(prompt),
            several=self.several,
        )


def chat_form(
    model: GenerativeModel,
    tools: Any,
    tool_choice: Any,
    split_reasoning: bool,
    several: bool = False,
) -> ReplyForm | None:
    """The form of a conversation's reply; None for a reply that is text alone.

    Errors: `InvalidArgumentError` for tools or a choice that are none, `UnsupportedError` for a
    template without tools and for one that writes no known format.
    """
    if not isinstance(several, bool):
        raise InvalidArgumentError(
            f"chat: parallel_tool_calls must be True or False, got {told(several)}"
        )
    offered = read_tools(tools) if tools is not None else ()
    forced = read_choice(tool_choice, offered)
    tokenizer = model.tokenizer
    if tool_choice == "none" or not offered:
        if not split_reasoning:
            return None
        reasoning = choose_reasoning(tokenizer.chat_template)
        if reasoning is None:
            return None
        return ReplyForm(reasoning=reasoning, shown=shown_ids(tokenizer, None, reasoning))
    format = _format(model)
    reasoning = choose_reasoning(tokenizer.tool_template, format)
    return ReplyForm(
        format,
        reasoning,
        _rendered(tools),
        offered,
        forced,
        shown_ids(tokenizer, format, reasoning),
        several,
    )


def read_choice(choice: Any, offered: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tools of which one has to be called: none of them for ``auto`` (also None) and ``none``,
    all for ``required``, one for ``{"name": ...}`` (or OpenAI's ``{"type": "function", "function":
    {"name": ...}}``)."""
    if choice is None or (isinstance(choice, str) and choice in _CHOICES):
        if choice != "required":
            return ()
        if not offered:
            raise InvalidArgumentError("tool_choice: a call is forced, and no tool is offered")
        return offered
    name = None
    if isinstance(choice, Mapping):
        inner = choice.get("function", choice)
        name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        raise InvalidArgumentError(
            f'tool_choice: it is {", ".join(_CHOICES)} or {{"name": ...}}, got {told(choice)}'
        )
    for tool in offered:
        if tool.name == name:
            return (tool,)
    raise InvalidArgumentError(
        f"tool_choice: {told(name)} is not offered; the tools are "
        f"{', '.join(tool.name for tool in offered)[:300] or 'none'}"
    )


def _rendered(tools: Any) -> list[Any]:
    """The tools as templates expect them: all in the OpenAI shape."""
    items = json.loads(tools) if isinstance(tools, str) else tools
    shaped = []
    for item in items:
        if isinstance(item, Tool):
            item = {"name": item.name, "parameters": dict(item.parameters)}
        whole = "function" in item
        shaped.append(item if whole else {"type": "function", "function": item})
    return shaped


def _format(model: GenerativeModel) -> type[ToolFormat]:
    """The format in which the model writes calls."""
    template = model.tokenizer.tool_template
    if template is None:
        raise UnsupportedError("tools: they need a chat template, and this checkpoint has none")
    if not _takes_tools(template):
        raise UnsupportedError(
            "tools: the chat template of this checkpoint has no place for tools; use a model that "
            "was trained for them"
        )
    row = plugins.families().get(model.family)
    declared = row.spec.tool_parsers if row is not None else ()
    found = choose_format(template, declared)
    if found is None:
        raise UnsupportedError(
            f"tools: the chat template of this checkpoint writes none of the formats of family "
            f"'{model.family}' ({', '.join(declared) or 'it declares none'})"
        )
    return found


@lru_cache(maxsize=64)
def _takes_tools(template: str) -> bool:
    return ChatTemplate(template).reads("tools")
