"""Installs this checkout into the running environment, building each distribution once.

    python scripts/install.py [--extras test,lint] [--installer uv]

A wheel is kept under ``build/wheels``, by a digest of the files it is made of and of what shapes
the build, so that environments share it and an unchanged checkout builds nothing. The build tools
have to be in the environment (there is no build isolation).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / "build" / "wheels"
HEADERS = ROOT / "core" / "clika_runtime" / "include"
# What a build leaves behind, and what no wheel holds.
SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", ".git"})
SKIPPED_SUFFIXES = (".so", ".pyd", ".pyc", ".new")
FLAGS = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MACOSX_DEPLOYMENT_TARGET")


def sources(project: Path) -> list[Path]:
    """The files and folders that a distribution is made of."""
    if project == ROOT:
        files = ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE")
        return [*(ROOT / name for name in files), ROOT / "core"]
    return [project, HEADERS] if (project / "CMakeLists.txt").exists() else [project]


def files_of(places: list[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_file():
            yield place
            continue
        for folder, names, found in os.walk(place):
            names[:] = sorted(set(names) - SKIPPED_FOLDERS)
            for name in sorted(found):
                if not name.endswith(SKIPPED_SUFFIXES):
                    yield Path(folder, name)


def digest(project: Path) -> str:
    total = hashlib.sha256()
    shape = {name: value for name, value in os.environ.items() if name.startswith("SKBUILD_")}
    shape |= {name: os.environ.get(name, "") for name in FLAGS}
    shape |= {"abi": str(sysconfig.get_config_var("SOABI")), "platform": sysconfig.get_platform()}
    total.update(repr(sorted(shape.items())).encode())
    for path in files_of(sources(project)):
        total.update(str(path.relative_to(ROOT)).encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def projects() -> list[Path]:
    families = (ROOT / "families.txt").read_text(encoding="utf-8").splitlines()
    listed = [line.strip() for line in families if line.strip() and not line.startswith("#")]
    plugins = [path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))]
    return [ROOT, *plugins, *((ROOT / name).resolve() for name in listed)]


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Two environments that start together build one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        if os.name == "posix":
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def wheel_of(project: Path) -> Path:
    """The wheel of a distribution as it is now; built when there is none yet."""
    folder = WHEELS / f"{project.name if project != ROOT else 'core'}-{digest(project)}"
    with lock(WHEELS / "lock"):
        found = list(folder.glob("*.whl"))
        if not found:
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel"]
            command += ["--quiet", "--no-deps", "--no-build-isolation"]
            environ = dict(os.environ)
            scripts = sysconfig.get_path(
                "scripts"
            )  # the build tools, if the environment is not active
            environ["PATH"] = os.pathsep.join((scripts, environ.get("PATH", "")))
            command += ["--wheel-dir", str(folder), str(project)]
            subprocess.run(command, check=True, env=environ)
            found = list(folder.glob("*.whl"))
    return found[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", default="", help="extras of clika-runtime, comma separated")
    parser.add_argument("--installer", choices=("pip", "uv"), default="pip")
    options = parser.parse_args()
    wheels = [wheel_of(project) for project in projects()]

    record = Path(sys.prefix, "clika-installed.txt")
    state = "\n".join([options.extras, *(wheel.parent.name for wheel in wheels)])
    if record.exists() and record.read_text() == state:
        return 0
    record.unlink(missing_ok=True)
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    again = ["--force-reinstall", "--no-deps"]
    if options.installer == "uv":
        install = ["uv", "pip", "install", "--quiet", "--python", sys.executable]
        again = ["--reinstall", "--no-deps"]
    extras = f"[{options.extras}]" if options.extras else ""
    wanted = [f"clika-runtime{extras} @ {wheels[0].as_uri()}", *map(str, wheels[1:])]
    # The first run brings the dependencies; the version does not change with every edit, so what is
    # ours is put in once more by force.
    subprocess.run([*install, *wanted], check=True)
    subprocess.run([*install, *again, *map(str, wheels)], check=True)
    record.write_text(state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
