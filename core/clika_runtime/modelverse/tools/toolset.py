"""The tools of a request: names and schemas, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clika_runtime.errors import InvalidArgumentError, told

__all__ = ["Tool", "chosen_tools", "read_tools"]

MAX_TOOLS = 1024


@dataclass(frozen=True)
class Tool:
    """A tool: its name, and the JSON schema of its arguments."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schemas of the arguments by name."""
        found = self.parameters.get("properties")
        return found if isinstance(found, Mapping) else {}

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """A schema of the tool's with references at its top followed."""
        for _ in range(16):
            if not isinstance(schema, Mapping):
                return {}
            target = schema.get("$ref")
            if not isinstance(target, str) or not target.startswith("#"):
                return schema
            schema = self.parameters
            for step in target[1:].split("/")[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                schema = schema.get(key) if isinstance(schema, Mapping) else None
        return {}

    def is_text(self, name: str) -> bool | None:
        """Whether the argument is a string; None where the schema does not decide."""
        schema = self.resolved(self.properties.get(name))
        kind = schema.get("type")
        kinds = [kind] if isinstance(kind, str) else kind
        if isinstance(kinds, Sequence) and kinds:
            if "string" not in kinds:
                return False
            return True if set(kinds) == {"string"} else None
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list) and values:
            texts = sum(isinstance(value, str) for value in values)
            return True if texts == len(values) else None if texts else False
        return None


def read_tools(tools: Any) -> tuple[Tool, ...]:
    """The tools of a request: a list in the OpenAI shape (``{"type": "function", "function":
    {...}}``), or of the inner objects alone. `InvalidArgumentError` names the one that is wrong."""
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"tools: no valid JSON: {error!s:.200}") from error
    if not isinstance(tools, Sequence) or len(tools) > MAX_TOOLS:
        raise InvalidArgumentError(f"tools: a list of at most {MAX_TOOLS} tools is expected")
    result: dict[str, Tool] = {}
    for index, item in enumerate(tools):
        if isinstance(item, Tool):
            tool = item
        else:
            tool = _read_tool(item, f"tools[{index}]")
        if tool.name in result:
            raise InvalidArgumentError(f"tools[{index}]: the name {tool.name!r} stands twice")
        result[tool.name] = tool
    return tuple(result.values())


def _read_tool(item: Any, where: str) -> Tool:
    inner = item.get("function", item) if isinstance(item, Mapping) else None
    if not isinstance(inner, Mapping):
        raise InvalidArgumentError(f"{where}: an object is expected, got {type(item).__name__}")
    name, parameters = inner.get("name"), inner.get("parameters")
    if not isinstance(name, str) or not 0 < len(name) <= 256 or not name.isprintable():
        raise InvalidArgumentError(f"{where}: the tool needs a name, got {told(name)}")
    if parameters is None:
        parameters = {"type": "object", "properties": {}}
    if not isinstance(parameters, Mapping):
        raise InvalidArgumentError(
            f"{where}: parameters must be a JSON schema, got {type(parameters).__name__}"
        )
    return Tool(name, parameters)


def chosen_tools(tools: Any, choice: str) -> tuple[Tool, ...]:
    """The tools that a forced call may be of: all for the choice ``required``, else the one that is
    named."""
    offered = read_tools(tools)
    if not offered:
        raise InvalidArgumentError("tool_choice: a call is forced, and no tool is offered")
    if choice == "required":
        return offered
    for tool in offered:
        if tool.name == choice:
            return (tool,)
    raise InvalidArgumentError(
        f"tool_choice: {told(choice)} is not offered; the tools are "
        f"{', '.join(tool.name for tool in offered)[:300]}"
    )
