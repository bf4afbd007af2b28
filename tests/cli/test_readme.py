"""The commands of the README, as they are written there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import environment
from tests.cli.tiny import COUNTING, write_model
from tests.readme import example

# Other models than the one that stands here, an adapter of it, and what `test_bench` runs in less
# time.
_ELSEWHERE = ("ORG/REPO", "pkg:", "--lora", "--profile")


def commands() -> list[str]:
    lines = [re.sub(r"\s+# .*", "", line) for line in example("clikart-cli list").splitlines()]
    return [line for line in lines if line and not any(word in line for word in _ELSEWHERE)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    write_model(folder / "model.gguf", COUNTING, window=1024)
    (folder / "message.txt").write_text("Count from 3.\n")
    (folder / "text.txt").write_text("0123456789" * 70)
    return folder


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("line", commands())
def test_a_command_works_as_it_is_written(folder: Path, line: str) -> None:
    if "--choice" in line:
        pytest.importorskip("llguidance")
    done = subprocess.run(
        ["bash", "-c", f'clikart-cli() {{ "{sys.executable}" -m clika_runtime "$@"; }}\n{line}'],
        capture_output=True,
        text=True,
        input="1 2 3",
        timeout=300,
        cwd=folder,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "error: " not in done.stderr
    assert done.stdout or line.startswith(("source ", "clikart-cli generate-template"))
