"""Tables of the command line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from ..console import harmless

__all__ = ["csv_line", "csv_text", "table"]

# A spreadsheet takes a text that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart.

    >>> print(table(("name", "size"), [("a", "10"), ("long name", "9")]))
    name       size
    a          10
    long name  9
    """
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def csv_text(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """The rows as CSV. None is an empty cell; a text that a spreadsheet would take for a formula
    gets an apostrophe before it, as spreadsheets themselves write such texts.

    >>> print(csv_text(("name", "bytes"), [("=1+1", 2), ("a", -3)]), end="")
    name,bytes
    '=1+1,2
    a,-3
    """
    return csv_line(head) + "".join(map(csv_line, rows))


def csv_line(row: Iterable[object]) -> str:
    """One row of `csv_text`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_cell(value) for value in row])
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return "" if value is None else value
    return harmless(f"'{value}" if value.startswith(_FORMULA) and value != "-" else value)
