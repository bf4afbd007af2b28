"""The memory law beside what a process really takes.

    python -m benchmarks.memory_law MODEL.gguf... [--max-seq 256,1024,4096] [--json OUT]

For every window a fresh ``clikart-cli MODEL prompt - --greedy`` reads a text that fills the window,
and its peak of resident memory (VmHWM) is set beside the total of ``clikart-cli check``. The law
holds where the estimate is not below the peak and at most 15 % above it.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

#: The law's bar: how far the estimate may lie above the peak.
ABOVE = 0.15
REPLY = 8
_CHILD = """
import sys
from clika_runtime.modelverse.cli import main
status = main(sys.argv[1:])
with open("/proc/self/status") as lines:
    peak = next(line for line in lines if line.startswith("VmHWM:"))
print("\\npeak", int(peak.split()[1]) * 1024)
sys.exit(status)
"""


def text_of(model: str, tokens: int) -> str:
    """English text of that many tokens: pages of this repository, cut to length."""
    import clika_runtime.modelverse as mv

    pages = [ROOT / "docs" / "architecture.md", ROOT / "README.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    tokenizer = mv.AutoTokenizer.from_pretrained(model)
    ids = tokenizer.encode(text, add_special_tokens=False, parse_special=False)
    while len(ids) < tokens:
        ids = ids + ids
    return str(tokenizer.decode(ids[:tokens]))


def peak_of(model: str, window: int, text: str) -> int:
    """The peak of a process that answers ``text`` within ``window`` tokens."""
    words = [model, "prompt", "-", "--greedy", "-q", "--device", "cpu"]
    words += ["--max-seq", str(window), "--max-new-tokens", str(REPLY)]
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *words], input=text.encode(), capture_output=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.decode()}")
    return int(done.stdout.decode().rpartition("peak ")[2])


def measure(model: str, windows: list[int]) -> list[dict[str, Any]]:
    """One row per window: the terms of the law and the peak."""
    from clika_runtime.modelverse.fit import check

    rows = []
    for window in windows:
        budget = check(model, max_seq=window)[0]
        # The chat template adds some tokens of its own; a part of the window stays free for it.
        text = text_of(model, budget.window - 64)
        peak = peak_of(model, window, text)
        over = budget.total / peak - 1
        rows.append(
            {
                "window": budget.window,
                "estimate": budget.total,
                "peak": peak,
                "above": round(over, 4),
                "holds": 0 <= over <= ABOVE,
                "terms": budget.terms(),
            }
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--max-seq", default="256,1024,4096")
    parser.add_argument("--json")
    options = parser.parse_args()
    windows = [int(word) for word in options.max_seq.split(",")]
    results = {}
    print(f"{'model':28s} {'window':>6s} {'estimate':>9s} {'peak':>9s}  above")
    for model in options.models:
        name = Path(model).stem
        results[name] = measure(model, windows)
        for row in results[name]:
            print(
                f"{name:28s} {row['window']:6d} {row['estimate'] / 2**20:5.0f} MiB "
                f"{row['peak'] / 2**20:5.0f} MiB {100 * row['above']:5.1f} %"
                f"{'' if row['holds'] else '  does not hold'}"
            )
    if options.json:
        document = {
            "machine": platform.machine(),
            "python": platform.python_version(),
            "models": results,
        }
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["holds"] for rows in results.values() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
