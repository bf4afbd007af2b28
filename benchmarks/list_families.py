"""CPU time of ``clikart-cli list`` with many families installed.

    python -m benchmarks.list_families [--families 60] [--rounds 9] [--json OUT]

The families are packages as pip leaves them; each run is a fresh process. The bar is 0.3 seconds of
CPU time.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.cli.harness import command, environment, install_family

BAR = 0.3


def install(site: Path, count: int) -> None:
    """That many families under ``site``."""
    for number in range(count):
        install_family(
            site,
            f"animal{number}",
            verbs=("prompt",),
            architectures=(f"Animal{number}ForCausalLM",),
            gguf_architectures=(f"animal{number}",),
            license_page="https://example.org/license",
            load=f"animal{number}_model:FAMILY",
        )


def cpu_seconds(env: dict[str, str], words: list[str]) -> tuple[float, str]:
    """(user and system time of a process, what it printed)."""
    import resource

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return used() - before, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        install(Path(scratch), options.families)
        env = environment(scratch)
        cpu_seconds(env, command("list"))  # writes the byte code
        times = []
        for _ in range(options.rounds):
            seconds, text = cpu_seconds(env, command("list"))
            times.append(seconds)
        empty = [cpu_seconds(env, [sys.executable, "-c", "pass"])[0] for _ in range(3)]
    shown = text.count(" runnable\n")
    result = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "families": shown,
        "cpu_seconds": {
            "median": round(statistics.median(times), 3),
            "min": round(min(times), 3),
            "max": round(max(times), 3),
        },
        "empty_interpreter": round(statistics.median(empty), 3),
    }
    print(json.dumps(result, indent=1))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if statistics.median(times) < BAR else 1


if __name__ == "__main__":
    sys.exit(main())
