"""``list`` with sixty families installed: metadata and declarations, no code of a model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.list_families import install
from tests.cli.harness import environment

COUNT = 60
PROBE = """
import sys
from clika_runtime.modelverse.cli import main
status = main(sys.argv[1:])
def heavy(name):
    return (
        name.partition(".")[0] in ("numpy", "torch", "tokenizers", "jinja2", "rich", "httpx",
                                   "huggingface_hub", "requests", "platformdirs", "safetensors")
        or name.startswith("clika_runtime._native.")
        or name.endswith("_model")
        or name.startswith("clika_family_") and name.endswith((".llama", ".qwen", ".gemma"))
    )
print(status, sorted(filter(heavy, sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("form", [(), ("--json",), ("--all", "--full")])
def test_nothing_heavy_is_imported(tmp_path: Path, form: tuple[str, ...]) -> None:
    install(tmp_path, COUNT)
    done = subprocess.run(
        [sys.executable, "-c", PROBE, "list", *form],
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        timeout=60,
    )
    assert done.stderr == "0 []\n"
    if form == ("--json",):
        families = {row["family"]: row for row in json.loads(done.stdout)["families"]}
        shown = [name for name in families if name.startswith("animal")]
        assert families["animal59"]["runnable"] is True
    else:
        shown = [line for line in done.stdout.splitlines() if line.startswith("animal")]
    assert len(shown) == COUNT
