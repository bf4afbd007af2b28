"""Drafts and kept prefixes beside the same replies without them.

    python -m benchmarks.speculation SMOLLM2.gguf [--threads 1] [--rounds 5]

Prompt lookup: tokens a second of a greedy reply that copies its prompt, and of one that does not.
An assistant: the model drafts for a wider llama with random weights and the model's tokenizer,
whose tokens it cannot know: what drafts cost that are never right; and for itself, where all are
right. Prefixes: the time to the first token of a conversation's second turn. Every reply has to be
the same with and without, else the run ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.checkpoints import facts, random_model
from benchmarks.harness import (
    Ceiling,
    Report,
    Row,
    Spread,
    add_work,
    number,
    parser,
    rates,
    take_turns,
    work_folder,
)
from benchmarks.workers import Worker

LIST = "".join(
    f"{place}. The {kind} is in harbour {place % 7}, and its master is {name}.\n"
    for place, (kind, name) in enumerate(
        (kind, name)
        for kind in ("schooner", "brig", "trawler", "tug")
        for name in ("Anna", "Bert", "Clara", "David", "Emma")
    )
)
COPY = f"{LIST}\nThe same list once more:\n{LIST[:120]}"
FREE = "Once upon a time, in a small town by the sea, there lived"
LOOKUP = 7
COPIED = 1.5  # times plain, where a reply copies
KEPT = 0.95  # times plain, where it does not: looking costs next to nothing
WIDE = (1536, 4096)


def main() -> int:
    made = parser(__doc__, rounds=5, threads="1")
    made.add_argument("model", type=Path, metavar="SMOLLM2")
    made.add_argument("--tokens", type=number, default=200, metavar="N", help="of a reply")
    add_work(made)
    options = made.parse_args()
    report = Report("speculation", __doc__, options, peers=())
    wide = work_folder(options.work) / f"{options.model.stem}-random-{WIDE[0]}.gguf"
    if not wide.is_file():
        random_model(options.model, wide, *WIDE)
    subject = facts(options.model).subject
    for threads in options.threads:
        with Worker("replies", "replies", options.model, threads) as worker:
            for work, prompt, target in (
                ("a reply that copies, prompt lookup", COPY, COPIED),
                ("a reply that does not copy, prompt lookup", FREE, KEPT),
            ):
                drafted(report, worker, subject, work, threads, prompt, options.tokens, target)
        for name, model in ((f"{subject}, random and wider", wide), (subject, options.model)):
            asked = {"assistant": str(options.model)}
            with Worker("replies", "replies", model, threads, **asked) as worker:
                work = f"a reply that {subject} drafts"
                count = min(options.tokens, 100)
                drafted(report, worker, name, work, threads, FREE, count, None, True)
        second_turn(report, options.model, subject, threads)
    return report.close()


def drafted(
    report: Report,
    worker: Worker,
    subject: str,
    work: str,
    threads: int,
    prompt: str,
    count: int,
    target: float | None,
    assistant: bool = False,
) -> None:
    plain = {"prompt": prompt, "count": count}
    how = {**plain, "drafted": True} if assistant else {**plain, "lookup": LOOKUP}
    calls = {
        "ours": lambda: worker.ask("reply", **how),
        "without drafts": lambda: worker.ask("reply", **plain),
    }
    found = rates(take_turns(calls, report.rounds), 1.0)
    right = worker.ask("accepted", **how)
    named = (subject, work, threads, "tokens/s")

    def told(_: float) -> Ceiling:
        return Ceiling("the drafted tokens were right", 1.0, right)

    report.add(Row.of(*named, found, told, beside="without drafts", target=target))


def second_turn(report: Report, model: Path, subject: str, threads: int) -> None:
    asked = {"prompt": COPY, "more": "\nWho is the master of the last one?"}
    with (
        Worker("kept", "replies", model, threads) as kept,
        Worker("fresh", "replies", model, threads, prefix_cache=False) as fresh,
    ):
        calls = {
            "ours": lambda: kept.ask("second", **asked),
            "nothing kept": lambda: fresh.ask("second", **asked),
        }
        taken = take_turns(calls, report.rounds)
    found = {name: Spread.of(1e3 * value for value in values) for name, values in taken.items()}
    named = (subject, "first token of a second turn", threads, "ms")
    report.add(Row.of(*named, found, beside="nothing kept", lower=True, target=0.5))


if __name__ == "__main__":
    sys.exit(main())
