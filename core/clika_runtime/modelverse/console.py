"""What the command line writes beside its payload: log lines, colour and their rules.

Standard output holds the payload alone; everything here goes to standard error. Nothing in this
module runs at import, and library code never calls it: a program that embeds the library keeps its
own logging.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

__all__ = ["LogFormatter", "configure_logging", "print_error", "wants_color"]

_LOGGER = "clika_runtime"
_COLORS = {"debug": "2", "info": "36", "warning": "33", "error": "31", "critical": "31"}


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
        text = f"[{stamp}.{int(record.msecs):03d}] [{name}] {tag} {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


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
        sys.stderr.write(f"{prefix} {message}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return
