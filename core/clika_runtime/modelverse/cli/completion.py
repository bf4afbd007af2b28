"""``completion SHELL``: a completion script for the commands and their flags.

What a source is cannot be known while a word is typed, so behind one stand the commands of every
model; its own are what ``SOURCE --help`` lists.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from typing import Any

from .. import catalog
from . import EXIT_OK, ROOT_VERBS
from .arguments import PROGRAM, Parser, add_common

SHELLS = ("bash", "zsh", "fish")
# The first word that is neither a flag nor the value of one is a root verb or a source, the second
# one behind a source its command. Bash has cut words at ':' and '='; they are joined first.
_BASH = """_clikart_cli() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" first="" verb="" word last="" skip="" words=""
  local files=1 count=0
  local -a given=()
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD}}"; do
    if ((count)) && [[ "$word" == [:=]* || "$last" == *[:=] ]]; then
      last="$last$word"
    else
      last="$word"
      count=$((count + 1))
    fi
    given[count - 1]="$last"
  done
  for word in "${{given[@]:0:count-1}}"; do
    if [[ -n "$skip" ]]; then skip=""; continue; fi
    case "$word" in
      {valued}) skip=1 ;;
      -*) ;;
      *) if [[ -z "$first" ]]; then first="$word"; elif [[ -z "$verb" ]]; then verb="$word"; fi ;;
    esac
  done
  if [[ -z "$skip" && "$last" == "$current" ]]; then
    case "$first" in
      "") words="{roots}" ;;
{root_cases}
      *)
        case "$verb" in
          "") words="{verbs}"; files="" ;;
{verb_cases}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
  if [[ -n "$files" && "$current" != -* ]]; then
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
  fi
}}
complete -o filenames -F _clikart_cli {program}
"""
_ZSH = """#compdef {program}
_clikart_cli() {{
  local first="" verb="" word skip=""
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    if [[ -n "$skip" ]]; then skip=""; continue; fi
    case "$word" in
      {valued}) skip=1 ;;
      -*) ;;
      *) if [[ -z "$first" ]]; then first="$word"; elif [[ -z "$verb" ]]; then verb="$word"; fi ;;
    esac
  done
  if [[ -n "$skip" ]]; then _files; return; fi
  case "$first" in
    "") compadd -- {roots}; _files ;;
{root_cases}
    *)
      case "$verb" in
        "") compadd -- {verbs} ;;
{verb_cases}
        *) _files ;;
      esac ;;
  esac
}}
compdef _clikart_cli {program}
"""
# What stands before the cursor: nothing yet, a root verb, SOURCE, or SOURCE and its command.
_FISH = """function __clikart_cli_place
  set -l first
  set -l verb
  set -l skip
  set -l words (commandline -opc)
  set -e words[1]
  for word in $words
    if test -n "$skip"
      set skip
      continue
    end
    switch $word
      case {valued}
        set skip 1
      case '-*'
      case '*'
        if test -z "$first"
          set first $word
        else if test -z "$verb"
          set verb $word
        end
    end
  end
  if test -n "$first"; and not contains -- $first {roots}
    set first SOURCE $verb
  end
  echo "$first"
end
"""
_START = ""
_SOURCE = "SOURCE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to write for")


def run(arguments: Any) -> int:
    print(script(arguments.shell), end="")
    return EXIT_OK


def script(shell: str) -> str:
    """The script for ``bash``, ``zsh`` or ``fish``, made from the parsers themselves."""
    root = {verb: _options(module) for verb, (module, _) in ROOT_VERBS.items()}
    model = {verb: _options(module, model=True) for verb, (module, _) in catalog.VERBS.items()}
    rows = [action for actions in (*root.values(), *model.values()) for action in actions]
    valued = sorted(
        {word for action in rows if action.nargs != 0 for word in action.option_strings}
    )
    if shell == "fish":
        return _fish(root, model, valued)
    form = (
        '{verb}) words="{words}" ;;' if shell == "bash" else "{verb}) compadd -- {words}; _files ;;"
    )

    def cases(options: dict[str, list[argparse.Action]], indent: int) -> str:
        return "\n".join(
            " " * indent + form.format(verb=verb, words=" ".join([*_values(verb), *_words(rows)]))
            for verb, rows in options.items()
        )

    template, indent = (_BASH, 6) if shell == "bash" else (_ZSH, 4)
    return template.format(
        program=PROGRAM,
        roots=" ".join([*ROOT_VERBS, *_words(_options(None))]),
        root_cases=cases(root, indent),
        verbs=" ".join([*catalog.VERBS, *_words(_options(None, model=True))]),
        verb_cases=cases(model, indent + 4),
        valued="|".join(valued),
    )


def _options(module: str | None, *, model: bool = False) -> list[argparse.Action]:
    """The flags of a command, or those before it."""
    parser = Parser(PROGRAM, "")
    if module is not None:
        importlib.import_module(module, __package__).add_arguments(parser)
    add_common(parser, template=not model)
    return [action for action in parser._actions if action.option_strings]


def _words(options: Iterable[argparse.Action]) -> list[str]:
    return [word for action in options for word in action.option_strings]


def _values(verb: str) -> tuple[str, ...]:
    return SHELLS if verb == "completion" else ()


def _fish(
    root: dict[str, list[argparse.Action]],
    model: dict[str, list[argparse.Action]],
    valued: Iterable[str],
) -> str:
    lines = [_FISH.format(valued=" ".join(valued), roots=" ".join(ROOT_VERBS)).rstrip()]

    def at(place: str, text: str) -> None:
        lines.append(f"complete -c {PROGRAM} -n 'test (__clikart_cli_place) = \"{place}\"' {text}")

    for place, verbs in ((_START, ROOT_VERBS), (_SOURCE, catalog.VERBS)):
        for verb, (_, help_) in verbs.items():
            at(place, f"{'-f ' if place else ''}-a {verb} -d '{_quoted(help_)}'")
        for action in _options(None, model=bool(place)):
            at(place, _fish_flag(action))
    for before, options in (("", root), (f"{_SOURCE} ", model)):
        for verb, actions in options.items():
            for value in _values(verb):
                at(before + verb, f"-a {value}")
            for action in actions:
                at(before + verb, _fish_flag(action))
    return "\n".join(lines) + "\n"


def _fish_flag(action: argparse.Action) -> str:
    names = [f"-l {w[2:]}" if w.startswith("--") else f"-s {w[1:]}" for w in action.option_strings]
    value = ["-r"] if action.nargs != 0 else []
    return " ".join([*names, *value, f"-d '{_quoted(action.help or '')}'"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
