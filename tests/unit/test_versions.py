"""One version everywhere: every pyproject, the pins between them, the package itself."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import clika_runtime as crt

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]
PROJECTS += sorted(ROOT.glob("families/*/pyproject.toml"))


def version_of(path):
    return re.search(r'^version = "([^"]+)"', path.read_text(), re.MULTILINE)[1]


@pytest.mark.parametrize("path", PROJECTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_same_version(path):
    assert version_of(path) == crt.__version__ == crt.version()


@pytest.mark.parametrize("path", PROJECTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_pins_between_our_distributions(path):
    for name, pin in re.findall(r'"(clika-[a-z0-9-]+)(?:\[[^\]]*\])?(==[^"]+)"', path.read_text()):
        assert pin == f"=={crt.__version__}", name


def test_families_are_all_listed():
    listed = {
        line.strip()
        for line in (ROOT / "families.txt").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    }
    there = {f"./families/{p.parent.name}" for p in ROOT.glob("families/*/pyproject.toml")}
    assert listed == there


def test_the_extra_all_leaves_out_torch_cuda_and_our_tools():
    text = (ROOT / "pyproject.toml").read_text()
    section = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    extras = re.findall(r"^(\w+) = \[", section, re.MULTILINE)
    (everything,) = re.findall(r'^all = \["clika-runtime\[([^\]]+)\]"\]', section, re.MULTILINE)
    left_out = {"torch", "cuda", "test", "lint", "all"}  # CUDA: gigabytes for machines with a card
    assert sorted(everything.split(",")) == sorted(set(extras) - left_out)
    assert left_out <= set(extras)


def test_bump_script_changes_every_place(tmp_path):
    for path in [*PROJECTS, ROOT / "core/clika_runtime/_version.py"]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    script = ROOT / "scripts" / "bump_version.py"
    command = [sys.executable, str(script), "--root", str(tmp_path)]
    done = subprocess.run([*command, "2.3.4"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for path in PROJECTS:
        text = (tmp_path / path.relative_to(ROOT)).read_text()
        assert version_of(tmp_path / path.relative_to(ROOT)) == "2.3.4"
        assert f"=={crt.__version__}" not in text
    assert '"2.3.4"' in (tmp_path / "core/clika_runtime/_version.py").read_text()
    done = subprocess.run([*command, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "2.3.4")
    done = subprocess.run([*command, "two"], capture_output=True, text=True)
    assert done.returncode == 2
