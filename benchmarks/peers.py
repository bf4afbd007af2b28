"""This runtime beside torch: two worker processes that take turns, so that neither's threads spin
while the other one is timed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    PAUSE,
    Ceiling,
    Report,
    Row,
    environment,
    parser,
    rates,
    take_turns,
)

# What a worker runs for a case, and the floating-point operations of a call.
Make = Callable[[str, str], tuple[Callable[[], Any], float]]


class Worker:
    """A process that times calls on demand."""

    def __init__(self, module: str, name: str, threads: int) -> None:
        self.operations = 0.0  # of a call
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, "--worker", name, str(threads)],
            env=environment(threads),
            cwd=Path(__file__).resolve().parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, case: str) -> float:
        """Seconds of a call."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the worker failed on {case}")
        seconds, self.operations = json.loads(answer)
        return float(seconds)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def serve(name: str, threads: int, make: Make) -> None:
    """Answers each case on stdin with the seconds of a call: the mean over some 20 ms."""
    if name == "torch":
        import torch

        torch.set_num_threads(threads)
    made: dict[str, tuple[Callable[[], Any], float, int]] = {}
    for line in sys.stdin:
        case = line.strip()
        if case not in made:
            call, operations = make(name, case)
            call()
            started = time.perf_counter()
            call()
            once = time.perf_counter() - started
            made[case] = call, operations, max(1, int(0.02 / once))
        call, operations, count = made[case]
        # The other side's threads spin for some milliseconds after its turn; a call wakes ours.
        time.sleep(PAUSE)
        call()
        started = time.perf_counter()
        for _ in range(count):
            call()
        print(json.dumps([(time.perf_counter() - started) / count, operations]), flush=True)


def compare(report: Report, module: str, cases: list[str], threads: int, least: float) -> None:
    """A row for each case: operations a second, the ratio that is asked for, and the share of the
    peak of plain multiply-adds."""
    what, peak = report.ceilings.multiply(threads)
    workers = {name: Worker(module, name, threads) for name in ("ours", "torch")}
    for case in cases:
        calls = {
            name: lambda worker=worker, case=case: worker.ask(case)
            for name, worker in workers.items()
        }
        seconds = take_turns(calls, report.rounds)
        found = rates(seconds, workers["ours"].operations / 1e9)
        report.add(
            Row.of(
                case,
                "a call",
                threads,
                "GFLOP/s",
                found,
                beside="torch",
                target=least,
                ceiling=lambda rate: Ceiling(what, peak, 1e9 * rate),
            )
        )
    for worker in workers.values():
        worker.close()


def main(module: str, doc: str, cases: list[str], make: Make, least: float) -> int:
    """The command line of a benchmark beside torch."""
    made = parser(doc, rounds=9)
    made.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = made.parse_args()
    if options.worker:
        serve(options.worker[0], int(options.worker[1]), make)
        return 0
    report = Report(module.rpartition(".")[2], doc, options, peers=("torch",))
    for threads in options.threads:
        compare(report, module, cases, threads, least)
    return report.close()
