"""``python -m tests.oracles.opinfo [names...]``: a table of what agrees with torch's samples.

A name is an OpInfo with its variant or without; no name means all that are covered. ``--open``
lists what is not covered instead.
"""

from __future__ import annotations

import sys
from collections import Counter

from . import covered, dtypes_of, entries, run

SHOWN = 3  # reasons and failures printed per operator and dtype


def main(arguments: list[str]) -> int:
    if arguments == ["--open"]:
        print("\n".join(name for name in entries() if name not in covered()))
        return 0
    names = [
        name
        for name in covered()
        if not arguments or name in arguments or entries()[name].name in arguments
    ]
    for name in arguments:
        if name not in names and name not in {entries()[found].name for found in names}:
            print(f"{name}: not covered")
    totals: dict[str, Counter[str]] = {}
    for name in names:
        for dtype in dtypes_of(entries()[name]):
            outcome = run(name, dtype)
            counts = {
                "passed": outcome.passed,
                "skipped": outcome.skipped.total(),
                "failed": len(outcome.failed),
            }
            totals.setdefault(dtype, Counter()).update(counts)
            told = "  ".join(f"{key} {value}" for key, value in counts.items() if value)
            print(f"{name:48} {dtype:9} {told}")
            for reason, count in outcome.skipped.most_common(SHOWN):
                print(f"    skipped {count}: {_line(reason)}")
            for problem in outcome.failed[:SHOWN]:
                print(f"    failed: {_line(problem)}")
    print(f"\n{len(names)} of {len(entries())} OpInfos covered")
    for dtype, counts in totals.items():
        share = counts["skipped"] / max(counts.total(), 1)
        print(
            f"{dtype:9} "
            + "  ".join(f"{k} {v}" for k, v in counts.items())
            + f"  ({share:.1%} skipped)"
        )
    return 1 if any(counts["failed"] for counts in totals.values()) else 0


def _line(text: str) -> str:
    return " ".join(text.split())[:300]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
