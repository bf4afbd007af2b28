"""Decode and prefill of a file beside llama.cpp: what several tables measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.checkpoints import Facts, facts
from benchmarks.harness import (
    Ceiling,
    Reached,
    Report,
    Row,
    Spread,
    prompt,
    rates,
    take_turns,
)
from benchmarks.workers import Worker, beside_llama

DECODE = 64  # tokens
PROMPT = 32  # tokens before them
PREFILL = 512
DENSE = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Targets:
    """Ratios of rates, and percentages of ceilings; None where nothing is asked."""

    decode: float | None = None
    prefill: float | None = None
    read: float | None = None
    dot: float | None = None


def reading(report: Report, about: Facts, threads: int, target: float | None = None) -> Reached:
    """The ceiling of decoding one sequence: the weights of a token, read at the speed of the best
    loop over that many bytes."""
    what, peak = report.ceilings.read(about.decode_bytes, threads)
    return lambda rate: Ceiling(what, peak, rate * about.decode_bytes, target)


def multiplying(report: Report, about: Facts, threads: int, target: float | None = None) -> Reached:
    """The ceiling of prompts: the products of the layers, of int8 for packed weights, of float32
    for dense ones."""
    peaks = report.ceilings.multiply if about.kind in DENSE else report.ceilings.dot
    what, peak = peaks(threads)
    return lambda rate: Ceiling(what, peak, 2 * rate * about.layer_products, target)


def measure_steps(
    report: Report,
    model: Path,
    threads: int,
    targets: Targets,
    prefill: int = PREFILL,
) -> None:
    """A row for decoding and one for a prompt of ``prefill`` tokens."""
    about = facts(model)
    with beside_llama(model, threads, report.peer) as workers:
        for work, found, target, ceiling in (
            (
                "decode",
                decode_rates(workers, report.rounds),
                targets.decode,
                reading(report, about, threads, targets.read),
            ),
            (
                f"prefill {prefill}",
                prefill_rates(workers, report.rounds, prefill),
                targets.prefill,
                multiplying(report, about, threads, targets.dot),
            ),
        ):
            named = (about.subject, work, threads, "tokens/s")
            report.add(Row.of(*named, found, beside="llama.cpp", target=target, ceiling=ceiling))


def decode_rates(
    workers: Mapping[str, Worker], rounds: int, sequences: int = 1
) -> dict[str, Spread]:
    """Tokens a second of some sequences together: `DECODE` of one, half as many of several each."""
    count = DECODE if sequences == 1 else DECODE // 2
    prompts = [prompt(PROMPT, vocabulary(workers), seed) for seed in range(sequences)]
    calls = {
        name: lambda worker=worker: worker.ask("decode", prompts=prompts, count=count)
        for name, worker in workers.items()
    }
    return rates(take_turns(calls, rounds), count * sequences)


def prefill_rates(
    workers: Mapping[str, Worker], rounds: int, tokens: int = PREFILL
) -> dict[str, Spread]:
    """Tokens of a prompt a second."""
    ids = prompt(tokens, vocabulary(workers))
    calls = {
        name: lambda worker=worker: worker.ask("prefill", ids=ids)
        for name, worker in workers.items()
    }
    return rates(take_turns(calls, rounds), tokens)


def vocabulary(workers: Mapping[str, Worker]) -> int:
    """The smallest, which all have."""
    return min(worker.vocabulary for worker in workers.values())
