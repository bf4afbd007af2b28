"""Parsers of the command line: the flags that every command has, and how a command line is split.

Flags that were not given are absent from the parsed namespace, so that the report of effective
options can say where each value came from.
"""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

__all__ = [
    "DEFAULT_WINDOW",
    "MAX_SEQ",
    "PROGRAM",
    "Parser",
    "UsageError",
    "add_common",
    "definitions",
    "meant",
    "split",
]

PROGRAM = "clikart-cli"
#: The context window of a command that is given none: the checkpoint's, at most this.
MAX_SEQ = 4096
DEFAULT_WINDOW = (
    f"the checkpoint's, at most {MAX_SEQ}; in Python, where max_seq is 0, the checkpoint's whole"
)
# The common flags that take a value; the splitter has to know them.
_VALUED = ("--cache-dir", "--weights", "--template")
_PLAIN = ("-v", "--verbose", "-q", "--quiet", "--no-color", "--offline")
_OWN = ("-h", "--help", "--version")


def meant(words: Iterable[str], known: Iterable[str]) -> str:
    """The end of a message about unknown words: the known ones that they are close to."""
    import difflib

    names = list(known)
    close = [match for word in words for match in difflib.get_close_matches(word, names, 1)]
    found = " and ".join(f"'{match}'" for match in dict.fromkeys(close))
    return f"; did you mean {found}?" if found else ""


class UsageError(Exception):
    """The invocation is wrong: exit status 2. ``usage`` is shown before the message."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)


class Parser(argparse.ArgumentParser):
    """argparse with our refusals: full flag names only, `UsageError` instead of an exit."""

    def __init__(
        self,
        prog: str,
        description: str,
        epilog: str | None = None,
        *,
        help_flag: bool = True,
    ) -> None:
        super().__init__(
            prog=prog,
            add_help=help_flag,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=_Help,
        )
        self.color = False  # newer versions of argparse style their texts

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._meant(rest)}")
        return found

    def _meant(self, words: Sequence[str]) -> str:
        """The flags that unknown ones are close to."""
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        return meant(flags, self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def definitions(title: str, rows: Mapping[str, str]) -> str:
    """A list of names and what they mean, for the end of a help text."""
    width = 2 + max(map(len, rows))
    lines = []
    for name, text in rows.items():
        first, *rest = textwrap.wrap(text, 76 - width)
        lines += [f"  {name:{width}s}{first}", *(" " * (2 + width) + line for line in rest)]
    return "\n".join([f"{title}:", *lines])


def add_common(parser: argparse.ArgumentParser, *, template: bool = False) -> None:
    """The flags of every command; ``template`` adds the one of commands without a model."""
    group = parser.add_argument_group("common options")
    group.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="debug diagnostics (the effective-options report)",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="warnings and errors only")
    group.add_argument(
        "--no-color",
        action="store_true",
        help="plain output (also honored: $NO_COLOR, TERM=dumb, non-tty)",
    )
    group.add_argument(
        "--offline",
        action="store_true",
        help="any network touch is an error; cached models still resolve "
        "(also: CLIKA_MODELVERSE_OFFLINE=1, HF_HUB_OFFLINE=1)",
    )
    group.add_argument(
        "--cache-dir",
        metavar="DIR",
        help="where fetched models are kept (default: the cache that Hugging Face tools share)",
    )
    if template:
        group.add_argument(
            "--template",
            metavar="FILE",
            help="read options from a JSON file (see generate-template); flags win over it",
        )
    else:
        group.add_argument(
            "--weights",
            metavar="SEL",
            help="the weight option of the source: a tag (Q6_K), a glob, a file name, latest",
        )


def split(argv: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """(root flags, first word, the rest). The first word is a root verb or a model source."""
    flags: list[str] = []
    position = 0
    while position < len(argv):
        token = argv[position]
        if token == "--":
            position += 1
            break
        if not token.startswith("-") or token == "-":
            break
        name, equals, _ = token.partition("=")
        if name in _VALUED:
            flags.append(token)
            if not equals:
                position += 1
                if position == len(argv):
                    raise UsageError(f"argument {name}: expected one argument")
                flags.append(argv[position])
        elif token in _PLAIN or token in _OWN:
            flags.append(token)
        else:
            raise UsageError(
                f"unknown flag {token} before the command; the flags of a command stand after it"
                f"{meant([name], (*_VALUED, *_PLAIN, *_OWN))}"
            )
        position += 1
    if position == len(argv):
        return flags, None, []
    return flags, argv[position], list(argv[position + 1 :])


# ---------------------------------------------------------------- types of values


def number(
    kind: type, low: float | None = None, high: float | None = None, open_low: bool = False
) -> Any:
    """A parser of an int or float flag within ``low .. high``; the message names both."""

    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
        below = low is not None and (value < low or (open_low and value == low))
        if below or (high is not None and value > high):
            sign = ">" if open_low else ">="
            bounds = [f"{sign} {low}"] if low is not None else []
            bounds += [f"<= {high}"] if high is not None else []
            raise argparse.ArgumentTypeError(
                f"{text} is out of range, it must be {' and '.join(bounds)}"
            )
        return value

    return parse
