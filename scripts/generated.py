"""What commands share that write one file of this repository from its sources."""

from __future__ import annotations

from pathlib import Path

__all__ = ["keep_current"]


def keep_current(path: Path, text: str, command: str, words: list[str]) -> int:
    """Writes the file, or with the word ``--check`` says whether it is current; the exit status.
    ``command`` is what writes it."""
    if words != ["--check"]:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{path} is not current; run {command}")
    return 1
