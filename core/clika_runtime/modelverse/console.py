"""What the command line shows people: text that no word of a model, a file name or a hub can turn
into commands to the terminal, log lines, colour and their rules.

Standard output holds the payload alone; log lines and errors go to standard error. Nothing in this
module runs at import, and library code never calls it: a program that embeds the library keeps its
own logging.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from typing import Any, TextIO

__all__ = [
    "LogFormatter",
    "Terminal",
    "configure_logging",
    "harmless",
    "json_text",
    "print_error",
    "show",
    "wants_color",
    "without_secrets",
]

_LOGGER = "clika_runtime"
_COLORS = {"debug": "2", "info": "36", "warning": "33", "error": "31", "critical": "31"}
# Control characters but newline and tab, line separators, what overrides the direction of text,
# halves of surrogate pairs.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SECRET = re.compile(r"(?<=://)[^\s/?#]*@")
_LONGEST = 20_000  # characters of one message


def harmless(text: str, limit: int | None = None) -> str:
    """The text with everything escaped that drives a terminal, cut to ``limit`` characters; of a
    URL's user and password three dots are left.

    >>> print(harmless("name\\x1b[2J"))
    name\\x1b[2J
    """
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}... ({len(text) - limit} characters left out)"
    return _escaped(without_secrets(text))


def without_secrets(text: str) -> str:
    """The text without the users and passwords of its URLs.

    >>> without_secrets("https://me:secret@hub.example/org")
    'https://...@hub.example/org'
    """
    return _SECRET.sub("...@", text)


class Terminal:
    """A terminal as standard output: what is written to it is harmless."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_escaped(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _escaped(text: str) -> str:
    return _HARMFUL.sub(lambda found: ascii(found[0])[1:-1], text)


def json_text(document: Any) -> str:
    """A JSON document as it is printed: in Unicode, but for what drives a terminal."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def show(text: str) -> None:
    """Print text for people on standard output."""
    print(harmless(text))


def wants_color(stream: TextIO, *, no_color: bool = False) -> bool:
    """Whether ``stream`` is to be styled: a terminal, no ``--no-color``, ``NO_COLOR`` unset or
    empty, and a ``TERM`` other than ``dumb``."""
    if no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


class LogFormatter(logging.Formatter):
    """``[2026-01-31 12:34:56.789] [modelverse] [info] message``."""

    def __init__(self, color: bool = False) -> None:
        super().__init__()
        self.color = color

    def format(self, record: logging.LogRecord) -> str:
        stamp = self.formatTime(record, "%Y-%m-%d %H:%M:%S")
        level = record.levelname.lower()
        tag = f"[{level}]"
        if self.color:
            tag = f"\x1b[{_COLORS.get(level, '0')}m{tag}\x1b[0m"
        name = record.name.rpartition(".")[2]
        said = record.getMessage()
        if record.exc_info:
            said += "\n" + self.formatException(record.exc_info)
        said = harmless(said, _LONGEST)
        return f"[{stamp}.{int(record.msecs):03d}] [{name}] {tag} {said}"


class _StderrHandler(logging.Handler):
    """Writes to what ``sys.stderr`` is now; a reader that has gone away is no error of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            return


def configure_logging(
    *, verbose: bool = False, quiet: bool = False, no_color: bool = False
) -> None:
    """Send the runtime's log to standard error: from ``info`` up, with ``verbose`` from ``debug``,
    with ``quiet`` from ``warning``. Calling it again replaces the earlier choice."""
    logger = logging.getLogger(_LOGGER)
    for handler in list(logger.handlers):
        if isinstance(handler, _StderrHandler):
            logger.removeHandler(handler)
    handler = _StderrHandler()
    handler.setFormatter(LogFormatter(wants_color(sys.stderr, no_color=no_color)))
    logger.addHandler(handler)
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logger.setLevel(level)
    logger.propagate = False


def print_error(message: object, *, no_color: bool = False) -> None:
    """``error: message`` on standard error."""
    prefix = "error:"
    if wants_color(sys.stderr, no_color=no_color):
        prefix = "\x1b[31merror:\x1b[0m"
    try:
        sys.stderr.write(f"{prefix} {harmless(str(message), _LONGEST)}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return
