"""The flags that say what a reply may be: constraints, and the tools that are offered."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InvalidArgumentError
from ..sources import human_size
from .arguments import Parser

if TYPE_CHECKING:
    from ..preview import Preview

__all__ = [
    "add_arguments",
    "call_line",
    "calls_of",
    "check_arguments",
    "check_preview",
    "options_of",
]

_MAX_FILE = 64 << 20
#: The flags that restrict a reply, and the kind of constraint that each makes.
_KINDS = {
    "json_schema": "json_schema",
    "json_object": "json_schema",
    "regex": "regex",
    "grammar": "lark",
    "choice": "choice",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("constraints and tools")
    group.add_argument(
        "--json-schema",
        metavar="FILE",
        help="the reply is a JSON document that the schema in FILE admits",
    )
    group.add_argument("--json-object", action="store_true", help="the reply is a JSON object")
    group.add_argument(
        "--regex", metavar="RE", help="the reply is a text that the regular expression matches"
    )
    group.add_argument(
        "--grammar", metavar="FILE", help="the reply is a text of the Lark grammar in FILE"
    )
    group.add_argument(
        "--choice",
        action="append",
        metavar="TEXT",
        help="the reply is this text; given several times, one of them",
    )
    group.add_argument(
        "--tools",
        metavar="FILE",
        help="offer the tools in FILE, a JSON list in OpenAI's form; calls are printed one a line, "
        "after the text",
    )
    group.add_argument(
        "--tool-choice",
        metavar="NAME",
        help="auto, none, required (a call of any tool), or the name of the tool to be called "
        "(default: auto)",
    )
    group.add_argument(
        "--parallel-tool-calls",
        action="store_true",
        help="a reply that has to be a call may be several",
    )


def check_arguments(given: dict[str, Any], parser: Parser, is_text: Any) -> None:
    """What argparse cannot say: refused before anything is fetched or loaded. The files are read,
    their contents take the place of their names."""
    flags = [name for name in _KINDS if given.get(name)]
    named = [f"--{name.replace('_', '-')}" for name in flags]
    if len(flags) > 1:
        parser.error(f"{' and '.join(named)} exclude each other")
    if flags and "tools" in given and given.get("tool_choice") != "none":
        parser.error(f"{named[0]} and --tools exclude each other")
    if "tool_choice" in given and "tools" not in given:
        parser.error("--tool-choice needs --tools")
    if "parallel_tool_calls" in given and given.get("tool_choice") in (None, "auto", "none"):
        parser.error("--parallel-tool-calls needs a --tool-choice that forces a call")
    for name, texts in (
        ("--regex", [given.get("regex", "x")]),
        ("--choice", given.get("choice", ())),
        ("--tool-choice", [given.get("tool_choice", "x")]),
    ):
        if not all(texts):
            parser.error(f"{name} needs a text, got an empty one")
        if not all(map(is_text, texts)):
            parser.error(f"{name} is no valid text (bytes that are no UTF-8); convert it first")
    for name in ("json_schema", "grammar", "tools"):
        if name in given:
            given[name] = _read(given[name], f"--{name.replace('_', '-')}", parser)
    if flags:
        try:
            given["constraint"] = _spec(flags[0], given[flags[0]])
        except InvalidArgumentError as error:
            parser.error(f"{named[0]}: {str(error).removeprefix('constraint: ')}")
    if "tools" in given:
        from ..tools import read_tools

        try:
            names = [tool.name for tool in read_tools(given["tools"])]
        except InvalidArgumentError as error:
            parser.error(str(error))
        _check_choice(given.get("tool_choice", "auto"), names, parser)


def _check_choice(choice: str, names: list[str], parser: Parser) -> None:
    if not names:
        parser.error("--tools: the list is empty")
    if choice not in ("auto", "none", "required", *names):
        parser.error(
            f"--tool-choice: {choice!r:.80} is not auto, none, required or one of the tools: "
            f"{', '.join(names)[:300]}"
        )


def _spec(name: str, value: Any) -> Any:
    """The constraint that a flag says, checked as far as that needs no tokenizer."""
    from ..constraints import ConstraintSpec, check_constraint

    if name == "json_object":
        return ConstraintSpec.json_object()
    spec = ConstraintSpec.read({_KINDS[name]: value})
    if spec is not None:
        check_constraint(spec)
    return spec


def _read(path: str, flag: str, parser: Parser) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_FILE + 1)
        if len(data) > _MAX_FILE:
            parser.error(f"{flag}: {path} is larger than {human_size(_MAX_FILE)}")
        return data.decode("utf-8-sig")
    except OSError as error:
        parser.error(f"{flag}: {path}: {error.strerror or error}")
    except (UnicodeDecodeError, ValueError) as error:
        parser.error(f"{flag}: {path} is no UTF-8 text: {error}")


def check_preview(given: dict[str, Any], seen: Preview) -> None:
    """Compiles the constraint for the model's tokens, before its weights are read."""
    if "constraint" in given:
        seen.constraint(given["constraint"])


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options of `GenerativeModel.stream_chat` that the flags say."""
    options: dict[str, Any] = {}
    if "constraint" in given:
        options["constraint"] = given["constraint"]
    if "tools" in given:
        options["tools"] = given["tools"]
        choice = given.get("tool_choice", "auto")
        free = choice in ("auto", "none", "required")
        options["tool_choice"] = choice if free else {"name": choice}
        options["parallel_tool_calls"] = given.get("parallel_tool_calls", False)
    return options


def calls_of(report: Any) -> list[dict[str, Any]]:
    """The calls of a reply as the document has them."""
    return [
        {"name": call.name, "arguments": call.arguments, "parsed": call.parsed, "id": call.id}
        for call in report.tool_calls
    ]


def call_line(call: dict[str, Any]) -> str:
    """A call as a line of standard output."""
    arguments = call["parsed"] if call["parsed"] is not None else call["arguments"]
    return json.dumps({"name": call["name"], "arguments": arguments}, ensure_ascii=False) + "\n"
