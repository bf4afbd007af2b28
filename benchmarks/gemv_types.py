"""One token times a packed weight, for every quantized type and level of this machine.

python -m benchmarks.gemv_types [--modes fast] [--types Q4_K,Q6_K] [--mib 24] [--json OUT]

One thread. A row gives the rate at which the packed weight is read, and its ratio to the portable
level's. Levels take turns, and a rate is the best of all rounds: other work on the machine only
takes away. FP8 and NF4 have one mode. The exit status is 1 where the highest level is less than
three times as fast as the portable one.
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
LEAST = 3.0  # times the portable level
# Bytes of float32 scales at the start of a block of the schemes that are no GGUF types.
OWN = {
    "NF4": 4,
    "FP8_E4M3": 4,
    "FP8_E5M2": 4,
    "INT4_G32": 8,
    "INT4_G128": 8,
    "INT8_G32": 4,
    "MXFP4_E8M0": 0,
    "NVFP4_E4M3": 4,
}
ONE_MODE = ("NF4", "FP8_E4M3", "FP8_E5M2")


def own_blocks(rng: Any, name: str, rows: int) -> Any:
    """Random blocks of a scheme of our own, uint8 [rows, bytes]; no scale and no code is NaN."""
    from clika_runtime.io import SCHEMES_BY_NAME

    own = SCHEMES_BY_NAME[name]
    count = COLUMNS // own.columns
    blocks = rng.integers(0, 256, (rows, count, own.nbytes), dtype=np.uint8)
    scales = rng.uniform(0.002, 0.02, (rows, count, OWN[name] // 4)).astype(np.float32)
    if name.startswith("FP8"):
        blocks &= 0x77
    elif name == "NVFP4_E4M3":
        blocks[..., 4:8] &= 0x3F
    elif name == "MXFP4_E8M0":
        blocks[..., 16] = 120
    blocks[..., : OWN[name]] = scales.view(np.uint8)
    return blocks.reshape(rows, -1)


def measure(types: list[str], modes: list[str], mib: int) -> dict[str, float]:
    """GB/s by "type mode", in this process."""
    import clika_runtime as crt
    from clika_runtime.io import SCHEMES_BY_NAME
    from clika_runtime.testing import _numpy as kit

    rng = np.random.default_rng(0)
    x = crt.tensor(rng.standard_normal((1, COLUMNS)).astype(np.float32))
    rates = {}
    for name in types:
        own = name in OWN
        few = own_blocks(rng, name, 64) if own else kit.random_blocks(rng, name, 64, COLUMNS)
        number = SCHEMES_BY_NAME[name].number if own else kit.scheme_number(name)
        rows = mib * 2**20 // few.shape[1] // 16 * 16
        blocks = np.tile(few, (rows // 64 + 1, 1))[:rows]
        weight = crt.Tensor.from_buffer(
            blocks, (rows, COLUMNS), crt.float32, scheme=number, mapped=False
        )
        packed = crt.pack_weight(weight, "both")
        for mode in modes_of(name, modes):
            best = float("inf")
            for _ in range(REPEATS):
                started = time.perf_counter()
                crt.linear(x, packed, mode=mode).numpy()
                best = min(best, time.perf_counter() - started)
            rates[f"{name} {mode}"] = blocks.nbytes / best / 1e9
    return rates


def modes_of(name: str, modes: list[str]) -> list[str]:
    """The modes in which a type differs, ``exact`` for those that have one."""
    return ["exact"] if name in ONE_MODE else modes


def in_level(level: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.gemv_types", "--here", "--modes", options.modes]
    command += ["--types", options.types, "--mib", str(options.mib)]
    environment = {**os.environ, "CLIKA_RT_CPU_ISA": level, "CLIKA_RT_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> int:
    from clika_runtime.testing import _numpy as kit

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modes", default="fast,exact")
    parser.add_argument("--types", default=",".join((*kit.SCHEMES, *OWN)))
    parser.add_argument("--mib", type=int, default=24)
    parser.add_argument("--json")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    types, modes = options.types.split(","), options.modes.split(",")
    if options.here:
        print(json.dumps(measure(types, modes, options.mib)))
        return 0
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
        for mode in modes_of(name, modes):
            for level in levels:
                rate = best[level][f"{name} {mode}"]
                ratio = rate / best["portable"][f"{name} {mode}"]
                print(f"{name:10}{mode:8}{level:10}{rate:8.1f}{ratio:8.1f}")
                rows.append(
                    {"type": name, "mode": mode, "level": level, "gb_s": rate, "ratio": ratio}
                )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    slow = [row for row in rows if row["level"] == levels[-1] and row["ratio"] < LEAST]
    for row in slow if len(levels) > 1 else ():
        print(f"{row['type']} {row['mode']}: {row['ratio']:.2f} times the portable level")
    return int(bool(slow) and len(levels) > 1)


if __name__ == "__main__":
    sys.exit(main())
