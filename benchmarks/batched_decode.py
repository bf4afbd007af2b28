"""Several sequences decoded at once, beside llama.cpp's batched decode.

    python -m benchmarks.batched_decode MODEL.gguf... [--sequences 4,8] [--rounds 5]

A step takes one token of each sequence; llama.cpp's batch has a sequence id for each, and the best
token of every row is found. The peer is the fastest of flash attention on and off, over one stretch
of cache for all sequences and over one for each.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.checkpoints import facts
from benchmarks.harness import Ceiling, Report, Row, numbers, parser
from benchmarks.steps import decode_rates
from benchmarks.workers import Worker, beside_llama

TARGET = 2


def main() -> int:
    made = parser(__doc__, rounds=5)
    made.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    made.add_argument("--sequences", type=numbers, default=[4, 8], metavar="LIST")
    options = made.parse_args()
    report = Report("batched_decode", __doc__, options)
    for model in options.models:
        for threads in options.threads:
            for sequences in options.sequences:
                measure(report, model, threads, sequences)
    return report.close()


def measure(report: Report, model: Path, threads: int, sequences: int) -> None:
    about = facts(model)
    what, peak = report.ceilings.read(about.decode_bytes, threads)
    with ExitStack() as stack:
        workers = stack.enter_context(
            beside_llama(model, threads, report.peer, sequences=sequences)
        )
        for flash in (True, False) if report.peer else ():
            name = f"llama.cpp, flash attention {'on' if flash else 'off'}, one cache"
            options = {"flash": flash, "sequences": sequences, "unified": True}
            worker = Worker(name, "llama.cpp", model, threads, **options)
            workers[name] = stack.enter_context(worker)
        found = decode_rates(workers, report.rounds, sequences)
    report.add(
        Row.of(
            about.subject,
            f"decode, {sequences} sequences",
            threads,
            "tokens/s",
            found,
            beside="llama.cpp",
            target=TARGET,
            # A step reads the weights once for all of its sequences.
            ceiling=lambda rate: Ceiling(what, peak, rate / sequences * about.decode_bytes),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
