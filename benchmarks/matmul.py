"""Products of float32 matrices beside torch, in alternation.

python -m benchmarks.matmul [--json OUT] [--threads 1,2] [--rounds 9]

The ratio is that of the rates, medians over rounds in which both take turns; at least 0.95 is
asked for. A case is "M K N", with a "t" behind it the right side is a transposed view.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from benchmarks import peers

CASES = ["512 512 512", "768 768 768", "1024 1024 1024", "2048 2048 2048"]
CASES += ["1024 1024 1024 t", "64 2048 2048", "2048 64 2048", "1000 1000 1000"]
LEAST = 0.95


def make(name: str, case: str) -> tuple[Callable[[], Any], float]:
    import numpy as np

    m, k, n = map(int, case.split()[:3])
    turned = case.endswith("t")
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k), np.float32)
    b = rng.standard_normal((n, k) if turned else (k, n), np.float32)
    if name == "torch":
        import torch

        x, y = torch.from_numpy(a), torch.from_numpy(b)
        right = y.T if turned else y

        def theirs() -> Any:
            with torch.inference_mode():
                return x @ right

        return theirs, 2.0 * m * k * n
    import clika_runtime as crt

    mine, other = crt.tensor(a), crt.tensor(b)
    side = other.transpose(0, 1) if turned else other

    def ours() -> Any:
        with crt.synchronous():
            return crt.matmul(mine, side)

    return ours, 2.0 * m * k * n


if __name__ == "__main__":
    sys.exit(peers.main("benchmarks.matmul", __doc__, CASES, make, LEAST))
