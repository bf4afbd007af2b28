"""``clikart-cli SOURCE ...``: resolve the source, find its family, run one of the family's commands."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ...errors import NotFoundError, UnsupportedError
from .. import catalog
from . import EXIT_OK, ROOT_VERBS, configure, resolve_source
from .arguments import PROGRAM, Parser, UsageError, add_common, split

__all__ = ["run_source"]


def run_source(word: str, rest: list[str], options: Any) -> int:
    """Run ``rest`` (``[flags] VERB ...``) on the source ``word``; ``options`` holds the root flags."""
    flags, verb, arguments = split(rest)
    parser = _source_parser(word)
    wants_help = any(flag in ("-h", "--help") for flag in flags)
    flags = [flag for flag in flags if flag not in ("-h", "--help")]
    options = parser.parse_args(flags, namespace=options)
    configure(options, parser)
    if verb is None and not wants_help and _is_no_source(word):
        raise UsageError(_unknown_word(word))
    try:
        source = resolve_source(word, options)
    except NotFoundError as error:
        if _is_no_source(word):
            raise UsageError(_unknown_word(word)) from error
        raise
    identity = catalog.identify(source)
    assert identity.row is not None
    row = identity.row
    verbs = catalog.verbs(row)
    if wants_help:
        print(_help(word, identity, verbs, parser))
        return EXIT_OK
    if not verbs:
        raise UnsupportedError(
            f"family '{row.name}' ({identity.modalities}) is identity-only: it provides no commands"
        )
    if verb is None:
        raise UsageError(
            f"a command is missing; family '{row.name}' ({identity.modalities}) provides: "
            f"{', '.join(verbs)}",
            f"usage: {PROGRAM} {word} <command> [options]",
        )
    if verb not in verbs:
        raise UnsupportedError(
            f"family '{row.name}' ({identity.modalities}) provides no {verb} "
            f"(it provides: {', '.join(verbs)})"
        )
    module, summary = catalog.VERBS[verb]
    command = importlib.import_module(module)
    verb_parser = Parser(f"{PROGRAM} {word} {verb}", summary)
    command.add_arguments(verb_parser)
    add_common(verb_parser)
    parsed = verb_parser.parse_args(arguments, namespace=options)
    configure(parsed, verb_parser)
    status: int = command.run(source, identity, parsed)
    return status


def _source_parser(word: str) -> Parser:
    parser = Parser(f"{PROGRAM} {word}", "")
    add_common(parser)
    return parser


def _is_no_source(word: str) -> bool:
    """True for a bare word such as ``lst``: more likely a mistyped command than a missing file."""
    return not any(mark in word for mark in "/\\:.") and not os.path.exists(word)


def _unknown_word(word: str) -> str:
    import difflib

    close = difflib.get_close_matches(word, ROOT_VERBS, 1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return (
        f"'{word}' is neither a command ({', '.join(ROOT_VERBS)}) nor a file or directory{hint}"
    )


def _help(word: str, identity: catalog.Identity, verbs: tuple[str, ...], parser: Parser) -> str:
    flags = parser.format_help().split("common options:", 1)[-1].rstrip()
    width = max([12, *(len(verb) for verb in verbs)])
    lines = [f"  {verb:{width}s}  {catalog.VERBS[verb][1]}" for verb in verbs]
    return "\n".join(
        [
            word,
            f"family={identity.family} {identity.modalities}",
            f"usage: {PROGRAM} {word} <command> [options]",
            f"commands the '{identity.family}' family provides for this model",
            "",
            "options:",
            "  -h, --help            show this help and exit" + flags,
            "",
            "commands:",
            *(lines or ["  none (identity-only)"]),
            "",
            f"the options of a command: {PROGRAM} {word} <command> --help",
        ]
    )
