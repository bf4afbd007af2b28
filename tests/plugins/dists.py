"""Throw-away distributions, built as wheels and installed by pip into a folder of their own."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Dist:
    """A distribution: modules by path, entry points by group."""

    name: str
    modules: dict[str, str]
    entry_points: dict[str, dict[str, str]] = field(default_factory=dict)
    version: str = "1.0"

    def wheel(self, folder: Path) -> Path:
        stem = f"{self.name.replace('-', '_')}-{self.version}"
        info = f"{stem}.dist-info"
        files = {path: textwrap.dedent(text) for path, text in self.modules.items()}
        files[f"{info}/METADATA"] = (
            f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n"
        )
        files[f"{info}/WHEEL"] = (
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        files[f"{info}/entry_points.txt"] = "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in rows.items())
            for group, rows in self.entry_points.items()
        )
        path = folder / f"{stem}-py3-none-any.whl"
        record = io.StringIO()
        writer = csv.writer(record, lineterminator="\n")
        with zipfile.ZipFile(path, "w") as wheel:
            for name, text in files.items():
                data = text.encode()
                wheel.writestr(name, data)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                writer.writerow([name, f"sha256={digest.decode()}", len(data)])
            writer.writerow([f"{info}/RECORD", "", ""])
            wheel.writestr(f"{info}/RECORD", record.getvalue())
        return path


class Site:
    """A folder with installed distributions, seen by the processes that `run` starts."""

    def __init__(self, root: Path) -> None:
        self.path = root / "site"
        self.wheels = root / "wheels"
        self.path.mkdir()
        self.wheels.mkdir()

    def install(self, *dists: Dist) -> None:
        """Unpacks the wheels: all that installing means for a wheel without scripts."""
        for dist in dists:
            with zipfile.ZipFile(dist.wheel(self.wheels)) as wheel:
                wheel.extractall(self.path)

    def pip_install(self, *dists: Dist) -> None:
        self.pip_install_wheels(*(dist.wheel(self.wheels) for dist in dists))

    def pip_install_wheels(self, *wheels: Path) -> None:
        command = [sys.executable, "-m", "pip", "--isolated", "install", "--quiet"]
        command += ["--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
        done = subprocess.run(
            [*command, "--target", str(self.path), *map(str, wheels)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def run(self, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("CLIKA_RT_")}
        env |= {"PYTHONPATH": str(self.path), "PYTHONDONTWRITEBYTECODE": "1", **environ}
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            env=env,
            timeout=120,
        )

    def ask(self, code: str, **environ: str) -> Any:
        """Runs code that leaves its answer in ``answer``."""
        tail = "\nimport json, sys\nsys.stdout.write('\\n' + json.dumps(answer))"
        done = self.run(textwrap.dedent(code) + tail, **environ)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


FAMILY = """
from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import FamilySpec


@hookimpl
def clika_register_families(register):
    register(FamilySpec(name={name!r}, contract={contract!r}, vendor="Otter Lab",
                        tasks=("text-generation",), modalities=("text+image -> text",),
                        verbs=("prompt",), model_types=({name!r},), architectures=("OtterLM",),
                        gguf_architectures=({name!r},), license_page="https://otter.example",
                        load="{package}.model:FAMILY"))
"""


def family(
    name: str = "otter",
    *,
    dist: str = "otter-family",
    contract: object = 1,
    plugin: str | None = None,
    model: str = "FAMILY = 'the otter family'\n",
    entry: str | None = None,
    version: str = "1.0",
) -> Dist:
    package = dist.replace("-", "_")
    text = FAMILY.format(name=name, contract=contract, package=package)
    return Dist(
        dist,
        {
            f"{package}/__init__.py": "",
            f"{package}/plugin.py": plugin if plugin is not None else text,
            f"{package}/model.py": model,
        },
        {"clika_runtime.families": {entry or name: f"{package}.plugin"}},
        version,
    )
