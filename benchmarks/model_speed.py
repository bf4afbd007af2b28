"""Models as they are published, beside llama.cpp: decode, prefill, load to first token, memory.

    python -m benchmarks.model_speed MODEL.gguf... [--threads 1,2] [--rounds 7] [--torch]

The peer is the faster of llama.cpp with flash attention on and off. ``--torch`` adds transformers
in float32 over the dequantized weights for prefill. Load to first token begins with the call that
loads the file, in a fresh process whose libraries are imported, with the file in the page cache,
and ends with the first token after a prompt of 32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.checkpoints import facts
from benchmarks.harness import (
    Report,
    Row,
    Spread,
    choice,
    parser,
    prompt,
    require,
    take_turns,
)
from benchmarks.steps import PREFILL, PROMPT, Targets, measure_steps, prefill_rates
from benchmarks.workers import Worker, beside_llama, sides

TARGETS = {
    "SmolLM2-135M": Targets(decode=2.5, prefill=6, read=45, dot=25),
    "Gemma-3-270M": Targets(decode=1.5, prefill=3, read=70, dot=25),
    "Qwen2.5-Coder-0.5B": Targets(decode=1.6, prefill=3, read=70, dot=25),
}
TORCH = 1.5  # times transformers' rate of prefill
FIRST_TOKEN = 1.2  # times llama.cpp's time at most
WORKS = ("steps", "first-token", "memory", "torch")


def first_token(report: Report, model: Path, subject: str, threads: int) -> None:
    """From the call that loads the file to the token after a prompt, each time in a fresh
    process."""

    def fresh(start: Callable[[Path, int], Worker]) -> float:
        with start(model, threads) as worker:
            ids = prompt(PROMPT, worker.vocabulary)
            return worker.load_seconds + worker.ask("prefill", ids=ids)

    calls = {name: lambda start=start: fresh(start) for name, start in sides(report.peer).items()}
    found = {name: Spread.of(taken) for name, taken in take_turns(calls, report.rounds).items()}
    named = (subject, "load to first token", threads, "s")
    report.add(Row.of(*named, found, beside="llama.cpp", lower=True, target=FIRST_TOKEN))


def memory(report: Report, model: Path, subject: str, threads: int) -> None:
    """The largest resident size of a process that has loaded the file and read a prompt; the bar is
    for ours alone."""
    with beside_llama(model, threads, report.peer) as workers:
        prefill_rates(workers, 1)
        found = {name: Spread.of([w.peak_bytes() / 1e6]) for name, w in workers.items()}
    limit = 1.3 * model.stat().st_size / 1e6 + 150
    report.add(
        Row.of(
            subject,
            f"peak memory, prefill {PREFILL}",
            threads,
            "MB",
            found,
            beside="llama.cpp",
            lower=True,
            target=limit,
            absolute=True,
        )
    )


def beside_torch(report: Report, model: Path, subject: str, threads: int) -> None:
    """Prefill beside transformers, which multiplies the dequantized weights."""
    if not report.peer:
        return
    require("transformers")
    with (
        Worker("ours", "ours", model, threads) as ours,
        Worker("transformers float32", "transformers", model, threads) as theirs,
    ):
        found = prefill_rates({worker.name: worker for worker in (ours, theirs)}, report.rounds)
    named = (subject, f"prefill {PREFILL}", threads, "tokens/s")
    report.add(Row.of(*named, found, beside="transformers", target=TORCH))


def main() -> int:
    made = parser(__doc__, rounds=7)
    made.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    made.add_argument("--torch", action="store_true", help="transformers beside prefill too")
    made.add_argument(
        "--works",
        type=choice(WORKS),
        default=["steps", "first-token", "memory"],
        metavar="LIST",
        help=f"some of {', '.join(WORKS)}",
    )
    options = made.parse_args()
    report = Report("model_speed", __doc__, options)
    works = [*options.works, *(["torch"] if options.torch else [])]
    parts = {"first-token": first_token, "memory": memory, "torch": beside_torch}
    for model in options.models:
        about = facts(model)
        print(f"{about.subject} ({model.name})", flush=True)
        for threads in options.threads:
            if "steps" in works:
                targets = TARGETS.get(about.name, Targets())
                measure_steps(report, model, threads, targets)
            for name in (name for name in parts if name in works):
                parts[name](report, model, about.subject, threads)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
