"""What is shown while files arrive, where standard error is no terminal."""

from __future__ import annotations

import itertools
import logging
import time

from clika_runtime.modelverse.hub import progress
from clika_runtime.modelverse.hub.progress import Progress


def test_a_line_now_and_then_with_rate_and_time_left(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "clika_runtime.modelverse")
    seconds = itertools.count(0, 4)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    with Progress() as shown:
        moved = shown.file("m.gguf", 100 << 20)
        for _ in range(9):
            moved(10 << 20)
        moved(-(30 << 20))  # the server started over
        moved(40 << 20)
        shown.done("m.gguf", 100 << 20)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "m.gguf: 30.0 MiB of 100 MiB (30%), 2.5 MiB/s, 0:28 left"
    assert len(lines) == 4
    assert lines[-1].startswith("m.gguf: 100 MiB in ")


def test_quiet_says_nothing(caplog):
    caplog.set_level(logging.DEBUG)
    with Progress(quiet=True) as shown:
        shown.file("a", 5)(5)
        shown.done("a", 5)
    assert caplog.records == []


def test_the_bars_stay_out_of_files(capsys):
    assert progress._is_terminal() is False
    with Progress() as shown:
        shown.file("a", 5)(5)
    assert capsys.readouterr() == ("", "")
