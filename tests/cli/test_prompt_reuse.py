"""``SOURCE prompt`` with drafts and with sessions in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clika_runtime.io import open_safetensors
from tests.cli.harness import call, run
from tests.cli.test_documents import validated
from tests.cli.tiny import COUNTING, REPLY, write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers every conversation with ``Paris!``."""
    return write_model(tmp_path_factory.mktemp("models") / "paris", REPLY)


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "counter", COUNTING, template=None)


def document(*words: object) -> dict[str, Any]:
    result = call(*words, "--json", "-q")
    assert (result.status, result.err) == (0, "")
    return validated("prompt", result.out)


def test_drafts_change_no_reply(counter: Path) -> None:
    words = (counter, "prompt", "01234567890123", "--max-new-tokens", "60")
    plain = document(*words)
    none = {"steps": 0, "drafted_tokens": 0, "accepted_tokens": 0}
    assert plain["drafts"] == none
    looked_up = document(*words, "--prompt-lookup-num-tokens", "7")
    drafted = document(*words, "--assistant-model", counter, "--num-assistant-tokens", "3")
    for found in (looked_up, drafted):
        assert found["text"] == plain["text"] == "456789" + "0123456789" * 5 + "0123"
        drafts = found["drafts"]
        assert drafts["steps"] and drafts["drafted_tokens"] == drafts["accepted_tokens"] > 0
    result = call(*words, "--prompt-lookup-num-tokens", "7")
    assert "drafted tokens were right, in" in result.err


def test_a_conversation_goes_on_in_a_file(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "talk.safetensors"
    words = ("--session", path, "--system", "You know towns.")
    first = document(folder, "prompt", "Name the capital of France.", *words)
    assert (first["text"], first["usage"]["cached_tokens"]) == ("Paris!", 0)
    second = document(folder, "prompt", "And once more?", "--session", path)
    assert second["text"] == "Paris!"
    # All that the first turn computed but the token that nobody has asked about.
    usage = first["usage"]
    assert second["usage"]["cached_tokens"] == usage["total_tokens"]
    assert second["usage"]["prompt_tokens"] > usage["total_tokens"]
    third = run(folder, "prompt", "And again?", "--session", path)
    assert third.out == "Paris!\n" and "prompt tokens were in the cache" in third.err
    whole = second["usage"]["prompt_tokens"]
    assert len(open_safetensors(path).view("tokens")) // 4 > whole
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--num-assistant-tokens", "3"), "--num-assistant-tokens needs --assistant-model"),
        (("--prompt-lookup-num-tokens", "16"), "--prompt-lookup-num-tokens"),
        (("--assistant-model", "x", "--num-assistant-tokens", "0"), "--num-assistant-tokens"),
        (("--session", "s", "--tools", "t.json"), "--session and --tools exclude each other"),
        (("--session", "."), "is a directory; name a file"),
        (("--session", ""), "is no name of a file"),
        (("--assistant-model", "./none.gguf"), "none.gguf"),
    ],
    ids=str,
)
def test_wrong_flags(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.json").write_text('[{"name": "book", "parameters": {"type": "object"}}]')
    result = call(folder, "prompt", "hi", *words)
    assert result.status in (1, 2) and message in result.err
    assert result.out == ""


def test_sessions_that_do_not_fit(folder: Path, counter: Path, tmp_path: Path) -> None:
    path = tmp_path / "talk.safetensors"
    result = call(counter, "prompt", "3", "--session", path, "-q")
    assert (result.status, result.out) == (
        3,
        "",
    ) and "--session needs a chat template" in result.err
    path.write_text("no session")
    result = call(folder, "prompt", "hi", "--session", path, "-q")
    assert result.status == 1 and "talk.safetensors" in result.err
    assert path.read_text() == "no session"
    path.unlink()
    assert call(folder, "prompt", "Name the capital.", "--session", path, "-q").status == 0
    result = call(folder, "prompt", "hi", "--session", path, "--system", "x", "-q")
    assert result.status == 2 and "has begun already" in result.err
    result = call(folder, "prompt", "hi", "--session", path, "--dtype", "bfloat16", "-q")
    assert result.status == 1 and "its 'dtype' is 'float32'" in result.err
    other = write_model(tmp_path / "other", {**REPLY, "!": "?"}, window=128)
    result = call(other, "prompt", "hi", "--session", path, "-q")
    assert result.status == 1 and "the session is of another model" in result.err


def test_an_assistant_of_other_tokens(folder: Path, tmp_path: Path) -> None:
    from tests.unit.modelverse.models import write_model as write_other

    write_other(tmp_path / "other")
    result = call(folder, "prompt", "hi", "--assistant-model", tmp_path / "other", "-q")
    assert result.status == 1 and "an assistant needs the tokenizer of the model" in result.err


def test_bench_without_the_cache(counter: Path) -> None:
    words = ("--isl", "40", "--osl", "2", "--concurrency", "1", "--warmup", "0", "-q")
    warm = call(counter, "bench", *words)
    cold = call(counter, "bench", *words, "--no-prefix-cache")
    head = warm.out.split("\n")[0].split(",").index("admitted_tok")
    assert warm.out.split("\n")[1].split(",")[head] == "32"
    assert cold.out.split("\n")[1].split(",")[head] == ""
