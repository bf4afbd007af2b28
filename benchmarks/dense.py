"""A llama in dense types: bfloat16 and float32 beside llama.cpp's F16 and transformers' float32.

    python -m benchmarks.dense SMOLLM2.gguf [--threads 1,2] [--rounds 5]

The model is dequantized once; ours reads it as BF16 with bfloat16 activations and as F32, llama.cpp
as F16 (as many bytes as BF16), transformers as float32.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import converted, facts
from benchmarks.harness import Report, Row, add_work, parser, work_folder
from benchmarks.steps import PREFILL, decode_rates, multiplying, prefill_rates, reading
from benchmarks.workers import Worker, sides

BFLOAT16_DECODE = 1.2  # times llama.cpp's F16
FLOAT32_DECODE = 1.2  # times transformers
FLOAT32_PREFILL = 1.15  # times transformers
BFLOAT16_PREFILL = 0.95  # times our float32


def main() -> int:
    made = parser(__doc__, rounds=5)
    made.add_argument("model", type=Path)
    add_work(made)
    options = made.parse_args()
    report = Report("dense", __doc__, options, peers=("llama.cpp", "transformers"))
    folder = work_folder(options.work)
    paths = {kind: converted(options.model, folder, kind) for kind in ("F32", "BF16", "F16")}
    for threads in options.threads:
        measure(report, paths, threads)
    return report.close()


def measure(report: Report, paths: dict[str, Path], threads: int) -> None:
    about = {kind: facts(path) for kind, path in paths.items()}

    def add(kind: str, work: str, found: Any, beside: str, target: float) -> None:
        ceiling = (reading if work == "decode" else multiplying)(report, about[kind], threads)
        named = (about[kind].subject, work, threads, "tokens/s")
        report.add(Row.of(*named, found, beside=beside, target=target, ceiling=ceiling))

    with ExitStack() as stack:
        narrow = stack.enter_context(
            Worker("ours", "ours", paths["BF16"], threads, dtype="bfloat16")
        )
        wide = stack.enter_context(Worker("ours", "ours", paths["F32"], threads))
        found = prefill_rates({"ours": narrow, "ours, float32": wide}, report.rounds)
        add("BF16", f"prefill {PREFILL}", found, "ours, float32", BFLOAT16_PREFILL)
        workers = {"ours": narrow}
        for name, start in sides(report.peer).items():
            if name != "ours":
                workers[f"{name}, F16"] = stack.enter_context(start(paths["F16"], threads))
        found = decode_rates(workers, report.rounds)
        add("BF16", "decode", found, "llama.cpp", BFLOAT16_DECODE)
        workers = {"ours": wide}
        if report.peer:
            torch = Worker("transformers float32", "transformers", paths["F32"], threads)
            workers[torch.name] = stack.enter_context(torch)
        found = decode_rates(workers, report.rounds)
        add("F32", "decode", found, "transformers", FLOAT32_DECODE)
        found = prefill_rates(workers, report.rounds)
        add("F32", f"prefill {PREFILL}", found, "transformers", FLOAT32_PREFILL)


if __name__ == "__main__":
    sys.exit(main())
