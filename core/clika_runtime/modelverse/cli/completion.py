"""``completion SHELL``: a completion script for the root verbs and flags.

The commands of a model are known once its source is resolved, which a completion script cannot do.
"""

from __future__ import annotations

import argparse
from typing import Any

from . import ROOT_VERBS
from .arguments import PROGRAM, Parser, add_common

_BASH = """_clikart_cli() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" verb="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in -*) ;; *) verb="$word"; break ;; esac
  done
  case "$verb" in
{cases}
    "") COMPREPLY=($(compgen -W "{verbs} {flags}" -- "$current")) ;;
  esac
  if [[ "$current" != -* ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _clikart_cli {program}
"""
_ZSH = """#compdef {program}
_clikart_cli() {{
  local verb="" word
  for word in "${{words[@]:1:CURRENT-2}}"; do
    case "$word" in -*) ;; *) verb="$word"; break ;; esac
  done
  case "$verb" in
{cases}
    "") compadd -- {verbs} {flags}; _files ;;
    *) _files ;;
  esac
}}
compdef _clikart_cli {program}
"""
_FISH = "complete -c {program} -n __fish_use_subcommand -a '{verbs}'\n{lines}\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to write for")


def run(arguments: Any) -> int:
    print(script(arguments.shell), end="")
    return 0


def script(shell: str) -> str:
    """The script for ``bash``, ``zsh`` or ``fish``, made from the parsers themselves."""
    flags = {verb: _flags(verb) for verb in ROOT_VERBS}
    common = " ".join(_flags(None))
    verbs = " ".join(ROOT_VERBS)
    if shell == "fish":
        lines = []
        for verb, words in flags.items():
            for flag in words:
                kind = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                lines.append(
                    f"complete -c {PROGRAM} -n '__fish_seen_subcommand_from {verb}' {kind}"
                )
        return _FISH.format(program=PROGRAM, verbs=verbs, lines="\n".join(lines))
    if shell == "bash":
        form = '    {verb}) COMPREPLY=($(compgen -W "{words}" -- "$current")) ;;'
    else:
        form = "    {verb}) compadd -- {words}; _files ;;"
    cases = "\n".join(form.format(verb=v, words=" ".join(w)) for v, w in flags.items())
    template = _BASH if shell == "bash" else _ZSH
    return template.format(program=PROGRAM, cases=cases, verbs=verbs, flags=common)


def _flags(verb: str | None) -> list[str]:
    import importlib

    parser = Parser(PROGRAM, "")
    if verb is not None:
        importlib.import_module(ROOT_VERBS[verb][0], __package__).add_arguments(parser)
    add_common(parser, template=True)
    words = [word for action in parser._actions for word in action.option_strings]
    if verb == "completion":
        words += ["bash", "zsh", "fish"]
    return words
