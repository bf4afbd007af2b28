"""A graph for people: the table that `repr` gives."""

from __future__ import annotations

from typing import Any


def table(graph: Any) -> str:
    """One row per node: name, operator, what it reads, what it gives."""
    rows = []
    for node in graph.nodes():
        kind = node.op_code.name if node.op_code is not None else "Input"
        reads = ", ".join(value.name for value in node.inputs)
        gives = ", ".join(
            f"{value.name}: {value.spec().dtype}{list(value.shape)}" for value in node.outputs
        )
        rows.append((node.name, kind, reads, gives))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = [f"ModelGraph '{graph.name}': {len(rows)} nodes, outputs {graph.output_names()}"]
    lines += [
        "  "
        + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False))
        + f"  -> {row[3]}"
        for row in rows
    ]
    return "\n".join(lines)
