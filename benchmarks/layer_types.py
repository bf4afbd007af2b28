"""Two decoder layers of Llama-3-8B's shape in each block type, beside llama.cpp: decode and
prefill.

    python -m benchmarks.layer_types [--types Q4_K,Q6_K] [--prefill 128] [--rounds 3]

The weights are random blocks, so no model has to be there; the vocabulary has 1,024 words, so that
the layers are timed.
"""

from __future__ import annotations

import sys

from benchmarks.checkpoints import BLOCK_TYPES, LLAMA3_8B_LAYERS, random_layers
from benchmarks.harness import Report, add_work, choice, number, parser, work_folder
from benchmarks.steps import Targets, measure_steps

TYPES = ("Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q4_0", "IQ4_XS")
TARGETS = Targets(decode=1.3, prefill=2, read=70)


def main() -> int:
    made = parser(__doc__, rounds=3)
    made.add_argument("--types", type=choice(BLOCK_TYPES), default=list(TYPES), metavar="LIST")
    made.add_argument("--prefill", type=number, default=128, metavar="N", help="tokens")
    add_work(made)
    options = made.parse_args()
    report = Report("layer_types", __doc__, options)
    folder = work_folder(options.work)
    for kind in options.types:
        path = folder / f"llama3-8b-layers-{kind}.gguf"
        if not path.is_file():
            print(f"  writing {path}", flush=True)
            random_layers(path, LLAMA3_8B_LAYERS, kind)
        for threads in options.threads:
            measure_steps(report, path, threads, TARGETS, options.prefill)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
