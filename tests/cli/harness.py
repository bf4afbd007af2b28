"""Running the command line: in a process of its own as users do, or quickly in this one."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clika_runtime

CORE = Path(clika_runtime.__file__).parents[1]


@dataclass
class Result:
    status: int
    out: str
    err: str

    def lines(self) -> list[str]:
        return self.out.splitlines()


def environment(*folders: Path | str, **variables: str) -> dict[str, str]:
    """This process's environment without the switches that change the command line; ``folders``
    first on the path."""
    dropped = ("CLIKA_", "HF_", "PIP_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped) and k != "NO_COLOR"}
    path = (
        [str(f) for f in folders] + [str(CORE)] + os.environ.get("PYTHONPATH", "").split(os.pathsep)
    )
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    kept["PIP_CONFIG_FILE"] = os.devnull
    kept.update(variables)
    return kept


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "clika_runtime", *map(str, words)]


def run(
    *words: str | Path,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 120,
    stdin: bytes = b"",
) -> Result:
    done = subprocess.run(
        command(*words),
        capture_output=True,
        env=env or environment(),
        cwd=cwd,
        timeout=timeout,
        input=stdin,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


class Terminal(io.StringIO):
    """A standard input that nobody has piped anything into."""

    def isatty(self) -> bool:
        return True


def call(*words: str | Path, stdin: bytes | None = None) -> Result:
    """Like ``run``, in this process: quick, and blind to signals, pipes and imports. Without
    ``stdin`` standard input is a terminal."""
    from clika_runtime.modelverse.cli import main

    given: Any = Terminal() if stdin is None else io.TextIOWrapper(io.BytesIO(stdin), "ascii")
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    before, sys.stdin = sys.stdin, given
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([str(word) for word in words])
            out.flush()
    finally:
        sys.stdin = before
    return Result(status, out.buffer.getvalue().decode(), err.getvalue())


def install_plugin(site: Path, name: str, version: str, group: str, entry: str, code: str) -> None:
    """A throw-away distribution: a module and the metadata with its entry point, as pip would leave
    them."""
    stem = name.replace("-", "_")
    sys.modules.pop(stem, None)  # one of that name from another test's folder
    site.mkdir(parents=True, exist_ok=True)
    (site / f"{stem}.py").write_text(textwrap.dedent(code))
    info = site / f"{stem}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry} = {stem}\n")
    (info / "RECORD").write_text(f"{stem}.py,,\n")


FAMILY = """
from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import FamilySpec

@hookimpl
def clika_register_families(register):
    register(FamilySpec({fields}))
"""


def install_family(site: Path, name: str, **fields: object) -> None:
    """A family plugin ``clika-family-NAME`` 1.2.3 whose declaration has the given fields."""
    declared: dict[str, object] = {
        "name": name,
        "contract": 1,
        "vendor": "Otter Lab",
        "tasks": ("text-generation",),
        "modalities": ("text -> text",),
        "model_types": (name,),
        **fields,
    }
    text = ", ".join(f"{key}={value!r}" for key, value in declared.items())
    code = FAMILY.format(fields=text)
    install_plugin(site, f"clika-family-{name}", "1.2.3", "clika_runtime.families", name, code)
