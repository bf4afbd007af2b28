"""Identity, configuration and the memory law of repositories: headers move, weights do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clika_runtime.modelverse as mv
from tests.cli.harness import call
from tests.cli.tiny import COUNTING, write_model
from tests.hub.content import GGUF, REPO
from tests.hub.played import PlayedHub


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", COUNTING, window=8192)


@pytest.fixture
def llama(hub: PlayedHub, model: Path) -> PlayedHub:
    hub.add(REPO, {path.name: path.read_bytes() for path in model.iterdir()})
    return hub


def test_identity_and_configuration_of_a_repository(llama: PlayedHub, model: Path) -> None:
    registry = mv.ModelRegistry.builtin()
    assert registry.open(REPO) == registry.open(model)
    assert mv.AutoConfig.from_pretrained(REPO) == mv.AutoConfig.from_pretrained(model)


def test_check_before_anything_is_fetched(llama: PlayedHub, model: Path, cache: Path) -> None:
    here = json.loads(call("check", model, "--json", "--max-seq", "777").out)
    there = call("check", REPO, "--json", "--max-seq", "777")
    assert there.status == 0, there.err
    assert json.loads(there.out)["devices"] == here["devices"]
    largest = max(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    assert largest < (model / "model.safetensors").stat().st_size
    assert "fits" in call("check", f"https://huggingface.co/{REPO}").out.splitlines()[0]


def test_check_of_unsettled_weights(quantized: PlayedHub) -> None:
    """The table of options is the refusal; one that is selected is judged, or refused by name."""
    result = call("check", GGUF)
    assert (result.status, result.out) == (2, "")
    assert "weight options; pick one:" in result.err
    for words in ((f"{GGUF}:Q8_0",), (GGUF, "--weights", "Q8_0")):
        result = call("check", *words)
        assert result.status == 3 and "no model template registered" in result.err
    assert call("check", GGUF, "--weights", "Q9_9").status == 2


def test_check_of_what_is_not_there(hub: PlayedHub) -> None:
    result = call("check", "nobody/nothing")
    assert (result.status, result.out) == (1, "")
    assert "nobody/nothing" in result.err
    result = call("--offline", "check", "nobody/nothing")
    assert result.status == 1 and "--offline forbids" in result.err
