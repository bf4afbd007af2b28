"""Eager ``add`` of two 8-element tensors beside torch under inference_mode, in alternation.

python -m benchmarks.eager_add [--json OUT]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = 20000
ROUNDS = 41


def timed(call: Callable[..., Any], a: Any, b: Any) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        call(a, b)
    return (time.perf_counter() - started) / CALLS * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    options = parser.parse_args()
    import torch

    import clika_runtime as crt

    torch.set_num_threads(1)
    ours = (crt.tensor([1.0] * 8), crt.tensor([2.0] * 8))
    theirs = (torch.ones(8), torch.ones(8))
    mine, peer = [], []
    with torch.inference_mode():
        for _ in range(ROUNDS):
            mine.append(timed(crt.add, *ours))
            peer.append(timed(torch.add, *theirs))
    ratio = statistics.median(a / b for a, b in zip(mine, peer, strict=True))
    result = {
        "ours_ns": statistics.median(mine),
        "torch_ns": statistics.median(peer),
        "ratio": ratio,
    }
    print(
        f"add of 8 floats: ours {result['ours_ns']:.0f} ns, "
        f"torch {result['torch_ns']:.0f} ns, ratio {ratio:.2f}"
    )
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
