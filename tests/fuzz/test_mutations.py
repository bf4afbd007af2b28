"""Damaged files: every outcome is success or a typed error, never a crash, a hang or another
exception.

``CLIKA_FUZZ_COUNT=20`` runs twenty times as many mutations, ``CLIKA_FUZZ_FIRST=100000`` others. A
failure names the target and the number; ``python -m tests.fuzz.worker TARGET SEEDS NUMBER 1`` runs
it alone.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.seeds import write_all

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0  # seconds without a line before a worker counts as hung
COUNTS = {
    "gguf": 800,
    "safetensors": 600,
    "index": 200,
    "tokenizer_json": 500,
    "tokenizer_config": 200,
    "chat_template": 400,
    "model_gguf": 300,
    "model_config": 200,
    "sentencepiece": 300,
    "ranks": 200,
    "quantized": 500,
    "graph": 200,
}
TIMES = int(os.environ.get("CLIKA_FUZZ_COUNT", "1"))
FIRST = int(os.environ.get("CLIKA_FUZZ_FIRST", "0"))
# So many of each target must still be read, or the mutations test nothing but the first check.
LEAST_SUCCESSES = 0.02
MOST_SUCCESSES = 0.95


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    write_all(folder)
    return folder


def run(target: str, seeds: Path, first: int, count: int, log: Path) -> dict[int, str]:
    """The outcome of every mutation. A worker that dies or hangs is replaced behind the culprit."""
    outcomes: dict[int, str] = {}
    number = first
    while number < first + count:
        command = [sys.executable, "-m", "tests.fuzz.worker", target, str(seeds), str(number)]
        command.append(str(first + count - number))
        with log.open("ab") as errors:
            worker = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL
            )
        assert worker.stdout is not None
        lines: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=pump, args=(worker.stdout, lines))
        reader.start()
        hung = False
        while True:
            try:
                line = lines.get(timeout=PATIENCE)
            except queue.Empty:
                hung = True
                worker.kill()
                break
            if line is None:
                break
            word, _, outcome = line.strip().partition(" ")
            outcomes[int(word)] = outcome
            number = int(word) + 1
        status = worker.wait()
        reader.join()
        worker.stdout.close()
        if number < first + count:
            what = f"no answer for {PATIENCE:g} seconds" if hung else f"exit status {status}"
            tail = log.read_text(errors="replace")[-1500:]
            outcomes[number] = f"FAILED the process: {what}\n{tail}"
            number += 1
    return outcomes


def pump(stream: object, lines: queue.Queue[str | None]) -> None:
    for line in stream:  # type: ignore[attr-defined]
        lines.put(line.decode(errors="replace"))
    lines.put(None)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory by Linux's means")
@pytest.mark.parametrize("target", COUNTS)
def test_damaged_files_are_read_or_refused(target: str, seeds: Path, tmp_path: Path) -> None:
    count = COUNTS[target] * TIMES
    outcomes = run(target, seeds, FIRST, count, tmp_path / "stderr.txt")
    failures = {n: text for n, text in outcomes.items() if text.startswith("FAILED")}
    shown = "\n".join(f"{target} {n}: {text}" for n, text in sorted(failures.items())[:20])
    assert not failures, f"{len(failures)} of {count} mutations failed:\n{shown}"
    assert len(outcomes) == count
    kinds = Counter(text.split()[0] for text in outcomes.values())
    assert LEAST_SUCCESSES * count < kinds["ok"] < MOST_SUCCESSES * count, kinds


def test_a_crash_and_a_wrong_exception_would_be_found(seeds: Path, tmp_path: Path) -> None:
    # The harness itself: a worker that is told of a target that does not exist dies at once.
    outcomes = run("absent", seeds, 0, 2, tmp_path / "stderr.txt")
    assert len(outcomes) == 2
    assert all("FAILED" in text and "KeyError" in text for text in outcomes.values())
