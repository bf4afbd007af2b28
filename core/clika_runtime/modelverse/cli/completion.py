"""``completion SHELL``: a completion script for the root verbs and flags.

The commands of a model are known once its source is resolved, which a completion script cannot do.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from typing import Any

from . import EXIT_OK, ROOT_VERBS
from .arguments import PROGRAM, Parser, add_common

SHELLS = ("bash", "zsh", "fish")
# The first word that is neither a flag nor the value of one is the verb.
_BASH = """_clikart_cli() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" verb="" word skip="" words=""
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    if [[ -n "$skip" ]]; then skip=""; continue; fi
    case "$word" in
      {valued}) skip=1 ;;
      -*) ;;
      *) if [[ -z "$verb" ]]; then verb="$word"; fi ;;
    esac
  done
  if [[ -z "$skip" ]]; then
    case "$verb" in
{cases}
      "") words="{verbs} {flags}" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
  if [[ "$current" != -* ]]; then
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
  fi
}}
complete -o filenames -F _clikart_cli {program}
"""
_ZSH = """#compdef {program}
_clikart_cli() {{
  local verb="" word skip=""
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    if [[ -n "$skip" ]]; then skip=""; continue; fi
    case "$word" in
      {valued}) skip=1 ;;
      -*) ;;
      *) if [[ -z "$verb" ]]; then verb="$word"; fi ;;
    esac
  done
  if [[ -n "$skip" ]]; then _files; return; fi
  case "$verb" in
{cases}
    "") compadd -- {verbs} {flags}; _files ;;
    *) _files ;;
  esac
}}
compdef _clikart_cli {program}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to write for")


def run(arguments: Any) -> int:
    print(script(arguments.shell), end="")
    return EXIT_OK


def script(shell: str) -> str:
    """The script for ``bash``, ``zsh`` or ``fish``, made from the parsers themselves."""
    options = {verb: _options(verb) for verb in ROOT_VERBS}
    if shell == "fish":
        return _fish(options)
    common = " ".join(_words(_options(None)))
    valued = {
        w for rows in options.values() for a in rows if a.nargs != 0 for w in a.option_strings
    }
    if shell == "bash":
        form = '      {verb}) words="{words}" ;;'
    else:
        form = "    {verb}) compadd -- {words}; _files ;;"
    cases = "\n".join(
        form.format(verb=verb, words=" ".join([*_values(verb), *_words(rows)]))
        for verb, rows in options.items()
    )
    template = _BASH if shell == "bash" else _ZSH
    return template.format(
        program=PROGRAM,
        cases=cases,
        verbs=" ".join(ROOT_VERBS),
        flags=common,
        valued="|".join(sorted(valued)),
    )


def _options(verb: str | None) -> list[argparse.Action]:
    """The flags of a root verb, or those before it."""
    parser = Parser(PROGRAM, "")
    if verb is not None:
        importlib.import_module(ROOT_VERBS[verb][0], __package__).add_arguments(parser)
    add_common(parser, template=True)
    return [action for action in parser._actions if action.option_strings]


def _words(options: Iterable[argparse.Action]) -> list[str]:
    return [word for action in options for word in action.option_strings]


def _values(verb: str) -> tuple[str, ...]:
    return SHELLS if verb == "completion" else ()


def _fish(options: dict[str, list[argparse.Action]]) -> str:
    start = f"complete -c {PROGRAM}"
    first = "-n __fish_use_subcommand"
    lines = [
        f"{start} {first} -a {verb} -d '{_quoted(help_)}'"
        for verb, (_, help_) in ROOT_VERBS.items()
    ]
    lines += [f"{start} {first} {_fish_flag(action)}" for action in _options(None)]
    for verb, rows in options.items():
        seen = f"-n '__fish_seen_subcommand_from {verb}'"
        lines += [f"{start} {seen} -a {value}" for value in _values(verb)]
        lines += [f"{start} {seen} {_fish_flag(action)}" for action in rows]
    return "\n".join(lines) + "\n"


def _fish_flag(action: argparse.Action) -> str:
    names = [f"-l {w[2:]}" if w.startswith("--") else f"-s {w[1:]}" for w in action.option_strings]
    value = ["-r"] if action.nargs != 0 else []
    return " ".join([*names, *value, f"-d '{_quoted(action.help or '')}'"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
