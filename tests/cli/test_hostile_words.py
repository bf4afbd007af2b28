"""Names and texts that were made to do harm on the command line: a typed refusal with the right
status, nothing that drives the terminal, no endless reading and no endless message."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import shutil
import struct
import subprocess
from pathlib import Path

import gguf
import pytest

import clika_runtime as crt
from clika_runtime.errors import ClikaRTError, InvalidArgumentError
from clika_runtime.io import save_npy
from clika_runtime.modelverse.auto import AutoTokenizer
from clika_runtime.modelverse.console import harmless, without_secrets
from clika_runtime.modelverse.fit import check
from clika_runtime.modelverse.registry import ModelRegistry
from clika_runtime.modelverse.sources import resolve
from tests.cli.harness import Result, call, command, environment
from tests.cli.tiny import COUNTING, write_model
from tests.fuzz import seeds
from tests.unit.io import raw_gguf as raw

DRIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLIKA_MODELVERSE_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(home: Path) -> Path:
    return write_model(home / "model", COUNTING)


def checked(result: Result, *statuses: int) -> Result:
    assert result.status in statuses
    assert "internal error" not in result.err
    assert "Traceback" not in result.err
    assert not DRIVES.search(result.out + result.err)
    assert len(result.out) + len(result.err) < 50_000
    return result


# ---------------------------------------------------------------- sources


@pytest.mark.parametrize(
    "source",
    [
        "~no-such-user/model",
        "~no-such-user",
        "\x1b[31mred",
        "a/b:\x1b[2J",
        "a/b@\x1b]0;title\x07",
        "\u202egnp.gguf",
        "pkg:" + "a" * 10**6,
        "x" * 10**6,
        "a/" * 10**5,
        "https://" + "a" * 10**5 + "/b/c",
        "loop",
        "pipe",
        "/dev/zero",
        "C:\\models\\x.gguf",
        "\\\\server\\share",
        "a/con.gguf",
    ],
    ids=lambda source: repr(source[:20]),
)
def test_sources(home: Path, source: str) -> None:
    (home / "loop").symlink_to("loop")
    os.mkfifo(home / "pipe")
    for words in (
        ("info", source),
        ("info", source, "--json"),
        ("check", source),
        ("fetch", source, "--dry"),
        (source, "prompt", "hi"),
    ):
        checked(call(*words), 1, 2, 3)


def test_a_folder_with_links_to_themselves(model: Path) -> None:
    (model / "loop").symlink_to("loop")
    (model / "up").symlink_to(".")
    assert checked(call("info", model), 0).out.startswith(f"{model}\nfamily=llama")


@pytest.mark.parametrize("folder", ["~no-such-user/c", "a\0b", "", " ", "/dev/null/x", "\x1b[2J"])
def test_cache_folders(home: Path, folder: str) -> None:
    for words in (("fetch", "a/b"), ("info", "a/b"), ("info", "pkg:no-such-thing"), ("list",)):
        checked(call(*words, "--cache-dir", folder), 0, 1, 2)
    checked(call("doctor", "--cache-dir", folder), 0, 1)


def test_an_empty_cache_folder_is_not_the_working_directory(home: Path) -> None:
    result = checked(call("fetch", "a/b", "--cache-dir", ""), 2)
    assert "the cache folder '' is no name of a folder" in result.err


@pytest.mark.parametrize(
    ("name", "said"),
    [("pipe", "not a regular file"), ("/dev/zero", "not a regular file"), (".", "a directory"),
     ("large", "more than the limit of 1048576"), ("bytes", "can't decode"), ("none", "no such")],
)  # fmt: skip
def test_lists_of_sources_that_cannot_be_read(home: Path, name: str, said: str) -> None:
    os.mkfifo(home / "pipe")
    (home / "large").write_bytes(b"a\n" * 10**6)
    (home / "bytes").write_bytes(b"\xff\xfe\x00")
    assert said in checked(call("info", f"@{name}"), 2).err


def test_a_list_of_sources_names_no_list(home: Path) -> None:
    (home / "itself").write_text("@itself\n\x1b[2J\n")
    checked(call("info", "@itself"), 1)


def test_names_of_new_packages(home: Path) -> None:
    for output in ("a\0b", "/dev/null/x", "~no-such-user/x"):
        checked(call("new-family", "otter", "--output", output), 2)


def test_what_is_no_file_is_not_replaced(model: Path) -> None:
    """A pipe stands here for the devices that an administrator could replace."""
    os.mkfifo(model / "pipe")
    (model / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        for words in (("generate-template",), ("generate-template", "--force")):
            assert "no regular file" in checked(call(*words, model / name), 2).err
        words = (model, "prompt", "0", "--memory-stages", model / name)
        assert "cannot be written" in checked(call(*words), 2).err
        with pytest.raises(InvalidArgumentError, match="no regular file"):
            save_npy(crt.zeros((2,)), model / name)
        assert (model / name).is_fifo()


def test_assumed_devices(model: Path) -> None:
    for text in ("x" * 10**5 + "=1G", "x=" + "9" * 5000, "=-1G", "x=1e400G", "x=0", "\x1b=1G"):
        checked(call("check", model, "--assume-device", text), 2)


# ---------------------------------------------------------------- words of models


def test_words_of_a_model_drive_no_terminal(model: Path) -> None:
    """Names of tensors and of files, texts of the configuration."""
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "\x1b[2Jllama", "architectures": ["\u202eX"], "torch_dtype": "\x9b2J"}
    (model / "config.json").write_text(json.dumps(config))
    for words in (("info",), ("info", "--csv"), ("check",)):
        checked(call(*words, model), 0, 1, 3)
    named = model.rename(model.with_name("\x1b[2J model"))
    checked(call("info", named), 3)
    checked(call("fetch", named / "no\x1bfile.gguf"), 1)


def test_names_of_tensors(model: Path) -> None:
    path = model / "model.safetensors"
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    for name in ("\x1b[2J", "\0", "a" * 10**6):
        odd = {**header, name: header["lm_head.weight"]}
        del odd["lm_head.weight"]
        text = json.dumps(odd).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
        for words in (("check", model), (model, "prompt", "0"), ("info", model)):
            checked(call(*words), 0, 1)


def test_a_table_holds_no_formula(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": '=HYPERLINK("http://x","y")', "torch_dtype": "@SUM(1)\n-1"}
    (model / "config.json").write_text(json.dumps(config))
    result = checked(call("info", "--csv", model), 0)
    (row,) = csv.DictReader(io.StringIO(result.out))
    assert row["model_type"] == '\'=HYPERLINK("http://x","y")'
    assert row["precision"] == "'@SUM(1) -1"


def test_a_reply_drives_no_terminal(home: Path) -> None:
    """On a terminal the escape is shown; behind a pipe the reply comes as it is."""
    chain = {"0": "\x1b", "\x1b": "[", "[": "2", "2": "J", "J": "<|im_end|>"}
    model = write_model(home / "model", chain, template=None)
    words = (str(model), "prompt", "0", "--greedy", "-q")
    assert call(*words).out == "\x1b[2J\n"
    shown = bytearray()

    def keep(descriptor: int) -> bytes:
        data = os.read(descriptor, 1024)
        shown.extend(data)
        return data

    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment(NO_COLOR="1"))
    try:
        assert pty.spawn(command(*words), keep, lambda descriptor: b"") == 0
    finally:
        os.environ.clear()
        os.environ.update(before)
    assert shown.decode().split() == ["\\x1b[2J"]


def test_what_is_shown() -> None:
    assert harmless("a\tb\nc é 漢 \u200f") == "a\tb\nc é 漢 \u200f"
    assert harmless("\x1b\x9b\r\x00\u202e\udcff") == "\\x1b\\x9b\\r\\x00\\u202e\\udcff"
    assert harmless("x" * 30, 20) == "x" * 20 + "... (10 characters left out)"
    assert without_secrets("to https://u:p@h/x@y, ssh://k@h") == "to https://...@h/x@y, ssh://...@h"


# ---------------------------------------------------------------- GGUF, Python


@pytest.mark.parametrize("key", ["tokens", "merges"])
@pytest.mark.parametrize(("kind", "value"), [(4, b"\1\0\0\0"), (8, raw.text("ab"))])
def test_a_vocabulary_that_is_no_list(home: Path, key: str, kind: int, value: bytes) -> None:
    whole = home / "whole.gguf"
    seeds.write_gguf(whole)
    reader = gguf.GGUFReader(whole)
    field = reader.fields[f"tokenizer.ggml.{key}"]
    data = whole.read_bytes()
    end = max(
        tensor.field.offset + sum(part.nbytes for part in tensor.field.parts)
        for tensor in reader.tensors
    )
    after = field.offset + sum(part.nbytes for part in field.parts)
    head = data[: field.offset] + raw.pair(f"tokenizer.ggml.{key}", kind, value) + data[after:end]
    path = home / "model.gguf"
    path.write_bytes(head + bytes(-len(head) % 32) + data[reader.data_offset :])
    for words in (("check", path), (path, "prompt", "0")):
        assert f"tokenizer.ggml.{key} must be" in checked(call(*words), 1).err
    checked(call("info", path, "--json"), 0, 1)


def test_words_of_great_length(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "a" * 10**6, "torch_dtype": "b" * 10**6}
    (model / "config.json").write_text(json.dumps(config))
    checked(call("info", model, "--json"), 0)


def test_arguments_of_python_calls(model: Path) -> None:
    for options in ({"revision": 5}, {"weights": 5}, {"cache_dir": "a\0b"}, {"cache_dir": ""}):
        with pytest.raises(InvalidArgumentError):
            resolve("a/b", **options)  # type: ignore[arg-type]
    for assumed in ("x=1G", [5]):
        with pytest.raises(InvalidArgumentError):
            check(str(model), assume=assumed)  # type: ignore[arg-type]
    for source in ("x" * 10**6, "a\0b", "~no-such-user/x", "https://me:pw@hub.example/x"):
        for read in (AutoTokenizer.from_pretrained, ModelRegistry.builtin().open):
            with pytest.raises(ClikaRTError):
                read(source)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_runs_and_splits_no_file_name(home: Path) -> None:
    names = sorted(
        ["a b.gguf", "*", "$(touch ran)", "`touch ran`", "x;touch ran", "'\"", "\x1b[2J"]
    )
    folder = home / "files"
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    script = call("completion", "bash").out
    ask = 'COMP_WORDS=(clikart-cli info ""); COMP_CWORD=2; _clikart_cli\n'
    ask += "printf '%s\\0' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "-c", script + ask], capture_output=True, text=True, cwd=folder, timeout=60
    )
    assert done.stderr == ""
    given = done.stdout.split("\0")[:-1]
    assert sorted(given[-len(names) :]) == names
    assert sorted(os.listdir(folder)) == names


def test_a_failure_of_a_plugin_drives_no_terminal(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is raised within a command is shown harmlessly, with ``-v`` too, and whatever it is."""

    class Mute(BaseException):
        def __str__(self) -> str:
            raise RuntimeError

    def fail(**options: object) -> str:
        raise failure

    monkeypatch.setattr("clika_runtime.modelverse.cli.listing.catalog_text", fail)
    failure: BaseException = ValueError("\x1b[2J")
    for words in (("list",), ("list", "-v")):
        result = call(*words)
        assert result.status == 1
        assert "\\x1b[2J" in result.err
        assert not DRIVES.search(result.err)
    failure = Mute()
    assert call("list").err.startswith("error: internal error: Mute: Mute (a bug of")
