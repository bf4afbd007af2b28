"""Products of a prompt with the tiles of AMX beside the plain AVX-512 kernels.

    python -m benchmarks.amx [--tokens 512] [--columns 4096] [--threads 1,8] [--json OUT]

Both run in processes of their own that take turns, ``CLIKA_RT_CPU_AMX`` being 1 in one of them. The
integer products have to be the same to the bit; of bfloat16, whose products are summed in pairs
there, the largest difference is told in units of the last place of bfloat16.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

TYPES = ("Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K", "bfloat16")
ROUNDS = 5


def measure(tokens: int, columns: int, out: str) -> dict[str, float]:
    """Seconds by type, in this process; the results go to a file."""
    import clika_runtime as crt
    from clika_runtime.testing import _numpy as kit

    rng = np.random.default_rng(0)
    values = rng.standard_normal((tokens, columns)).astype(np.float32)
    seconds, results = {}, {}
    for name in TYPES:
        x = crt.tensor(values)
        if name == "bfloat16":
            x = x.to(crt.bfloat16)
            made = rng.standard_normal((columns, columns)).astype(np.float32)
            weight = crt.tensor(made).to(crt.bfloat16)
        else:
            blocks = kit.random_blocks(rng, name, columns, columns)
            number = kit.scheme_number(name)
            weight = crt.Tensor.from_buffer(
                blocks, (columns, columns), crt.float32, scheme=number, mapped=False
            )
            weight = crt.pack_weight(weight, "fast")
        mode = "exact" if name == "bfloat16" else "fast"
        taken = []
        for _ in range(ROUNDS + 1):
            started = time.perf_counter()
            y = crt.linear(x, weight, None, mode)
            y.data_ptr()  # waits
            taken.append(time.perf_counter() - started)
        seconds[name] = statistics.median(taken[1:])
        results[name] = y.to(crt.float32).numpy()
    np.savez(out, **results)
    return seconds


def difference(name: str, plain: Any, tiles: Any) -> float:
    """0.0 where the bits are the same, else in units of the last place of bfloat16."""
    if np.array_equal(plain, tiles):
        return 0.0
    size = np.maximum(np.abs(plain), np.abs(plain).max() * 2.0**-8)
    return float((np.abs(plain - tiles) / (size * 2.0**-8)).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--threads", default="1,8")
    parser.add_argument("--json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.tokens, options.columns, options.worker)))
        return 0
    rows, good = [], True
    folder = Path(tempfile.gettempdir())
    for threads in map(int, options.threads.split(",")):
        found: dict[str, dict[str, float]] = {}
        arrays = {}
        for amx in ("0", "1"):
            out = folder / f"amx-{os.getpid()}-{amx}.npz"
            command = [sys.executable, "-m", "benchmarks.amx", "--worker", str(out)]
            command += ["--tokens", str(options.tokens), "--columns", str(options.columns)]
            environment = dict(os.environ)
            environment.update(CLIKA_RT_CPU_AMX=amx, CLIKA_RT_NUM_THREADS=str(threads))
            done = subprocess.run(command, env=environment, capture_output=True, check=True)
            found[amx] = json.loads(done.stdout)
            with np.load(out) as stored:
                arrays[amx] = {name: stored[name] for name in stored.files}
            out.unlink()
        work = 2.0 * options.tokens * options.columns**2
        for name in TYPES:
            off = difference(name, arrays["0"][name], arrays["1"][name])
            good = good and (off == 0.0 if name != "bfloat16" else off <= 2.0)
            row = {
                "type": name,
                "threads": threads,
                "plain_gops": work / found["0"][name] / 1e9,
                "amx_gops": work / found["1"][name] / 1e9,
                "ratio": found["0"][name] / found["1"][name],
                "difference": off,
            }
            rows.append(row)
            print(
                f"{name:9s} {threads:2d} thread(s): {row['plain_gops']:7.0f} Gop/s, by tiles "
                f"{row['amx_gops']:7.0f}, {row['ratio']:.2f} times, off by {off:.3g}"
            )
    if options.json:
        document = {"tokens": options.tokens, "columns": options.columns, "rows": rows}
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
