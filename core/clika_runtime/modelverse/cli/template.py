"""Options as a file: ``generate-template FILE`` writes one, ``--template FILE`` reads one.

The file is a flat JSON object: a key for every option of the commands without a model, null where
it has no built-in default. Flags that are given win over it, and it never holds a token."""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from ...errors import ClikaRTError
from . import EXIT_OK, ROOT_VERBS
from .arguments import Parser, UsageError, add_common
from .files import check_target, write_text

__all__ = ["FORM", "apply", "defaults", "read"]

#: The version of the file's form, under the key ``template``.
FORM = 1
LIMIT = 1 << 20
_LEFT_OUT = ("help", "version", "template")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file to write; '-' is standard output")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def run(arguments: Any) -> int:
    given = vars(arguments)
    text = json.dumps({"template": FORM, **defaults()}, indent=2) + "\n"
    if given["file"] == "-":
        sys.stdout.write(text)
        return EXIT_OK
    write_text(check_target(given["file"], force=bool(given.get("force"))), text)
    return EXIT_OK


def defaults() -> dict[str, Any]:
    """Every root option at its default: False for a switch, None where there is no default."""
    found: dict[str, Any] = {}
    for action, value in _options():
        if found.get(action.dest) is None:
            found[action.dest] = value
    return dict(sorted(found.items()))


def _options(verb: str | None = None) -> Iterator[tuple[argparse.Action, Any]]:
    """(option, its default) of one root verb, or of all."""
    for name in ROOT_VERBS if verb is None else (verb,):
        command = importlib.import_module(ROOT_VERBS[name][0], __package__)
        parser = Parser("", "")
        command.add_arguments(parser)
        add_common(parser, template=True)
        builtin = getattr(command, "DEFAULTS", {})
        for action in parser._actions:
            if action.option_strings and action.dest not in _LEFT_OUT:
                yield action, builtin.get(action.dest, False if action.nargs == 0 else None)


def read(path: str) -> dict[str, Any]:
    """The options of a template, checked; a bad one is a usage error that names file and key."""
    from ...io._files import read_json

    try:
        document = read_json(path, LIMIT, unique_keys=True)
    except ClikaRTError as error:
        raise UsageError(f"--template: {error}") from error
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise UsageError(f"--template: {path}: expected a JSON object of options, found {kind}")
    form = document.pop("template", FORM)
    if type(form) is not int or form != FORM:
        raise UsageError(
            f"--template: {path}: 'template' is {form!r:.40}; this release reads form {FORM}"
        )
    actions: dict[str, list[argparse.Action]] = {}
    for action, _ in _options():
        actions.setdefault(action.dest, []).append(action)
    values = {}
    for key, value in document.items():
        where = f"--template: {path}: {key[:60]!r}"
        if key not in actions:
            raise UsageError(_unknown(where, key, actions))
        if value is not None:
            # An option that several commands have reads alike in all of them.
            values[key] = _parsed(where, actions[key][0], value)
    return values


def _unknown(where: str, key: str, known: Any) -> str:
    if "token" in key.lower() or "api_key" in key.lower():
        return (
            f"{where}: a secret never stands in a template; the hub token comes from HF_TOKEN or a "
            "login"
        )
    close = difflib.get_close_matches(key, known, 1)
    hint = f"; did you mean '{close[0]}'?" if close else "; generate-template writes all keys"
    return f"{where} is no option{hint}"


def _parsed(where: str, action: argparse.Action, value: Any) -> Any:
    """A JSON value as the option's own parser reads it."""
    if action.nargs == 0:
        if isinstance(value, bool):
            return value
        raise UsageError(f"{where} must be true or false, found {value!r:.80}")
    if isinstance(action, argparse._AppendAction) or action.nargs in ("+", "*"):
        if not isinstance(value, list):
            raise UsageError(f"{where} must be a list, found {value!r:.80}")
        return [_scalar(where, action, item) for item in value]
    return _scalar(where, action, value)


def _scalar(where: str, action: argparse.Action, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UsageError(f"{where} must be a text or a number, found {value!r:.80}")
    text = value if isinstance(value, str) else repr(value)
    try:
        parsed = action.type(text) if callable(action.type) else text
    except (argparse.ArgumentTypeError, ValueError, TypeError) as error:
        raise UsageError(f"{where}: {error}") from error
    if action.choices is not None and parsed not in action.choices:
        raise UsageError(
            f"{where} is {parsed!r:.80}; it takes {', '.join(map(str, action.choices))}"
        )
    return parsed


def apply(path: str, parser: Parser, arguments: argparse.Namespace) -> frozenset[str]:
    """Sets what the template says and no flag does; returns the names that it set."""
    values = read(path)
    given = vars(arguments)
    excluded: set[str] = set()
    for group in parser._mutually_exclusive_groups:
        names = [action.dest for action in group._group_actions]
        chosen = [name for name in names if values.get(name)]
        if any(name in given for name in names):
            excluded.update(names)
        elif len(chosen) > 1:
            raise UsageError(f"--template: {path}: {' and '.join(chosen)} exclude each other")
    # The same for the one pair that every command has.
    if "verbose" in given or "quiet" in given:
        excluded.update(("verbose", "quiet"))
    taken = set()
    for action in parser._actions:
        name = action.dest
        wanted = values.get(name, False)  # False is what a switch is without a word
        if action.option_strings and wanted is not False and name not in {*given, *excluded}:
            setattr(arguments, name, wanted)
            taken.add(name)
    return frozenset(taken)
