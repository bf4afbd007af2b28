"""One token times a packed weight, for every quantized type and level of this machine.

python -m benchmarks.gemv_types [--modes fast,exact] [--types Q4_K,Q6_K] [--mib 24] [--json OUT]

One thread. A row gives the rate at which the packed weight is read, and its ratio to the portable
level's. Levels take turns, and a rate is the best of all rounds: other work on the machine only
takes away.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 2048
ROUNDS = 3
REPEATS = 15


def measure(types: list[str], modes: list[str], mib: int) -> dict[str, float]:
    """GB/s by "type mode", in this process."""
    import clika_runtime as crt
    from clika_runtime.testing import _numpy as kit

    rng = np.random.default_rng(0)
    x = crt.tensor(rng.standard_normal((1, COLUMNS)).astype(np.float32))
    rates = {}
    for name in types:
        columns, nbytes = kit.block_size(name)
        rows = mib * 2**20 // (COLUMNS // columns * nbytes) // 16 * 16
        few = kit.random_blocks(rng, name, 64, COLUMNS)
        blocks = np.tile(few, (rows // 64 + 1, 1))[:rows]
        weight = crt.Tensor.from_buffer(
            blocks, (rows, COLUMNS), crt.float32, scheme=kit.scheme_number(name), mapped=False
        )
        packed = crt.pack_weight(weight, "both")
        for mode in modes:
            best = float("inf")
            for _ in range(REPEATS):
                started = time.perf_counter()
                crt.linear(x, packed, mode=mode).numpy()
                best = min(best, time.perf_counter() - started)
            rates[f"{name} {mode}"] = blocks.nbytes / best / 1e9
    return rates


def in_level(level: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.gemv_types", "--here", "--modes", options.modes]
    command += ["--types", options.types, "--mib", str(options.mib)]
    environment = {**os.environ, "CLIKA_RT_CPU_ISA": level, "CLIKA_RT_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    from clika_runtime.testing import _numpy as kit

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modes", default="fast")
    parser.add_argument("--types", default=",".join(kit.SCHEMES))
    parser.add_argument("--mib", type=int, default=24)
    parser.add_argument("--json")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    types, modes = options.types.split(","), options.modes.split(",")
    if options.here:
        print(json.dumps(measure(types, modes, options.mib)))
        return
    from clika_runtime_cpu import _kernels

    every = ("portable", "avx2", "avx512")
    levels = every[: every.index(_kernels.level()) + 1]
    best: dict[str, dict[str, float]] = {level: {} for level in levels}
    for _ in range(ROUNDS):
        for level in levels:
            for key, rate in in_level(level, options).items():
                best[level][key] = max(rate, best[level].get(key, 0.0))
    rows: list[dict[str, Any]] = []
    print(f"{'type':10}{'mode':8}{'level':10}{'GB/s':>8}{'ratio':>8}")
    for name in types:
        for mode in modes:
            for level in levels:
                rate = best[level][f"{name} {mode}"]
                ratio = rate / best["portable"][f"{name} {mode}"]
                print(f"{name:10}{mode:8}{level:10}{rate:8.1f}{ratio:8.1f}")
                rows.append(
                    {"type": name, "mode": mode, "level": level, "gb_s": rate, "ratio": ratio}
                )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
