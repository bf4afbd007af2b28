"""Sets the one version of every distribution, or checks that there is one.

python scripts/bump_version.py 0.2.0
python scripts/bump_version.py --check
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+|\.dev\d+)?")
DECLARED = re.compile(r'(?m)^(version|__version__) = "([^"]+)"')
PINNED = re.compile(r'("clika-[a-z0-9-]+(?:\[[^\]]*\])?==)([^"]+)(")')


def places(root: Path) -> list[Path]:
    """The files that state the version."""
    found = [root / "pyproject.toml", root / "core" / "clika_runtime" / "_version.py"]
    found += sorted(root.glob("plugins/*/pyproject.toml"))
    found += sorted(root.glob("families/*/pyproject.toml"))
    return found


def read(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    return {m[2] for m in DECLARED.finditer(text)} | {m[2] for m in PINNED.finditer(text)}


def write(path: Path, version: str) -> None:
    text = path.read_text(encoding="utf-8")
    text = DECLARED.sub(rf'\1 = "{version}"', text)
    text = PINNED.sub(rf"\g<1>{version}\g<3>", text)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", nargs="?", help="the new version, such as 0.2.0")
    parser.add_argument("--check", action="store_true", help="print the version; fail on several")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    options = parser.parse_args()
    if options.check == (options.version is not None):
        parser.error("give a version or --check")
    if options.version is not None:
        if not VERSION.fullmatch(options.version):
            parser.error(f"{options.version!r} is no version of the form 1.2.3")
        for path in places(options.root):
            write(path, options.version)
    seen = {str(path): read(path) for path in places(options.root)}
    versions = set().union(*seen.values())
    if len(versions) != 1:
        for name, found in seen.items():
            print(f"{name}: {', '.join(sorted(found))}", file=sys.stderr)
        return 1
    print(versions.pop())
    return 0


if __name__ == "__main__":
    sys.exit(main())
