"""``clikart-cli new-family``: the package that it writes is listed, and its own test passes."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import Result, call, environment, run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("new") / "my package"
    result = call("new-family", "sea-otter", "--vendor", "Otter Lab", "--output", target)
    assert (result.status, result.out, result.err) == (0, f"{target}\n", "")
    return target


def install(package: Path, site: Path) -> None:
    """As pip leaves an editable installation: the metadata, and the folder on the path."""
    info = site / "clika_family_sea_otter-0.1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: clika-family-sea-otter\nVersion: 0.1.0\n"
    )
    text = (package / "pyproject.toml").read_text()
    reader = configparser.ConfigParser()
    reader.read_string(text.replace("\n[project]", "\n[project]", 1))
    (group,) = (name for name in reader.sections() if name.startswith("project.entry-points"))
    lines = [f"{key} = {value[1:-1]}" for key, value in reader.items(group)]
    kind = group.split('"')[1]
    (info / "entry_points.txt").write_text(f"[{kind}]\n" + "\n".join(lines) + "\n")


def test_the_family_is_listed_and_healthy(package: Path, tmp_path: Path) -> None:
    install(package, tmp_path)
    env = environment(tmp_path, package)
    result = run("list", env=env)
    block = result.out[result.out.index("sea-otter runnable") :].splitlines()
    assert "  * Vendor: Otter Lab" in block
    assert "  * Model Types: sea_otter" in block
    assert "  * Commands: prompt" in block
    result = run("doctor", env=env)
    assert "  ok      sea-otter: clika-family-sea-otter 0.1.0, commands: prompt" in result.lines()


def own_test(package: Path, *site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=package,
        env=environment(*site, PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_its_own_test_passes(package: Path, tmp_path: Path) -> None:
    install(package, tmp_path)
    done = own_test(package, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_its_own_test_can_fail(package: Path, tmp_path: Path) -> None:
    """The reference of the test notices another architecture; the folder is not installed here."""
    changed = tmp_path / "changed"
    shutil.copytree(package, changed)
    code = changed / "clika_family_sea_otter" / "sea_otter.py"
    text = code.read_text()
    assert "config.rope_theta" in text
    code.write_text(text.replace("config.rope_theta", "2 * config.rope_theta"))
    done = own_test(changed)
    assert done.returncode == 1
    assert "test_prefill_and_decode_are_the_reference" in done.stdout
    assert "1 failed, 3 passed" in done.stdout


def test_its_style_is_this_projects(package: Path) -> None:
    ruff = shutil.which("ruff", path=os.path.dirname(sys.executable))
    if ruff is None:
        pytest.skip("ruff is not installed")
    for words in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [ruff, *words, "--no-cache", str(package)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout


def test_the_template_is_whole(package: Path) -> None:
    files = sorted(str(path.relative_to(package)) for path in package.rglob("*") if path.is_file())
    assert [name for name in files if "__pycache__" not in name] == [
        "README.md",
        "clika_family_sea_otter/__init__.py",
        "clika_family_sea_otter/plugin.py",
        "clika_family_sea_otter/sea_otter.py",
        "pyproject.toml",
        "tests/test_sea_otter.py",
    ]
    for name in files:
        if name.endswith((".py", ".md", ".toml")):
            assert "@" not in (package / name).read_text().replace("@pytest", "").replace(
                "@hookimpl", ""
            ).replace("@dataclass", "").replace("@classmethod", "").replace(" @ ", "")


def refused(result: Result, message: str) -> None:
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("new-family", "otter").out == "clika-family-otter\n"
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused(call("new-family", "otter"), "is there already")
    refused(call("new-family", "otter", "--output", "."), "is there already")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    (tmp_path / "link").symlink_to("nowhere")
    refused(call("new-family", "otter", "--output", "link"), "is there already")
    assert sorted(os.listdir(tmp_path)) == ["clika-family-otter", "link"]


@pytest.mark.parametrize(
    "name",
    ["", "Otter", "otter_lab", "-otter", "otter-", "a--b", "1st", "otter.x", "../otter", "a/b",
     "x" * 41, "otter\n", "class", "nul", "com1", "plugin"],
)  # fmt: skip
def test_bad_names(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("new-family", "--", name)
    assert (result.status, result.out) == (2, "")
    assert os.listdir(tmp_path) == []


def test_other_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(call("new-family", "llama"), "is a family of this project")
    refused(call("new-family", "otter", "--vendor", 'a"b'), "no printable text without quotes")
    refused(call("new-family", "otter", "--vendor", "a\nb"), "no printable text")
    refused(call("new-family", "otter", "--output", "absent/deep"), "cannot be written")
    assert os.listdir(tmp_path) == []


def test_a_failure_on_the_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def full(self: Path, *words: object, **more: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    result = call("new-family", "otter")
    assert result.status == 1 and "No space left" in result.err
    assert os.listdir(tmp_path) == []
