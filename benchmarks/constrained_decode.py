"""What a constraint adds to decoding: steps of several replies that keep to one, beside free ones.

    python -m benchmarks.constrained_decode MODEL [--batch 8] [--rounds 9] [--temperature 0 0.8]
        [--json OUT]

Greedy and sampled replies of one model; a round runs every kind of constraint once, with free steps
before each of them. Counted are steps in which every reply decodes: one that ends is replaced, and
the step of its prompt is left out. Of a round the median step by the clock is set beside the median
of the free ones just before; a figure is the median of all rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from clika_runtime.modelverse.generation import GenerativeModel, load_generative

#: What a constraint may add, in percent of a free step.
TARGET = 10.0
# Steps that are tried for each that is wanted: replies may be so short that few steps count.
PATIENCE = 40
_PEOPLE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
_LINES = r"""start: line+
line: WORD "=" NUMBER ";\n"
WORD: /[a-z]+/
NUMBER: /[0-9]+(\.[0-9]+)?/
"""
KINDS: dict[str, Any] = {
    "json schema": {"json_schema": {"type": "array", "minItems": 40, "items": _PEOPLE}},
    "json object": {"type": "json_object"},
    "regex": {"regex": "([a-z]+ )+"},
    "regex, 2,000 counted characters": {"regex": "[a-z ]{2000}"},
    "regex, 300 counted words": {"regex": "([A-Z][a-z]{1,12} ){300}"},
    "lark": {"lark": _LINES},
    "choice of 200": {
        "choice": [f"Number {i} of many, a text that is long and goes on, " * 6 for i in range(200)]
    },
}


def step_seconds(
    model: GenerativeModel, batch: int, steps: int, constraint: Any, temperature: float
) -> list[float]:
    """Seconds of each of so many steps in which all replies decode."""
    seeds = itertools.count()

    def begin(number: int) -> Any:
        return model.stream_generate(
            f"Write a story about number {number}.",
            temperature=temperature,
            seed=next(seeds),
            max_new_tokens=400,
            stop_ids=(),
            constraint=constraint,
        )

    streams = [begin(number) for number in range(batch)]
    found: list[float] = []
    for _ in range(PATIENCE * steps):
        if len(found) == steps:
            break
        for number, stream in enumerate(streams):
            if stream._request.done:
                streams[number] = begin(number)
        decoding = all(stream._request.produced for stream in streams)
        begun = time.perf_counter()
        model.scheduler.step()
        if decoding:
            found.append(time.perf_counter() - begun)
    for stream in streams:
        stream.close()
    return found


def measure(
    model: GenerativeModel, batch: int, rounds: int, steps: int, temperature: float
) -> list[dict[str, Any]]:
    """A row per kind of constraint. `RuntimeError` where its replies end at once."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
    for number in range(rounds + 1):
        for name, constraint in KINDS.items():
            pair = [
                step_seconds(model, batch, steps, what, temperature) for what in (None, constraint)
            ]
            if not all(pair):
                raise RuntimeError(f"{name}: no step was found in which {batch} replies decode")
            if number:  # the first round is for warming up
                found[name].append((statistics.median(pair[0]), statistics.median(pair[1])))
    rows = []
    for name, medians in found.items():
        free, kept = (statistics.median(column) for column in zip(*medians, strict=True))
        added = statistics.median(with_it / base - 1 for base, with_it in medians)
        rows.append(
            {
                "constraint": name,
                "temperature": temperature,
                "batch": batch,
                "free_ms": round(1e3 * free, 3),
                "constrained_ms": round(1e3 * kept, 3),
                "added_percent": round(100 * added, 1),
                "target_percent": TARGET,
            }
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0, 0.8])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    model = load_generative(arguments.model, max_sequences=arguments.batch, max_seq=1024)
    sizes = (arguments.batch, arguments.rounds, arguments.steps)
    rows = [row for warmth in arguments.temperature for row in measure(model, *sizes, warmth)]
    for row in rows:
        print(
            f"{row['temperature']:3g} {row['constraint']:32} free {row['free_ms']:8.3f} ms, "
            f"constrained {row['constrained_ms']:8.3f} ms: {row['added_percent']:+.1f} %"
        )
    if arguments.json:
        document = {"model": arguments.model.name, "rows": rows}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return int(any(row["added_percent"] > TARGET for row in rows))


if __name__ == "__main__":
    sys.exit(main())
