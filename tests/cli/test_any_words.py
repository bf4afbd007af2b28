"""Random command lines and random templates: every end is a typed one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import call
from tests.cli.tiny import COUNTING, write_model

WORDS = (
    "list", "devices", "info", "check", "generate-template", "new-family", "completion", "prompt",
    "--json", "--csv", "--all", "--full", "--schema", "--dry", "-v", "-q", "--no-color", "--force",
    "--offline", "--template", "t.json", "--max-seq", "16", "0", "--assume-device", "p=1G", "p",
    "12", "--greedy", "--max-new-tokens", "2", "--", "-", "--help", "--output", "out", "bash",
    "a\0b", "é", "\udcff", "--cache-dir", "c", "--weights", "Q4", "", "--memory-stages", "s.json",
    "--kvcache", "paged", "MODEL", "MODEL", "MODEL",
)  # fmt: skip
KEYS = (
    "json", "csv", "all", "full", "max_seq", "assume_device", "verbose", "quiet", "offline",
    "cache_dir", "weights", "template", "output", "vendor", "force", "dry", "hf_token",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    True, False, None, 1, 0, -1, 1.5, 1e400, "x", "", "a\0b", "é", "p=1G", [], ["a"], ["p=1G"], {},
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_no_words_end_in_an_internal_error(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLIKA_MODELVERSE_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    model = str(write_model(tmp_path / "model", COUNTING, template=None))
    generator = random.Random(seed)
    seen = set()
    for _ in range(300):
        keys = generator.sample(KEYS, generator.randint(0, 3))
        template = {key: generator.choice(VALUES) for key in keys}
        Path("t.json").write_text(json.dumps(template))
        words = generator.choices(WORDS, k=generator.randint(1, 6))
        words = [model if word == "MODEL" else word for word in words]
        result = call(*words, stdin=generator.choice((None, b"", b"12\n", b"\xff")))
        assert result.status in (0, 1, 2, 3), words
        assert "internal error" not in result.err, (words, template, result.err)
        assert "Traceback" not in result.err, (words, template)
        seen.add(result.status)
    assert seen >= {0, 2}
