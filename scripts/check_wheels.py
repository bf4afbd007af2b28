"""Builds every distribution, installs them from those files alone, and uses them outside the tree.

    python scripts/check_wheels.py [--work DIR]

For each distribution a source archive is made and the wheel is built from that archive, in a folder
of its own, so nothing can be taken from the checkout by accident. Third-party dependencies come
from the package index; every ``clika-*`` distribution must come from the files built here.
"""

from __future__ import annotations

import argparse
import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlparse

ROOT = Path(__file__).resolve().parents[1]
HEADER = "clika_runtime/plugin.h"
TARGET = "clika-runtime[families]"
ADDED = ("clika-runtime-cuda",)  # its libraries, hundreds of megabytes, stay away
FAMILIES = sorted(path.parent.name for path in ROOT.glob("families/*/pyproject.toml"))

SMOKE = """
import pathlib, sys
import clika_runtime as crt
from clika_runtime import plugins

home = pathlib.Path(sys.prefix).resolve()
families = FAMILIES
ours = ["clika_runtime", "clika_runtime_cpu", "clika_runtime_cuda"]
for module in (*ours, *(f"clika_family_{f}" for f in families)):
    where = pathlib.Path(__import__(module).__file__).resolve()
    assert home in where.parents, f"{module} was imported from {where}"
assert pathlib.Path(crt.get_include(), "clika_runtime", "plugin.h").is_file()
assert not plugins.broken(), plugins.broken()
assert {"cpu", "cuda"} <= set(plugins.backends()), plugins.backends()
assert crt.is_available("cuda") or plugins.probe("cuda")
assert set(plugins.families()) == set(families), plugins.families()
for name in families:
    plugins.load(plugins.families()[name])
assert crt.is_available("cpu")
x = crt.tensor([[1.0, -2.0], [3.0, 4.0]])
assert (crt.relu(x) + x).numpy().tolist() == [[2.0, -2.0], [6.0, 8.0]]
assert crt.matmul(x, x).numpy().tolist() == [[-5.0, -10.0], [15.0, 10.0]]
print("clika_runtime", crt.version(), "works from", home)
"""


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def run(*command: object, cwd: Path | None = None) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=cwd, env=clean_environment())


def clean_environment() -> dict[str, str]:
    """Without what would let the checkout be imported; the build tools of this Python first."""
    hidden = ("PYTHONPATH", "PYTHONHOME")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    kept["PATH"] = os.pathsep.join((sysconfig.get_path("scripts"), kept.get("PATH", "")))
    return kept


def projects() -> list[Path]:
    found = [ROOT]
    for group in ("plugins", "families"):
        found += [path.parent for path in sorted(ROOT.glob(f"{group}/*/pyproject.toml"))]
    return found


def build(project: Path, dist: Path) -> None:
    """The source archive, then the wheel from the archive unpacked elsewhere."""
    say(f"build {project.name if project != ROOT else 'the core'}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "-o", folder, project)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        (tree,) = (path for path in folder.iterdir() if path.is_dir())
        check_header(tree, project)
        run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "-o", dist, tree)
        shutil.copy(archive, dist)


def check_header(tree: Path, project: Path) -> None:
    """A native plugin's archive carries the very header of the core."""
    if project == ROOT or not (project / "CMakeLists.txt").exists():
        return
    copies = list(tree.rglob(HEADER))
    if not copies:
        raise SystemExit(f"{tree.name}: the source archive has no {HEADER}")
    ours = (ROOT / "core" / "clika_runtime" / "include" / HEADER).read_bytes()
    for copy in copies:
        if copy.read_bytes() != ours:
            raise SystemExit(f"{copy}: differs from the core's {HEADER}")


def check_contents(wheel: Path) -> None:
    """A wheel holds the package and its metadata, nothing of the tests or the build."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/")[0] for name in names}
    package = wheel.name.split("-")[0]
    expected = {package, f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
    if top != expected:
        raise SystemExit(f"{wheel.name} holds {sorted(top)}, expected {sorted(expected)}")
    natives = [name for name in names if name.endswith((".so", ".pyd", ".dylib"))]
    for stem in {name.split(".")[0] for name in natives}:
        if sum(name.split(".")[0] == stem for name in natives) != 1:
            raise SystemExit(f"{wheel.name} holds several builds of {stem}: {natives}")


def third_party(wheels: list[Path]) -> list[str]:
    """What the wheels require apart from each other and from extras, ours left out."""
    needed = set()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            metadata = email.message_from_bytes(archive.read(name))
        for requirement in metadata.get_all("Requires-Dist") or ():
            ours = re.match(r"clika[-_.]", requirement, re.IGNORECASE)
            if not ours and "extra ==" not in requirement:
                needed.add(requirement)
    return sorted(needed)


def make_environment(folder: Path) -> Path:
    venv.EnvBuilder(with_pip=True, clear=True).create(folder)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def check_report(path: Path, dist: Path) -> None:
    """Every ``clika-*`` distribution came from ``dist``."""
    ours = {}
    for item in json.loads(path.read_text())["install"]:
        name = item["metadata"]["name"].lower().replace("_", "-")
        if name.startswith("clika-"):
            ours[name] = item["download_info"]["url"]
    for name, url in ours.items():
        parts = urlparse(url)
        if parts.scheme != "file" or Path(unquote(parts.path)).parent.resolve() != dist.resolve():
            raise SystemExit(f"{name} came from {url}, not from {dist}")
    families = [f"clika-family-{name}" for name in FAMILIES]
    for name in ("clika-runtime", "clika-runtime-cpu", *families):
        if name not in ours:
            raise SystemExit(f"{TARGET} did not bring {name}; it brought {sorted(ours)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, help="an empty or absent folder (default: temporary)")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="clika-wheels-"))
    work = work.resolve()
    dist = work / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    for project in projects():
        build(project, dist)
    wheels = sorted(dist.glob("*.whl"))
    if len(wheels) != len(projects()):
        raise SystemExit(f"{len(projects())} distributions gave {len(wheels)} wheels")
    for wheel in wheels:
        check_contents(wheel)

    say("install third-party dependencies")
    bin_folder = make_environment(work / "env")
    python = bin_folder / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run(*pip, *third_party(wheels), cwd=work)
    say(f"install {TARGET} from {len(wheels)} wheels, without an index")
    report = work / "report.json"
    run(*pip, "--no-index", "--find-links", dist, "--report", report, TARGET, *ADDED, cwd=work)
    check_report(report, dist)
    run(python, "-m", "pip", "check", cwd=work)

    say("use them outside the tree")
    outside = work / "outside"
    outside.mkdir(exist_ok=True)
    run(python, "-c", SMOKE.replace("FAMILIES", repr(FAMILIES)), cwd=outside)
    run(bin_folder / "clikart-cli", "list", cwd=outside)
    run(bin_folder / "clikart-cli", "devices", cwd=outside)
    run(bin_folder / "clikart-cli", "doctor", cwd=outside)
    say("write a family, install it and run its own test")
    family = outside / "clika-family-sea-otter"
    shutil.rmtree(family, ignore_errors=True)
    run(bin_folder / "clikart-cli", "new-family", "sea-otter", cwd=outside)
    run(*pip, f"{family}[test]", cwd=outside)
    run(python, "-m", "pytest", "-q", cwd=family)
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
