"""One progress bar a file on standard error; plain log lines where that is no terminal."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..console import wants_color
from ..sources.options import human_size

__all__ = ["Progress"]

_log = logging.getLogger("clika_runtime.modelverse")
_EVERY_S = 10.0  # between two lines about one file
_BARS = 16


class Progress:
    """Shows how files arrive. A context manager; ``quiet`` shows nothing.

    ``file(name, size)`` gives the function that is told of arriving bytes; ``done(name, size)``
    says that the file is whole.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._begun: dict[str, float] = {}

    def __enter__(self) -> Progress:
        if not self._quiet and _is_terminal():
            self._bars = _bars()
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def file(self, name: str, size: int) -> Callable[[int], None]:
        self._begun[name] = time.monotonic()
        if self._bars is not None:
            task = self._tasks[name] = self._bars.add_task(name, total=size)
            return lambda count: self._bars.advance(task, count)
        if self._quiet:
            return lambda count: None
        return _Lines(name, size).moved

    def done(self, name: str, size: int) -> None:
        if self._bars is not None:
            # Of many files the finished ones make room: a terminal shows the last lines alone.
            crowded = len(self._tasks) > _BARS
            self._bars.update(self._tasks[name], completed=size, visible=not crowded)
        elif not self._quiet:
            seconds = max(time.monotonic() - self._begun[name], 1e-6)
            rate = human_size(int(size / seconds))
            _log.info("%s: %s in %.1f s (%s/s)", name, human_size(size), seconds, rate)


class _Lines:
    """A line every ten seconds: how much of how much, the rate and the time left."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.held = 0
        self.said = self.begun = time.monotonic()

    def moved(self, count: int) -> None:
        self.held += count
        now = time.monotonic()
        if now - self.said < _EVERY_S or self.held >= self.size:
            return
        self.said = now
        rate = self.held / (now - self.begun)
        left = int((self.size - self.held) / rate) if rate > 0 else 0
        _log.info(
            "%s: %s of %s (%d%%), %s/s, %d:%02d left",
            self.name,
            human_size(self.held),
            human_size(self.size),
            100 * self.held // self.size,
            human_size(int(rate)),
            left // 60,
            left % 60,
        )


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):
        return False


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    console = Console(stderr=True, no_color=not wants_color(sys.stderr), highlight=False)
    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
