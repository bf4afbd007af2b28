"""``clikart-cli SOURCE ...``: resolve the source, find its family, run one of the family's
commands."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import NotFoundError, UnsupportedError
from .. import catalog
from ..sources import ResolvedSource, place
from ..sources.reference import Reference
from . import EXIT_OK, ROOT_VERBS, configure, resolve_source, usage_errors
from .arguments import PROGRAM, Parser, UsageError, add_common, meant, split

__all__ = ["run_source"]

#: Words that other programs have for talking with a model.
_CONVERSING = ("chat", "serve", "run")


def run_source(word: str, rest: list[str], options: Any) -> int:
    """Run ``rest`` (``[flags] VERB ...``) on the source ``word``; ``options`` holds the root
    flags."""
    if "template" in vars(options):
        raise UsageError(
            "--template holds options of the commands without a model; the options of a model's "
            "own commands are flags"
        )
    flags, verb, arguments = split(rest)
    wants_help = any(flag in ("-h", "--help") for flag in flags)
    flags = [flag for flag in flags if flag not in ("-h", "--help")]
    common = _common_parser(word)
    options = common.parse_args(flags, namespace=options)
    # A wrong flag is refused before anything is fetched; a verb that is not ours gets its say
    # later.
    command = parser = None
    if verb is not None and verb in catalog.VERBS and not wants_help:
        module, summary = catalog.VERBS[verb]
        command = importlib.import_module(module)
        parser = Parser(f"{PROGRAM} {word} {verb}", summary)
        command.add_arguments(parser)
        add_common(parser)
        options = parser.parse_args(arguments, namespace=options)
        command.check_arguments(options, parser)
    else:
        options, _ = common.parse_known_args(arguments, namespace=options)
    configure(options, parser or common)
    mistyped = verb is not None and not catalog.is_verb(verb)
    if (verb is None or mistyped) and not wants_help and _is_no_source(word):
        raise UsageError(_unknown_word(word))
    if verb is not None and mistyped and not wants_help:
        raise UsageError(
            f"'{verb}' is no command of a model; the commands: {', '.join(catalog.VERBS)}"
            f"{meant([verb], catalog.VERBS)} (see {PROGRAM} {word} --help)"
        )
    try:
        identity, bring = _identified(word, options)
    except NotFoundError as error:
        if _is_no_source(word):
            raise UsageError(_unknown_word(word)) from error
        raise
    family, verbs = identity.family, catalog.served_verbs(identity)
    if wants_help:
        print(_help(word, identity, verbs, common))
        return EXIT_OK
    if not verbs:
        raise UnsupportedError(
            f"family '{family}' ({identity.modalities}) is identity-only: it provides no commands"
        )
    if verb is None:
        raise UsageError(
            f"a command is missing; family '{family}' ({identity.modalities}) provides: "
            f"{', '.join(verbs)}",
            f"usage: {PROGRAM} {word} <command> [options]",
        )
    if verb not in verbs or command is None:
        raise UnsupportedError(
            f"family '{family}' ({identity.modalities}) provides no {verb} "
            f"(it provides: {', '.join(verbs)}){_conversation(verb, verbs)}"
        )
    status: int = command.run(bring(), identity, options)
    return status


def _identified(word: str, options: Any) -> tuple[catalog.Identity, Callable[[], ResolvedSource]]:
    """What the source is, and how its files come here: of a repository small files tell the
    former, so that a wrong command is refused before weights move."""
    given = vars(options)
    with usage_errors():
        where = place(word, weights=given.get("weights"))
    if not isinstance(where, Reference):
        source = resolve_source(word, options)
        return catalog.identify(source), lambda: source
    from ..description import hub_identity
    from ..hub.repository import open_repository

    repository = open_repository(
        where,
        offline=bool(given.get("offline")),
        cache_dir=given.get("cache_dir"),
        quiet=bool(given.get("quiet")),
    )

    def bring() -> ResolvedSource:
        with usage_errors():
            return repository.fetch()

    with usage_errors():
        return catalog.checked(hub_identity(repository)[0]), bring


def _common_parser(word: str) -> Parser:
    parser = Parser(f"{PROGRAM} {word}", "", help_flag=False)
    add_common(parser)
    return parser


def _is_no_source(word: str) -> bool:
    """True for a bare word such as ``lst``: more likely a mistyped command than a missing file."""
    return not any(mark in word for mark in "/\\:.") and not os.path.exists(word)


def _unknown_word(word: str) -> str:
    if word in catalog.VERBS:
        return (
            f"'{word}' is a command of a model, and the model comes first: "
            f"{PROGRAM} SOURCE {word} ..."
        )
    return (
        f"'{word}' is neither a command ({', '.join(ROOT_VERBS)}) nor a file or directory"
        f"{meant([word], ROOT_VERBS)}"
    )


def _conversation(verb: str, verbs: Iterable[str]) -> str:
    if verb in _CONVERSING and "prompt" in verbs:
        return f"; a conversation is {PROGRAM} SOURCE prompt MESSAGE --session FILE"
    return ""


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
            "  -h, --help       show this help and exit" + flags,
            "",
            "commands:",
            *(lines or ["  none (identity-only)"]),
            "",
            f"the options of a command: {PROGRAM} {word} <command> --help",
        ]
    )
