"""Commands of a model that stands in a repository: what it is decides before weights move."""

from __future__ import annotations

import pytest

from clika_runtime import plugins
from tests.cli.harness import call, install_family
from tests.hub.content import GGUF, REPO, dense_files, gguf_files
from tests.hub.played import PlayedHub


@pytest.fixture(autouse=True)
def families(tmp_path, monkeypatch):
    install_family(
        tmp_path / "site",
        "egret",
        model_types=("otter",),
        verbs=("prompt",),
        load="egret_model:FAMILY",
        gguf_architectures=("otter-gguf",),
    )
    install_family(tmp_path / "site", "bittern", model_types=("identity",))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("CLIKA_RT_ALLOW_PLUGINS", "egret,bittern")
    monkeypatch.setattr(plugins, "_registry", None)


def no_weights(hub: PlayedHub) -> bool:
    return not hub.asked(r"/blob/|\.safetensors")


@pytest.fixture
def filled(hub: PlayedHub) -> PlayedHub:
    hub.add(REPO, dense_files())
    hub.add(GGUF, gguf_files(), described={"gguf": {"architecture": "otter-gguf"}})
    config = b'{"model_type": "identity", "architectures": ["Identity"]}'
    hub.add("o/identity", {**dense_files(), "config.json": config})
    config = b'{"model_type": "walrus", "architectures": ["Walrus"]}'
    hub.add("o/unclaimed", {**dense_files(), "config.json": config})
    return hub


@pytest.mark.parametrize("repo", [REPO, GGUF, f"{GGUF}:Q6_K"])
def test_the_help_of_a_repository(filled, repo):
    result = call(repo, "--help")
    assert (result.status, result.err) == (0, "")
    assert result.lines()[:4] == [
        repo,
        "family=egret text->text",
        f"usage: clikart-cli {repo} <command> [options]",
        "commands the 'egret' family provides for this model",
    ]
    assert no_weights(filled)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((REPO, "chat"), 3, "family 'egret' (text->text) provides no chat (it provides: prompt)"),
        ((GGUF, "chat"), 3, "family 'egret' (text->text) provides no chat (it provides: prompt)"),
        ((REPO,), 2, "a command is missing; family 'egret' (text->text) provides: prompt"),
        ((REPO, "prompt"), 2, ""),
        ((REPO, "prompt", "hi", "--no-such-flag"), 2, "unrecognized arguments: --no-such-flag"),
        ((GGUF, "prompt", "hi"), 2, "ships 3 weight options; pick one:"),
        ((f"{GGUF}:Q2_K", "prompt", "hi"), 2, "':Q2_K' matches no option"),
        ((GGUF, "--weights", "Q2_K", "prompt", "hi"), 2, "':Q2_K' matches no option"),
        ((GGUF, "prompt", "hi", "--weights", "Q2_K"), 2, "':Q2_K' matches no option"),
        (("o/identity", "prompt", "hi"), 3, "is identity-only: it provides no commands"),
        (("o/unclaimed", "prompt", "hi"), 3, "no model template registered for"),
        (("o/absent", "prompt", "hi"), 1, "is gated or private"),
        ((REPO, "prompt", "hi", "--offline"), 1, "--offline forbids"),
    ],
)
def test_refusals_come_before_weights(filled, words, status, message):
    result = call(*words)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert no_weights(filled)
