"""Decode and prefill of a GGUF model beside llama.cpp, in alternation.

    python -m benchmarks.model_speed MODEL.gguf [--threads 1,2] [--rounds 7] [--json OUT]

Prints medians, spread, the ratio (ours over the faster of llama.cpp's two flash-attention
settings), and the bytes of weights read per second beside the best read loop over a buffer of that
size.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.ceilings import read_bandwidth
from benchmarks.workers import Worker

PREFILL = 512
DECODE = 64
PROMPT = 32


def summary(seconds: list[float], tokens: int) -> dict[str, float]:
    rates = sorted(tokens / value for value in seconds)
    return {"median": statistics.median(rates), "min": rates[0], "max": rates[-1]}


def measure(model: str, threads: int, rounds: int) -> dict[str, Any]:
    size = Path(model).stat().st_size
    ids = random.Random(0).choices(range(1000, 30000), k=PREFILL)
    workers = [
        Worker("ours", "ours", model, threads),
        Worker("llama.cpp fa=on", "llama.cpp", model, threads, "on"),
        Worker("llama.cpp fa=off", "llama.cpp", model, threads, "off"),
    ]
    seconds: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for worker in workers:
            for verb, count in (("decode", DECODE), ("prefill", 0)):
                taken = worker.ask(verb, ids[: PROMPT if verb == "decode" else PREFILL], count)
                if turn:  # the first round warms up
                    seconds.setdefault((worker.name, verb), []).append(taken)
    peaks = {worker.name: worker.peak_bytes() for worker in workers}
    for worker in workers:
        worker.close()
    result: dict[str, Any] = {"threads": threads, "file_bytes": size, "peak_bytes": peaks}
    result["read_bandwidth"] = read_bandwidth(size, threads)
    for verb, tokens in (("decode", DECODE), ("prefill", PREFILL)):
        rows = {w.name: summary(seconds[w.name, verb], tokens) for w in workers}
        best = max(rows["llama.cpp fa=on"]["median"], rows["llama.cpp fa=off"]["median"])
        rows_out: dict[str, Any] = {
            "tokens_per_second": rows,
            "ratio": rows["ours"]["median"] / best,
        }
        if verb == "decode":
            rows_out["percent_of_read_bandwidth"] = (
                100 * rows["ours"]["median"] * size / result["read_bandwidth"]
            )
        result[verb] = rows_out
    result["peak_limit_bytes"] = int(1.3 * size + 150e6)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    options = parser.parse_args()
    results = []
    for threads in map(int, options.threads.split(",")):
        found = measure(options.model, threads, options.rounds)
        results.append(found)
        print(f"{Path(options.model).name}, {threads} thread(s)")
        for verb in ("decode", "prefill"):
            for name, row in found[verb]["tokens_per_second"].items():
                print(
                    f"  {verb:8}{name:18}{row['median']:9.1f} tok/s  "
                    f"({row['min']:.1f} .. {row['max']:.1f})"
                )
            print(f"  {verb:8}ratio {found[verb]['ratio']:.2f}")
        print(
            f"  read loop {found['read_bandwidth'] / 1e9:.1f} GB/s; decode reads "
            f"{found['decode']['percent_of_read_bandwidth']:.0f} % of it"
        )
        print(
            f"  peak memory {found['peak_bytes']['ours'] / 1e6:.0f} MB (limit "
            f"{found['peak_limit_bytes'] / 1e6:.0f} MB)",
            flush=True,
        )
    if options.json:
        document = {"machine": platform.processor() or platform.machine(), "results": results}
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
