"""``new-family NAME``: writes a package with a model family of one's own, and its test.

The package is complete: a decoder over the shared modules, its registration and a test that sets it
beside NumPy. What differs in the new architecture is changed from there."""

from __future__ import annotations

import argparse
import keyword
import os
import re
import shutil
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

from ...._version import __version__
from .. import EXIT_OK
from ..arguments import UsageError

#: Template -> the file of the package; NAME stands for the family's module name.
FILES = {
    "README.md.txt": "README.md",
    "pyproject.toml.txt": "pyproject.toml",
    "init.py.txt": "clika_family_NAME/__init__.py",
    "plugin.py.txt": "clika_family_NAME/plugin.py",
    "model.py.txt": "clika_family_NAME/NAME.py",
    "test.py.txt": "tests/test_NAME.py",
}
DEFAULTS = {"vendor": "unknown"}
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40
# Names that Windows keeps for devices.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{n}{i}" for n in ("com", "lpt") for i in range(10))}
_VENDOR = re.compile(r"[^\"\\\x00-\x1f\x7f]{1,80}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="the family's name: lower-case letters, digits and '-'"
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="the folder to make (default: ./clika-family-NAME); it must not be there yet",
    )
    parser.add_argument("--vendor", metavar="TEXT", help="who publishes the models")


def run(arguments: Any) -> int:
    given = vars(arguments)
    name, vendor = given["name"], given.get("vendor", DEFAULTS["vendor"])
    check_name(name)
    if not vendor.isprintable() or not _VENDOR.fullmatch(vendor):
        raise UsageError(f"--vendor: {vendor!r:.100} is no printable text without quotes")
    target = Path(given.get("output") or f"clika-family-{name}")
    write(name, vendor, target)
    print(target)
    return EXIT_OK


def check_name(name: str) -> None:
    """A usage error for a name that is no family's, no module's or no folder's."""
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError(
            f"'{name:.80}' is no name of a family: at most {_LONGEST} lower-case letters, digits "
            "and single '-', a letter first"
        )
    if keyword.iskeyword(module) or module in _DEVICES or module in ("plugin", "tests"):
        raise UsageError(f"'{name}' is a reserved word; take another name")
    from .... import _known

    if name in _known.FAMILIES:
        raise UsageError(f"'{name}' is a family of this project; take another name")


def write(name: str, vendor: str, target: Path) -> None:
    """Writes the package into a folder beside ``target`` and renames it, so that it is there whole
    or not at all."""
    module = name.replace("-", "_")
    words = {
        "@NAME@": name,
        "@MODULE@": module,
        "@CLASS@": "".join(part.capitalize() for part in name.split("-")),
        "@VENDOR@": vendor,
        "@VERSION@": __version__,
    }
    try:
        if "\0" in str(target):
            raise ValueError("a name has no NUL")
        if os.path.lexists(target):
            raise UsageError(f"{target}: is there already; name another folder with --output")
        scratch = Path(tempfile.mkdtemp(prefix=".new-family-", dir=target.absolute().parent))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{target}: cannot be written: {reason}") from error
    try:
        scratch.chmod(0o755)
        templates = resources.files(__name__).joinpath("files")
        for template, file in FILES.items():
            text = templates.joinpath(template).read_text(encoding="utf-8")
            for word, value in words.items():
                text = text.replace(word, value)
            path = scratch / file.replace("NAME", module)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
