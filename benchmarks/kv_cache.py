"""Attention of a decode step over a long cache, for each form of its rows, beside a loop that only
reads memory.

    python -m benchmarks.kv_cache [--positions N] [--threads 1,2] [--rounds N] [--json OUT] [FORM]

The layers' pools take turns, as in a model, so that no cache of the processor holds them all. The
forms alternate; a figure is the median over the rounds: microseconds of a layer, gigabytes of cache
per second, and the share of the read loop's rate.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.ceilings import read_bandwidth

#: Heads of keys, query heads that share one, head size, layers: as in SmolLM2 135M and Llama 3 8B.
SHAPES = {"smollm2-135m": (3, 3, 64, 30), "llama3-8b": (8, 4, 128, 8)}
FORMS = ("float32", "bfloat16", "float16", "q8_0", "fp8")
READ = 256 << 20


class Layers:
    """The caches of some layers with one sequence, and the query of a step."""

    def __init__(self, form: str, shape: tuple[int, int, int, int], positions: int) -> None:
        import numpy as np

        import clika_runtime as crt
        from clika_runtime.modelverse.cache import KV, CacheConfig, KVCache

        heads, group, size, layers = shape
        rng = np.random.default_rng(0)
        self.cache = KVCache([KV(heads, size, size)] * layers, CacheConfig(positions, dtype=form))
        arrays = self.cache.prepare_step([self.cache.add()], [positions])
        self.counts = [
            crt.from_numpy(array)
            for array in (arrays.block_table, np.array([0, 1], np.int32), arrays.kv_lens)
        ]
        slots = crt.from_numpy(arrays.slots)
        rows = crt.from_numpy(rng.standard_normal((positions, heads, size), np.float32))
        for pools in self.cache.pools:
            for pool in pools:
                crt.kv_append(pool, rows, slots)
        self.query = crt.from_numpy(rng.standard_normal((1, heads * group, size), np.float32))
        self.scale = size**-0.5
        self.nbytes = self.cache.nbytes_per_token * positions

    def seconds(self) -> float:
        """One step over all layers."""
        import clika_runtime as crt

        started = time.perf_counter()
        for keys, values in self.cache.pools:
            out = crt.paged_attention(self.query, keys, values, *self.counts, scale=self.scale)
        out.data_ptr()  # waits
        return time.perf_counter() - started


def measure(shape: str, forms: list[str], positions: int, rounds: int) -> list[dict[str, Any]]:
    threads = int(os.environ["CLIKA_RT_NUM_THREADS"])
    made = {form: Layers(form, SHAPES[shape], positions) for form in forms}
    times: dict[str, list[float]] = {form: [] for form in forms}
    ceilings = []
    for number in range(rounds + 1):
        if number % 5 == 1:
            ceilings.append(read_bandwidth(READ, threads, 3))
        for form, layers in made.items():
            seconds = layers.seconds()
            if number:  # the first round is for warming up
                times[form].append(seconds)
    ceiling = statistics.median(ceilings)
    rows = []
    for form, layers in made.items():
        seconds = statistics.median(times[form])
        rate = layers.nbytes / seconds
        rows.append(
            {
                "shape": shape,
                "threads": threads,
                "positions": positions,
                "form": form,
                "bytes_per_token": layers.cache.nbytes_per_token,
                "microseconds": seconds / len(layers.cache.pools) * 1e6,
                "gigabytes_per_second": rate / 1e9,
                "read_gigabytes_per_second": ceiling / 1e9,
                "share_of_read": rate / ceiling,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("forms", nargs="*", metavar="FORM", help=", ".join(FORMS))
    parser.add_argument("--positions", type=int, default=4096)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--json")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    forms = options.forms or list(FORMS)
    if options.worker:
        rows = measure(options.shapes, forms, options.positions, options.rounds)
        print(json.dumps(rows))
        return
    found: list[dict[str, Any]] = []
    for shape in options.shapes.split(","):
        for threads in options.threads.split(","):
            command = [sys.executable, "-m", "benchmarks.kv_cache", "--worker", "--shapes", shape]
            command += ["--positions", str(options.positions), "--rounds", str(options.rounds)]
            environment = {**os.environ, "CLIKA_RT_NUM_THREADS": threads}
            done = subprocess.run(
                [*command, *forms], env=environment, check=True, capture_output=True, text=True
            )
            rows = json.loads(done.stdout)
            found += rows
            for row in rows:
                print(
                    f"{row['shape']:13} {row['threads']} thread(s)  {row['form']:9} "
                    f"{row['microseconds']:8.1f} us  {row['gigabytes_per_second']:6.2f} GB/s  "
                    f"{100 * row['share_of_read']:5.1f} % of reading"
                )
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
