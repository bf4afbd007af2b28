"""This runtime beside torch: two worker processes that take turns, so that neither's threads spin
while the other one is timed."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.ceilings import fma_rate

PAUSE = 0.03  # seconds between turns

# What a worker runs for a case, and the floating-point operations of a call.
Make = Callable[[str, str], tuple[Callable[[], Any], float]]


class Worker:
    """A process that times calls on demand."""

    def __init__(self, module: str, name: str, threads: int) -> None:
        count = str(threads)
        environment = {**os.environ, "CLIKA_RT_NUM_THREADS": count, "OMP_NUM_THREADS": count}
        for unset in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            environment.pop(unset, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, "--worker", name, str(threads)],
            env=environment,
            cwd=Path(__file__).resolve().parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, case: str) -> tuple[float, float]:
        """Seconds of a call, and its floating-point operations."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the worker failed on {case}")
        seconds, operations = json.loads(answer)
        return seconds, operations

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


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


def compare(
    module: str, cases: list[str], threads: int, rounds: int
) -> dict[str, Mapping[str, float]]:
    """By case: median seconds of both, the median of torch's seconds over ours by round, the rate
    of ours in operations per second, and its share of the peak of plain multiply-adds."""
    workers = [Worker(module, name, threads) for name in ("ours", "torch")]
    peak = fma_rate(threads)
    found: dict[str, Mapping[str, float]] = {}
    for case in cases:
        pairs = []
        operations = 0.0
        for _ in range(rounds + 1):
            ours, operations = workers[0].ask(case)
            theirs, _ = workers[1].ask(case)
            pairs.append((ours, theirs))
        del pairs[0]  # warm-up
        seconds = statistics.median(pair[0] for pair in pairs)
        found[case] = {
            "ours": seconds,
            "torch": statistics.median(pair[1] for pair in pairs),
            "speed": statistics.median(theirs / ours for ours, theirs in pairs),
            "rate": operations / seconds,
            "of_peak": operations / seconds / peak,
        }
    for worker in workers:
        worker.close()
    return found


def main(module: str, doc: str, cases: list[str], make: Make, least: float) -> None:
    """The command line of a benchmark: a table, and JSON with --json."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options.worker[0], int(options.worker[1]), make)
        return
    result: dict[str, Any] = {}
    for threads in options.threads:
        rows = result[str(threads)] = compare(module, cases, threads, options.rounds)
        for case, row in rows.items():
            told = f"{row['ours'] * 1e3:8.3f} ms  torch {row['torch'] * 1e3:8.3f} ms"
            rate = f"{row['rate'] / 1e9:6.1f} GFLOP/s, {row['of_peak']:4.0%} of peak"
            verdict = "" if row["speed"] >= least else f"  below {least}"
            print(f"{case:34} {threads} thr {told}  speed {row['speed']:.2f}  {rate}{verdict}")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
