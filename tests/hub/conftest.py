"""The played hub, and an environment in which nothing reaches another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from clika_runtime.modelverse.hub import client
from tests.hub.content import GGUF, REPO, dense_files, gguf_files
from tests.hub.played import PlayedHub


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "home" / "hub"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedHub]:
    for name in (
        "CLIKA_MODELVERSE_OFFLINE",
        "HF_HUB_OFFLINE",
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HF_TOKEN_PATH",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "NO_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # The client of others that some tests compare with asks for more than files otherwise.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(client, "WAIT_S", 0.01)
    monkeypatch.chdir(tmp_path)
    with PlayedHub() as played:
        monkeypatch.setenv("HF_ENDPOINT", played.url)
        yield played


@pytest.fixture
def dense(hub: PlayedHub) -> PlayedHub:
    hub.add(REPO, dense_files())
    return hub


@pytest.fixture
def quantized(hub: PlayedHub) -> PlayedHub:
    hub.add(GGUF, gguf_files())
    return hub
