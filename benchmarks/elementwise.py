"""Elementwise operators beside torch under inference_mode, in alternation.

Time over a million float32 numbers with 1 and 2 threads, and what one eager call of eight costs:

python -m benchmarks.elementwise [--json OUT]

The ratios are torch's time over ours (speed) for the million, and ours over torch's (cost of a
call) for the eight; the median over rounds in which both take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ELEMENTS = 1_000_000
THREADS = (1, 2)
ROUNDS = 41
# Of the speed of torch, and of its time per call: what is asked for.
SPEED = 0.9
COST = {"add": 0.4, "relu": 0.4, "softmax": 0.5, "reshape": 0.6}

Call = Callable[[], Any]


def seconds(call: Call, count: int) -> float:
    # The other side's threads spin for some milliseconds after its turn; a call wakes ours.
    time.sleep(0.03)
    call()
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count


def alternate(ours: Call, theirs: Call, count: int) -> dict[str, float]:
    """Median seconds of a call of both, and the median of ours over theirs by round."""
    mine, peer = [], []
    for _ in range(ROUNDS + 1):
        mine.append(seconds(ours, count))
        peer.append(seconds(theirs, count))
    del mine[0], peer[0]  # warm-up
    ratio = statistics.median(a / b for a, b in zip(mine, peer, strict=True))
    return {
        "ours": statistics.median(mine),
        "torch": statistics.median(peer),
        "ours_over_torch": ratio,
    }


def throughput(crt: Any, torch: Any) -> dict[str, dict[str, float]]:
    generator = torch.Generator().manual_seed(0)
    numbers = [torch.randn(ELEMENTS, generator=generator) for _ in range(2)]
    a, b = (crt.from_numpy(x.numpy()) for x in numbers)
    found = {}
    for name in ("add", "mul", "relu", "exp", "sum"):
        ours, theirs = getattr(crt, name), getattr(torch, name)
        pair = name in ("add", "mul")

        def mine(call: Any = ours, pair: bool = pair) -> Any:
            return call(a, b) if pair else call(a)

        def peer(call: Any = theirs, pair: bool = pair) -> Any:
            return call(*numbers) if pair else call(numbers[0])

        with crt.synchronous():  # as torch: a call is done when it returns
            found[name] = alternate(mine, peer, 20)
    return found


def overhead(crt: Any, torch: Any) -> dict[str, dict[str, float]]:
    x, y = crt.tensor([1.0] * 8), crt.tensor([2.0] * 8)
    p, q = torch.ones(8), torch.ones(8)
    calls: dict[str, tuple[Call, Call]] = {
        "add": (lambda: crt.add(x, y), lambda: torch.add(p, q)),
        "relu": (lambda: crt.relu(x), lambda: torch.relu(p)),
        "softmax": (lambda: crt.softmax(x, -1), lambda: torch.softmax(p, -1)),
        "reshape": (lambda: crt.reshape(x, (2, 4)), lambda: torch.reshape(p, (2, 4))),
    }
    return {name: alternate(*pair, 4000) for name, pair in calls.items()}


def worker(threads: int) -> None:
    """Runs in a process of its own: the number of threads is read once."""
    import torch

    import clika_runtime as crt

    torch.set_num_threads(threads)
    with torch.inference_mode():
        found: dict[str, Any] = {"million": throughput(crt, torch)}
        if threads == 1:
            found["call"] = overhead(crt, torch)
    print(json.dumps(found))


def measured(threads: int) -> dict[str, Any]:
    environment = {**os.environ, "CLIKA_RT_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks.elementwise", "--worker", str(threads)]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the worker failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return
    result: dict[str, Any] = {"elements": ELEMENTS, "million": {}}
    for threads in THREADS:
        found = measured(threads)
        result["million"][str(threads)] = found["million"]
        result.update({key: found[key] for key in ("call",) if key in found})
        for name, row in found["million"].items():
            speed = 1 / row["ours_over_torch"]
            told = f"{row['ours'] * 1e6:8.0f} us  torch {row['torch'] * 1e6:8.0f} us"
            verdict = "" if speed >= SPEED else f"  below {SPEED}"
            print(f"{name:8} {threads} threads {told}  speed {speed:.2f} of torch's{verdict}")
    for name, row in result["call"].items():
        cost = row["ours_over_torch"]
        told = f"{row['ours'] * 1e9:8.0f} ns  torch {row['torch'] * 1e9:8.0f} ns"
        verdict = "" if cost <= COST[name] else f"  above {COST[name]}"
        print(f"{name:8} one call  {told}  cost {cost:.2f} of torch's{verdict}")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
