"""Examples of the README, to be run."""

from __future__ import annotations

import textwrap
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def example(line: str) -> str:
    """The indented block of the README that has a line which begins so."""
    blocks: list[list[str]] = [[]]
    for text in README.read_text(encoding="utf-8").splitlines():
        if text and not text.startswith("    "):
            blocks.append([])
        else:
            blocks[-1].append(text)
    (found,) = (block for block in blocks if any(text.strip().startswith(line) for text in block))
    return textwrap.dedent("\n".join(found))
