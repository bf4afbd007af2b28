"""Two processes that decode at the same time beside one alone, and what an idle process costs.

    python -m benchmarks.two_processes MODEL.gguf... [--rounds 5] [--idle 10]

Each process has 2 threads. The rates of both, added, stand beside the rate of one that has the
machine to itself. Idle: the processor time of a process that holds a loaded model, has decoded and
waits, as a part of the time that passed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.checkpoints import facts
from benchmarks.harness import PAUSE, Report, Row, Spread, number, parser, prompt, take_turns
from benchmarks.steps import DECODE, PROMPT
from benchmarks.workers import Worker

TOGETHER = 0.8  # times one alone
IDLE = 0.1  # percent of a processor


def main() -> int:
    made = parser(__doc__, rounds=5, threads="2")
    made.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    made.add_argument("--idle", type=float, default=10, metavar="S", help="seconds of waiting")
    # Long enough that the two overlap but for their ends.
    made.add_argument("--tokens", type=number, default=4 * DECODE, metavar="N", help="of a reply")
    options = made.parse_args()
    report = Report("two_processes", __doc__, options, peers=())
    for model in options.models:
        subject = facts(model).subject
        for threads in options.threads:
            with (
                Worker("first", "ours", model, threads) as first,
                Worker("second", "ours", model, threads) as second,
            ):
                decode(report, subject, threads, (first, second), options.tokens)
                idle(report, subject, threads, first, options.idle)
    return report.close()


def decode(
    report: Report, subject: str, threads: int, pair: tuple[Worker, Worker], tokens: int
) -> None:
    asked = {"prompts": [prompt(PROMPT, pair[0].vocabulary)], "count": tokens}

    def together() -> float:
        for worker in pair:
            worker.start("decode", **asked)
        return sum(tokens / worker.wait() for worker in pair)

    calls = {"ours": together, "one process alone": lambda: tokens / pair[0].ask("decode", **asked)}
    found = {name: Spread.of(rates) for name, rates in take_turns(calls, report.rounds).items()}
    named = (subject, "decode, two processes", threads, "tokens/s")
    report.add(Row.of(*named, found, beside="one process alone", target=TOGETHER))


def idle(report: Report, subject: str, threads: int, worker: Worker, seconds: float) -> None:
    time.sleep(PAUSE)  # what spins after a step has come to rest
    used, begun = worker.cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    percent = 100 * (worker.cpu_seconds() - used) / (time.perf_counter() - begun)
    named = (subject, f"idle for {seconds:g} s", threads, "% of a processor")
    found = {"ours": Spread.of([percent])}
    report.add(Row.of(*named, found, lower=True, target=IDLE, absolute=True))


if __name__ == "__main__":
    sys.exit(main())
