"""A llama in types whose blocks hold 32 numbers, beside llama.cpp: decode and prefill.

    python -m benchmarks.llama_types SMOLLM2.gguf [--types Q4_0,Q8_0] [--threads 1,2] [--rounds 5]

Every matrix of the model is written in the type by the `gguf` package's quantizer. (Blocks of 256
do not fit SmolLM2's 576 columns: ``layer_types`` has them.)
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.checkpoints import converted
from benchmarks.harness import Report, add_work, choice, parser, work_folder
from benchmarks.steps import Targets, measure_steps

TYPES = ("Q4_0", "Q8_0", "Q5_0", "F16")
TARGETS = Targets(decode=1.7, prefill=1.7)


def main() -> int:
    made = parser(__doc__, rounds=5)
    made.add_argument("model", type=Path)
    made.add_argument("--types", type=choice(TYPES), default=list(TYPES), metavar="LIST")
    add_work(made)
    options = made.parse_args()
    report = Report("llama_types", __doc__, options)
    folder = work_folder(options.work)
    for kind in options.types:
        path = converted(options.model, folder, kind)
        for threads in options.threads:
            measure_steps(report, path, threads, TARGETS)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
