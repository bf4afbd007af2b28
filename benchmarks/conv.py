"""Float32 convolutions of ResNet-18 and MobileNet beside torch in channels_last, in alternation.

python -m benchmarks.conv [--json OUT] [--threads 1,2] [--rounds 9]

The ratio is that of the rates, medians over rounds in which both take turns; at least 0.8 is
asked for. A case is "CHANNELS MADE KERNEL STRIDE SIZE", with a "d" behind it each channel is a
group of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from benchmarks import peers

CASES = ["3 64 7 2 224", "64 64 3 1 56", "64 128 3 2 56", "64 128 1 2 56", "128 128 3 1 28"]
CASES += ["128 256 3 2 28", "128 256 1 2 28", "256 256 3 1 14", "256 512 3 2 14", "256 512 1 2 14"]
CASES += ["512 512 3 1 7", "32 32 3 1 112 d", "144 144 3 2 56 d", "384 384 3 1 14 d"]
LEAST = 0.8


def make(name: str, case: str) -> tuple[Callable[[], Any], float]:
    import numpy as np

    channels, made, kernel, stride, size = map(int, case.split()[:5])
    groups = channels if case.endswith("d") else 1
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, size, size, channels), np.float32)
    w = rng.standard_normal((made, kernel, kernel, channels // groups), np.float32)
    padding = kernel // 2
    out = (size + 2 * padding - kernel) // stride + 1
    operations = 2.0 * out * out * made * kernel * kernel * channels / groups
    if name == "torch":
        import torch

        image = torch.from_numpy(x).permute(0, 3, 1, 2)  # channels_last in memory
        weight = torch.from_numpy(w).permute(0, 3, 1, 2)

        def theirs() -> Any:
            with torch.inference_mode():
                return torch.conv2d(image, weight, None, stride, padding, 1, groups)

        return theirs, operations
    import clika_runtime as crt

    mine, other = crt.tensor(x), crt.tensor(w)

    def ours() -> Any:
        with crt.synchronous():
            return crt.conv2d(mine, other, None, stride, padding, 1, groups)

    return ours, operations


if __name__ == "__main__":
    sys.exit(peers.main("benchmarks.conv", __doc__, CASES, make, LEAST))
