"""Writes docs/benchmarks.md from the JSON files of benchmarks/results.

python -m benchmarks.tables [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, SCHEMA
from scripts.generated import keep_current

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
ORDER = (
    "model_speed",
    "llama_types",
    "layer_types",
    "batched_decode",
    "speculation",
    "dense",
    "two_processes",
)
HEAD = ("model", "work", "threads", "ours", "peer", "ratio", "target", "of the ceiling", "date")
TOP = """# Benchmarks

Written by `python -m benchmarks.tables` from `benchmarks/results`. Each table has a command of its
own, which measures ours and its peers in worker processes that take turns, so that all see the same
machine in the same minutes. Numbers are medians with the smallest and largest measurement. `ratio`
is ours to the best peer; where less is better (times, memory) the target is an upper bound. A
ceiling is what the machine did at best in the same run: bytes that a plain loop reads from a buffer
as large as the weights of a token, or operations in registers. A target that was not reached is
marked **missed**. A heading such as `model_speed_xeon` is the same table on another machine.

A prompt's operations are counted as every row through every layer. Of the last layer only the rows
whose logits are wanted go on behind the attention, here and in llama.cpp, so more operations are
counted than are done: of two layers that is nearly half, and percents of a dot peak pass 100.
"""


def page(folder: Path = RESULTS) -> str:
    """The text of the page.

    Files of another form than that of `harness.Report` are named at the end."""
    tables: dict[str, Any] = {}
    others = []
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and document.get("schema") == SCHEMA:
            tables[path.stem] = document
        else:
            others.append(path.name)
    # NAME_MACHINE.json is the table NAME of another machine, and stands behind the first one's.
    order = {name: place for place, name in enumerate(ORDER)}
    names = sorted(tables, key=lambda stem: (order.get(tables[stem]["name"], len(ORDER)), stem))
    parts = [TOP, *(section(tables[name], name) for name in names)]
    if others:
        listed = ", ".join(f"`{name}`" for name in others)
        told = "In forms of their own, told in [results.md](results.md)"
        parts.append(f"## Other results\n\n{told}: {listed}.\n")
    return "\n".join(parts)


def section(document: Mapping[str, Any], stem: str) -> str:
    """The heading and the table of a document. ``note`` in it is what its numbers do not say."""
    heading = stem if stem.startswith(f"{document['name']}_") else document["name"]
    releases = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    return "\n".join(
        [
            f"## {heading}",
            "",
            document["title"],
            "",
            f"`{document['command']}` on {document['machine']}; {releases}.",
            *([document["note"]] if "note" in document else []),
            "",
            *_table(HEAD, (_cells(row) for row in document["rows"])),
            "",
        ]
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    cells = [list(head)]
    cells.append(["---"] * len(cells[0]))
    cells += [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in cells]


def _cells(row: Mapping[str, Any]) -> list[str]:
    peer = row["peers"].get(row["peer"])
    target = ""
    if row["target"] is not None:
        value = f"{row['target']:.4g} {row['unit']}" if row["absolute"] else f"{row['target']:g}"
        verdict = {True: "", False: " **missed**", None: " (no peer measured)"}[row["met"]]
        target = f"{'≤' if row['lower'] else '≥'} {value}{verdict}"
    return [
        row["subject"],
        f"{row['work']}, {row['unit']}",
        str(row["threads"]),
        _spread(row["ours"]),
        f"{_spread(peer)}, {row['peer']}" if peer else "",
        "" if row["ratio"] is None else f"{row['ratio']:.2f}",
        target,
        _ceiling(row.get("ceiling")),
        row["date"],
    ]


def _spread(spread: Mapping[str, float]) -> str:
    """A median, and the ends where they differ.

    >>> _spread({"median": 2.0, "low": 1.5, "high": 3.0})
    '2 (1.5 .. 3)'
    """
    told = f"{spread['median']:.4g}"
    if spread["low"] == spread["high"]:
        return told
    return f"{told} ({spread['low']:.4g} .. {spread['high']:.4g})"


def _ceiling(ceiling: Mapping[str, Any] | None) -> str:
    if ceiling is None:
        return ""
    told = f"{ceiling['percent']:.0f} % of {ceiling['what']}"
    if ceiling["target"] is None:
        return told
    return f"{told}; ≥ {ceiling['target']:g} %{'' if ceiling['met'] else ' **missed**'}"


if __name__ == "__main__":
    sys.exit(keep_current(PAGE, page(), "python -m benchmarks.tables", sys.argv[1:]))
