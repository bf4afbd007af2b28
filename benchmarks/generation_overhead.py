"""What Python costs between two tokens: the loop of generation around steps of a tiny model.

A token of a stream is measured as users get it (text out of ``stream_generate``), and the time
inside the plan's native program is taken off: what is left is scheduling, bookkeeping, stop checks
and decoding. With several streams a step serves all of them, and the figure is per stream. The loop
is the calling thread's time on a processor, the whole is by the clock.

    python -m benchmarks.generation_overhead --output benchmarks/results/generation_overhead.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from clika_runtime.modelverse.engine import Engine
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from tests.unit.modelverse.models import write_model

#: Microseconds per token and stream that the loop may cost.
TARGETS = {1: 60.0, 32: 15.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "seed": 7},
    "stop strings": {"temperature": 0.0, "stop": ["</tool>", "\n\n\n", "END OF TEXT"]},
    "penalties": {"temperature": 0.8, "seed": 7, "repetition_penalty": 1.1, "dry_multiplier": 0.8},
    "log-probabilities": {"temperature": 0.0, "top_logprobs": 5},
}


class Clock:
    """The thread's time inside the native programs of an engine."""

    def __init__(self, engine: Engine) -> None:
        self.seconds = 0.0
        compiled = engine._compile

        def watched(key: Any) -> Any:
            graph = compiled(key)
            graph._program.plan = Timed(graph._program.plan, self)
            return graph

        engine._compile = watched  # type: ignore[method-assign]


class Timed:
    """A native program that tells a clock how long its runs are."""

    def __init__(self, plan: Any, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock

    def run(self, inputs: Any) -> Any:
        begun = time.thread_time()
        results = self._plan.run(inputs)
        # The caller reads the ids first; the wait for them is the program's.
        results[0].tolist()
        self._clock.seconds += time.thread_time() - begun
        return results


def measure(model: GenerativeModel, clock: Clock, streams: int, tokens: int, **options: Any) -> Any:
    """Microseconds per token and stream: (by the clock, the loop's part)."""
    begun_streams = [
        model.stream_generate("Once upon a time", max_new_tokens=tokens, stop_ids=(), **options)
        for _ in range(streams)
    ]
    for stream in begun_streams:
        next(stream)
    clock.seconds = 0.0
    begun, worked = time.perf_counter(), time.thread_time()
    for stream in begun_streams:
        for _ in stream:
            pass
    whole, worked = time.perf_counter() - begun, time.thread_time() - worked
    share = 1e6 / (tokens - 1) / streams
    return share * whole, share * (worked - clock.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder), max_position_embeddings=2048)
        for streams, target in TARGETS.items():
            model = load_generative(folder, max_sequences=streams)
            clock = Clock(model.engine)
            for name, options in SETTINGS.items():
                measure(model, clock, streams, 20, **options)
                runs = [
                    measure(model, clock, streams, arguments.tokens, **options)
                    for _ in range(arguments.rounds)
                ]
                loop = [run[1] for run in runs]
                row = {
                    "streams": streams,
                    "settings": name,
                    "loop_us": round(statistics.median(loop), 1),
                    "loop_us_least": round(min(loop), 1),
                    "whole_us": round(statistics.median(run[0] for run in runs), 1),
                    "target_us": target,
                }
                rows.append(row)
                print(
                    f"{streams:3} streams  {name:18} loop {row['loop_us']:6.1f} us per token and "
                    f"stream (least {row['loop_us_least']:.1f}, target {target:g}), "
                    f"whole {row['whole_us']:.1f} us"
                )
    document = {"tokens": arguments.tokens, "rounds": arguments.rounds, "rows": rows}
    if arguments.output:
        arguments.output.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
