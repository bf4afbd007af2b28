"""Writes the table of this repository's model families, which refusals read, from their
declarations.

    python scripts/generate_known_families.py [--check]

``--check`` writes nothing and ends with 1 where the table is not current.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from generated import keep_current

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "core" / "clika_runtime" / "_known_families.py"
GROUP = "clika_runtime.families"
# Python 3.10 has no reader of TOML; the two facts stand in lines of a fixed form.
_NAME = re.compile(r'^name = "([^"]+)"', re.MULTILINE)
_ENTRIES = re.compile(r'^\[project\.entry-points\."clika_runtime\.families"\]\n((?:.+\n)+)', re.M)
_ENTRY = re.compile(r'^(\S+) = "([^"]+)"', re.MULTILINE)
_HEAD = '''"""The model families of this project: distribution, model types, GGUF architectures and
architectures.

Written by scripts/generate_known_families.py; do not edit.
"""

from __future__ import annotations

__all__ = ["ROWS"]

Row = tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]

ROWS: dict[str, Row] = {
'''


def generated() -> str:
    """The table's text."""
    sys.path.insert(0, str(ROOT / "core"))
    from clika_runtime.plugins import Entry, FamilySpec, Registry

    entries = []
    for folder in sorted((ROOT / "families").glob("*/pyproject.toml")):
        text = folder.read_text(encoding="utf-8")
        name, listed = _NAME.search(text), _ENTRIES.search(text)
        if name is None or listed is None:
            raise SystemExit(f"{folder}: no name or no entry point of {GROUP}")
        sys.path.insert(0, str(folder.parent))
        entries += [
            Entry(GROUP, entry, value, name[1], "") for entry, value in _ENTRY.findall(listed[1])
        ]
    registry = Registry({}, entries)
    broken = registry.broken(GROUP)
    if broken:
        raise SystemExit("\n".join(map(str, broken)))
    lines = []
    for family, row in sorted(registry.table(FamilySpec).items()):
        spec = row.spec
        keys = (spec.model_types, spec.gguf_architectures, spec.architectures)
        lines.append(f"    {_text(family)}: (\n        {_text(row.distribution)},\n")
        lines += [f"        {_tuple(words)},\n" for words in keys]
        lines.append("    ),\n")
    return _HEAD + "".join(lines) + "}\n"


def _text(value: str) -> str:
    return f'"{value}"'


def _tuple(words: tuple[str, ...]) -> str:
    line = f"({', '.join(map(_text, words))}{',' if len(words) == 1 else ''})"
    if len(line) <= 90:
        return line
    return "(\n" + "".join(f"            {_text(word)},\n" for word in words) + "        )"


if __name__ == "__main__":
    sys.exit(keep_current(TARGET, generated(), "scripts/generate_known_families.py", sys.argv[1:]))
