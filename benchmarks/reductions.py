"""Reductions of a million float32 numbers beside torch, in alternation.

    python -m benchmarks.reductions [--threads 1,2] [--rounds N] [--json OUT] [NAME...]

Each is measured over all elements of [1000, 1000], over its rows and over its columns. The figure
is the median over rounds of torch's time by ours: 2 is twice as fast. A call counts until its
result is there.
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

SHAPE = (1000, 1000)
DIMS = {"all": None, "rows": 1, "columns": 0}
SLICE = 0.004  # seconds of one measurement


def _with_dim(name: str) -> Callable[[Any, Any, Any], Any]:
    return lambda space, x, dim: getattr(space, name)(x, dim=dim)


def _all_or_dim(name: str) -> Callable[[Any, Any, Any], Any]:
    """For functions of torch that take no dim None."""

    def call(space: Any, x: Any, dim: Any) -> Any:
        function = getattr(space, name)
        return function(x) if dim is None else function(x, dim)

    return call


def _every_dim(name: str) -> Callable[[Any, Any, Any], Any]:
    return lambda space, x, dim: getattr(space, name)(x, (0, 1) if dim is None else dim)


def _norm(p: float) -> Callable[[Any, Any, Any], Any]:
    def call(space: Any, x: Any, dim: Any) -> Any:
        function = getattr(space, "vector_norm", None) or space.linalg.vector_norm
        return function(x, p, dim)

    return call


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{name: _with_dim(name) for name in ("sum", "mean", "nansum", "nanmean", "argmax", "argmin")},
    **{name: _with_dim(name) for name in ("var", "std", "var_mean", "aminmax", "count_nonzero")},
    **{name: _all_or_dim(name) for name in ("prod", "any", "all", "max", "min", "median")},
    **{name: _every_dim(name) for name in ("amax", "amin", "logsumexp")},
    "norm-1": _norm(1),
    "norm-2": _norm(2),
    "norm-inf": _norm(float("inf")),
}


def _finish(result: Any) -> None:
    for part in result if isinstance(result, tuple) else (result,):
        part.data_ptr()  # waits


def timed(call: Callable[[], Any], count: int) -> float:
    # The other side's threads spin for some milliseconds after its turn; a call wakes ours.
    time.sleep(0.02)
    _finish(call())
    started = time.perf_counter()
    for _ in range(count):
        _finish(call())
    return (time.perf_counter() - started) / count


def measure(names: list[str], rounds: int) -> dict[str, dict[str, float]]:
    import torch

    import clika_runtime as crt

    torch.set_num_threads(int(os.environ["CLIKA_RT_NUM_THREADS"]))
    theirs = torch.randn(SHAPE)
    ours = crt.tensor(theirs.numpy())
    found = {}
    with torch.inference_mode():
        for name in names:
            for where, dim in DIMS.items():
                call = CALLS[name]

                def mine(call: Any = call, dim: Any = dim) -> Any:
                    return call(crt, ours, dim)

                def peer(call: Any = call, dim: Any = dim) -> Any:
                    return call(torch, theirs, dim)

                count = max(1, int(SLICE / max(timed(mine, 2), timed(peer, 2))))
                pairs = [(timed(mine, count), timed(peer, count)) for _ in range(rounds)]
                found[f"{name} {where}"] = {
                    "us": statistics.median(a for a, _ in pairs) * 1e6,
                    "torch_us": statistics.median(b for _, b in pairs) * 1e6,
                    "speed": statistics.median(b / a for a, b in pairs),
                }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CALLS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(CALLS))
    if unknown:
        parser.error(f"there is no reduction {unknown[0]!r}; there are {', '.join(CALLS)}")
    names = options.names or list(CALLS)
    if options.worker:
        print(json.dumps(measure(names, options.rounds)))
        return
    results: dict[str, Any] = {}
    for threads in options.threads.split(","):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.reductions", "--worker"),
                *("--rounds", str(options.rounds), *names),
            ],
            env={**os.environ, "CLIKA_RT_NUM_THREADS": threads},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        results[threads] = json.loads(done.stdout)
        for name, row in results[threads].items():
            mark = "" if row["speed"] >= 0.9 else "  <"
            print(
                f"{threads} threads  {name:22} {row['us']:8.1f} us, torch {row['torch_us']:8.1f}: "
                f"{row['speed']:6.2f}{mark}"
            )
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
