"""Random arguments at every operator and function: a result or a typed error that names it, never
a crash, a hang, another exception or an absurd allocation.

``CLIKA_FUZZ_COUNT=20`` makes twenty times as many calls, and others in every run. Calls are made in
another process, so that a crash is one more outcome.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from clika_runtime import ops
from tests.fuzz.calls import calls, function_calls, functions, names

ROOT = Path(__file__).resolve().parents[2]
TIMES = int(os.environ.get("CLIKA_FUZZ_COUNT", "1"))
CALLS = 12 * TIMES  # of each operator
PATIENCE = 20.0  # seconds without an answer; the worker itself counts 5 seconds of CPU as too many

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="limits memory by Linux's means"
)


class Worker:
    """The process that makes the calls; replaced when it dies or hangs."""

    def __init__(self) -> None:
        self.process: Any = None
        self.told: Counter[str] = Counter()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.call_worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.errors: list[str] = []
        for stream, put in (
            (self.process.stdout, self.lines.put),
            (self.process.stderr, self.errors.append),
        ):
            threading.Thread(target=pump, args=(stream, put), daemon=True).start()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process = None

    def run(self, name: str, call: Any) -> str:
        if self.process is None:
            self.start()
        data = pickle.dumps((name, *call))
        try:
            self.process.stdin.write(struct.pack("<I", len(data)) + data)
            self.process.stdin.flush()
            line = self.lines.get(timeout=PATIENCE)
        except (queue.Empty, BrokenPipeError):
            line = ""
        if not line:
            status = self.process.poll()
            self.stop()
            what = "no answer" if status is None else f"exit status {status}"
            line = f"FAILED the process: {what}\n{''.join(self.errors[-30:])}"
        self.told[line.split()[0]] += 1
        return line.strip().replace("\\n", "\n")


def pump(stream: Any, put: Any) -> None:
    with stream:
        for line in stream:
            put(line.decode(errors="replace"))
    put("")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.stop()


@pytest.mark.parametrize("name", names())
def test_arguments(name: str, worker: Worker) -> None:
    search(name, calls(ops.record(name)), CALLS, worker)


@pytest.mark.parametrize("name", functions())
def test_arguments_of_functions(name: str, worker: Worker) -> None:
    search(name, function_calls(name), max(CALLS // 2, 1), worker)


def search(name: str, described: SearchStrategy[Any], count: int, worker: Worker) -> None:
    @settings(
        max_examples=count,
        derandomize=TIMES == 1,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(described)
    def check(call: Any) -> None:
        outcome = worker.run(name, call)
        if outcome.startswith("FAILED"):
            raise AssertionError(f"{name}{call}: {outcome}")

    check()


def test_enough_calls_pass(worker: Worker) -> None:
    """Where every call is refused, nothing but the first check is tested."""
    if worker.told.total() < 1000:
        pytest.skip("a selection")
    share = worker.told["ok"] / worker.told.total()
    assert 0.1 < share < 0.95, worker.told
