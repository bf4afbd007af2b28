"""Options as a file: written whole or not at all, read with suspicion, weaker than flags."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import Result, call
from tests.cli.tiny import COUNTING, write_model


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


# ---------------------------------------------------------------- generate-template
def test_a_template_has_every_option_at_its_default(tmp_path: Path) -> None:
    path = tmp_path / "defaults.json"
    result = call("generate-template", path)
    assert (result.status, result.out, result.err) == (0, "", "")
    document = json.loads(path.read_text())
    assert document["template"] == 1
    assert document["offline"] is False and document["cache_dir"] is None
    assert document["max_seq"] is None and document["assume_device"] is None
    assert document["json"] is False and document["full"] is False
    assert not any("token" in key for key in document)
    assert call("generate-template", "-").out == path.read_text()
    assert os.listdir(tmp_path) == ["defaults.json"]


def test_a_generated_template_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "defaults.json"
    call("generate-template", path)
    for words in (("list",), ("list", "--full"), ("devices",), ("completion", "bash")):
        plain = call(*words)
        again = call(*words, "--template", path)
        assert (again.status, again.out, again.err) == (plain.status, plain.out, plain.err)


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", "mine")
    result = call("generate-template", path)
    assert result.status == 2 and "is there already; --force replaces it" in result.err
    assert path.read_text() == "mine"
    assert call("generate-template", path, "--force").status == 0
    assert json.loads(path.read_text())["template"] == 1


@pytest.mark.parametrize("name", ["", "absent/t.json", ".", "x" * 300, "file/t.json", "a\0b"])
def test_a_file_that_cannot_be_written(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    result = call("generate-template", name)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_leaves_nothing_and_fails_at_run_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = call("generate-template", tmp_path / "t.json")
    assert result.status == 1 and "No space left" in result.err
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- --template
@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), COUNTING, window=8192)


def test_options_come_from_the_file_and_flags_win(model: Path, tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.json", {"json": True, "max_seq": 77, "assume_device": ["phone=8G"]}
    )
    document = json.loads(call("check", model, "--template", path).out)
    assert document["devices"][-1]["device"] == "phone"
    assert {row["window"] for row in document["devices"]} == {77}
    document = json.loads(call("check", model, "--template", path, "--max-seq", "99").out)
    assert {row["window"] for row in document["devices"]} == {99}
    # A flag also wins over what it excludes.
    assert call("check", model, "--template", path, "--csv").out.startswith("device,memory,")
    # Before the command, it means the same.
    before = call("--template", path, "check", model)
    assert before.out == call("check", model, "--template", path).out


def test_common_options_come_from_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", {"offline": True, "cache_dir": str(tmp_path / "c")})
    result = call("info", "pkg:absent-package", "--template", path)
    assert result.status == 1 and "--offline forbids" in result.err
    path = written(tmp_path / "t.json", {"verbose": True})
    assert "[debug] option" in call("list", "--template", path).err
    assert "[debug] option" not in call("list", "-q", "--template", path).err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ("", "is not valid JSON"),
        ("[]", "expected a JSON object of options, found list"),
        ("7", "expected a JSON object of options, found int"),
        ('"' + "[" * 100000, "is not valid JSON"),
        ("[" * 100000, "nested too deeply"),
        ('{"json": true, "json": false}', "stands twice"),
        ({"jsn": True}, "'jsn' is no option; did you mean 'json'?"),
        ({"zzzzzz": 1}, "generate-template writes all keys"),
        ({"json": 1}, "'json' must be true or false, found 1"),
        ({"json": "yes"}, "'json' must be true or false"),
        ({"json": {"a": True}}, "'json' must be true or false"),
        ({"max_seq": True}, "'max_seq' must be a text or a number, found True"),
        ({"max_seq": "many"}, "'many' is not a whole number"),
        ({"max_seq": 0}, "0 is out of range"),
        ({"max_seq": [1]}, "'max_seq' must be a text or a number"),
        ({"assume_device": "phone=8G"}, "'assume_device' must be a list"),
        ({"assume_device": [{}]}, "'assume_device' must be a text or a number"),
        ({"hf_token": "secret"}, "a secret never stands in a template"),
        ({"TOKEN": None}, "a secret never stands in a template"),
        ({"template": 2}, "this release reads form 1"),
        ({"template": "1"}, "this release reads form 1"),
        ({"json": True, "csv": True}, "exclude each other"),
        ({"verbose": True, "quiet": True}, "exclude each other"),
        ({"k" * 500: 1}, "is no option"),
    ],
)
def test_broken_templates(tmp_path: Path, model: Path, content: Any, message: str) -> None:
    path = written(tmp_path / "t.json", content)
    result = call("check", model, "--template", path)
    refused(result, message)
    if not isinstance(content, str) and "exclude" not in message:
        # A wrong key is wrong for every command.
        refused(call("list", "--template", path), message)


def refused(result: Result, message: str) -> None:
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert "secret\n" not in result.err and "Traceback" not in result.err
    assert len(result.err) < 1500


def test_a_value_is_not_shown_where_a_secret_may_stand(tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", {"hub_token": "geheim-4711"})
    assert "geheim" not in call("list", "--template", path).err


def test_a_template_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with open(path, "wb") as file:
        file.truncate(1 << 30)
    refused(call("list", "--template", path), "more than the limit of")


@pytest.mark.parametrize("name", ["absent.json", ".", "file/t.json"])
def test_a_template_that_cannot_be_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    refused(call("list", "--template", name), "--template: ")


def test_a_models_own_commands_take_flags_only(tmp_path: Path, model: Path) -> None:
    path = written(tmp_path / "t.json", {})
    for words in (
        ("--template", path, model, "prompt", "12"),
        (model, "prompt", "--template", path),
    ):
        result = call(*words)
        assert result.status == 2 and "--template" in result.err


# ---------------------------------------------------------------- the report of options
def options(result: Result) -> dict[str, tuple[str, str]]:
    pattern = re.compile(r"\[debug\] option (\S+) += (.*) \(([^)]*)\)$", re.MULTILINE)
    return {name: (value, origin) for name, value, origin in pattern.findall(result.err)}


def test_the_report_names_the_origin_of_every_option(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("NO_COLOR", raising=False)
    path = written(tmp_path / "t.json", {"max_seq": 64, "csv": False})
    found = options(call("check", model, "-v", "--template", path, "--json"))
    assert found["verbose"] == ("True", "flag")
    assert found["max-seq"] == ("64", "template")
    assert found["json"] == ("True", "flag")
    assert found["assume-device"] == ("None", "default")
    assert found["offline"] == ("True", "environment, HF_HUB_OFFLINE=1")
    assert found["no-color"] == ("True", "environment, TERM=dumb")
    assert found["cache-dir"][1] == "default"
    assert options(call("check", model, "-v"))["max-seq"] == ("None", "default")


def test_the_report_of_a_models_command(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIKA_MODELVERSE_OFFLINE", "1")
    words = ("prompt", "12", "-v", "--greedy", "--max-new-tokens", "2")
    found = options(call(model, *words, "--kvcache", "continuous", "--prefill-chunk", "7"))
    assert found["kvcache"] == ("continuous", "flag")
    assert found["prefill-chunk"] == ("7", "flag")
    found = options(call(model, *words))
    assert found["kvcache"] == ("paged", "default")
    assert found["prefill-chunk"] == ("512", "default")
    assert found["offline"] == ("True", "environment, CLIKA_MODELVERSE_OFFLINE=1")
    assert found["temperature"] == ("0.0", "--greedy")
    assert found["max-new-tokens"] == ("2", "flag")
    assert found["max-seq"] == ("4096", "default")
    assert found["dtype"][1] == "checkpoint"
