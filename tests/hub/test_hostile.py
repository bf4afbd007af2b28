"""Repositories and answers that were made to do harm: a typed error, the right exit status, nothing
outside of the cache, and no time or memory lost."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import random
import resource
import shutil
import threading
import time
from pathlib import Path

import pytest
from huggingface_hub import utils

from clika_runtime.errors import (
    ClikaRTError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from clika_runtime.modelverse.hub import client
from clika_runtime.modelverse.hub.storage import Storage
from clika_runtime.modelverse.sources import resolve
from tests.cli.harness import call
from tests.hub.content import GGUF, REPO, TAKEN, dense_files, gguf_files
from tests.hub.played import git_sha1, sha256

GOOD = {"rfilename": "config.json", "size": 2, "blobId": git_sha1(b"{}")}
SIZE, DIGEST = 5000, sha256(dense_files()["model.safetensors"])
WEIGHTS = {
    "rfilename": "model.safetensors",
    "size": SIZE,
    "blobId": "0" * 40,
    "lfs": {"sha256": DIGEST, "size": SIZE, "pointerSize": 1},
}


def everything_under(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


# ---------------------------------------------------------------- names

NAMES = [
    "../../../../escaped.gguf",
    "/tmp/clika-escaped.gguf",
    "a/../../escaped.gguf",
    "..\\..\\escaped.gguf",
    "C:\\escaped.gguf",
    "C:escaped.gguf",
    "nul\0.gguf",
    "line\n.gguf",
    "\x1b[2J.gguf",
    "\x9b2J.gguf",
    "\u202egpj.gguf",
    "a//b.gguf",
    "./a.gguf",
    "con.gguf",
    "dot./a.gguf",
    "",
    "x" * 2000 + ".gguf",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_leave_the_folder_are_ignored(hub, name, tmp_path, caplog):
    files = {"good-Q4_0.gguf": gguf_files()["Otter-1B-Q4_K_M.gguf"]}
    repo = hub.add(GGUF, files)
    row = {"rfilename": "good-Q4_0.gguf", "size": 0, "blobId": "0" * 40, "lfs": None}
    data = files["good-Q4_0.gguf"]
    row["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 1}
    repo.siblings = [row, {**row, "rfilename": name}]
    found = resolve(GGUF, quiet=True)
    assert found.path.name == "good-Q4_0.gguf"
    assert "1 files are ignored, their names leave the folder" in caplog.text
    outside = {p for p in everything_under(tmp_path) if not p.startswith("home")}
    assert outside == set()
    assert not Path("/tmp/clika-escaped.gguf").exists()


def test_a_repository_of_such_names_alone_holds_no_model(hub, cache):
    repo = hub.add(GGUF, {})
    repo.siblings = [{**WEIGHTS, "rfilename": name} for name in NAMES]
    with pytest.raises(UnsupportedError, match=r"holds no model file \(0 files looked at\)"):
        resolve(GGUF, quiet=True)
    assert not cache.exists()


def test_a_file_that_is_a_folder_too(hub, cache):
    files = dense_files()
    table = {"a": "x.safetensors", "b": "x.safetensors/y.safetensors"}
    del files["model.safetensors"]
    files["model-00001-of-00002.safetensors"] = b"w" * 2000
    files["x.safetensors"] = b"x" * 2000
    files["x.safetensors/y.safetensors"] = b"y" * 2000
    files["model.safetensors.index.json"] = json.dumps({"weight_map": table}).encode()
    hub.add(REPO, files)
    with pytest.raises((UnavailableError, InvalidArgumentError)):
        resolve(f"{REPO}/model-00001-of-00002.safetensors", quiet=True)


# ---------------------------------------------------------------- descriptions


@pytest.mark.parametrize(
    ("described", "siblings", "message"),
    [
        ({"sha": "../../x"}, None, "the commit is '../../x', expected 40"),
        ({"sha": None}, None, "the commit is None"),
        ({"sha": "A" * 40}, None, "the commit is"),
        ({}, [{**GOOD, "size": -1}], "the size of 'config.json' is -1"),
        ({}, [{**GOOD, "size": True}], "the size of 'config.json' is True"),
        ({}, [{**GOOD, "size": 1 << 60}], "the size of 'config.json' is 1152921504606846976"),
        ({}, [{**GOOD, "size": "2"}], "the size of 'config.json' is '2'"),
        ({}, [{**GOOD, "size": 1.5}], "the size of 'config.json' is 1.5"),
        ({}, [{**GOOD, "blobId": "../" * 13 + "x"}], "the checksum of 'config.json' is"),
        ({}, [{**GOOD, "blobId": 7}], "the checksum of 'config.json' is 7"),
        ({}, [{**WEIGHTS, "lfs": {**WEIGHTS["lfs"], "sha256": "z" * 64}}], "the checksum of"),
        ({}, [{**WEIGHTS, "lfs": {**WEIGHTS["lfs"], "size": -5}}], "the size of"),
        ({}, [{**GOOD, "rfilename": 5}], "a file name is 5"),
        ({}, [GOOD] * 100_001, "100001 files, expected at most 100000"),
    ],
)  # fmt: skip
def test_descriptions_that_make_no_sense(hub, cache, described, siblings, message):
    hub.add(REPO, dense_files(), described=described, siblings=siblings)
    with pytest.raises(InvalidArgumentError, match="answers nonsense: ") as caught:
        resolve(REPO, quiet=True)
    assert message in str(caught.value)
    assert caught.value.code_name == "MALFORMED_FILE"
    assert not cache.exists()
    assert call("fetch", REPO, "-q").status == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"7",
        b"{}",
        b'{"id": 5, "siblings": 7}',
        b'{"id": "x", "sha": "' + b"a" * 40 + b'", "siblings": [5]}',
        b'{"id": "x", "sha": "' + b"a" * 40 + b'", "siblings": [{}]}',
        b'{"id": "x", "lastModified": "yesterday"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_answers_that_are_no_description(dense, body, cache):
    dense.fail("/api/", body=body)
    with pytest.raises(ClikaRTError):
        resolve(REPO, quiet=True)
    assert not cache.exists()
    result = call("fetch", REPO, "-q")
    assert result.status in (1, 3)
    assert "internal error" not in result.err


def test_random_damage_of_a_description(dense):
    """Bytes of a good description changed at random: what comes is the model or a typed error."""
    good = json.dumps(
        {
            "id": REPO,
            "sha": dense.repos[REPO].commit,
            "siblings": [GOOD, WEIGHTS],
            "tags": ["license:mit"],
            "cardData": {"license": "mit"},
        }
    ).encode()
    generator = random.Random(5)
    fault = dense.fail("/api/", body=good)
    for _ in range(60):
        data = bytearray(good)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(32, 127)
        fault.body = bytes(data)
        result = call("fetch", REPO, "--dry", "-q")
        assert "internal error" not in result.err, bytes(data)
        assert result.status in (0, 1, 2, 3)


def test_what_the_hub_says_cannot_drive_the_terminal(dense):
    dense.fail("/api/", status=418, headers={"X-Error-Message": "tea \x9b2J pot"})
    result = call("fetch", REPO, "-q")
    assert result.status == 1
    assert "418" in result.err
    assert result.err.rstrip("\n").isprintable()


# ---------------------------------------------------------------- sizes


def test_a_configuration_of_a_gigabyte_is_refused_before_a_byte(hub, cache):
    siblings = [{**GOOD, "size": 1 << 30}, WEIGHTS]
    hub.add(REPO, dense_files(), siblings=siblings)
    for verb in ("fetch", "info"):
        result = call(verb, REPO, "-q")
        assert result.status == 1
        assert "config.json has 1073741824 bytes, more than the limit of 67108864" in result.err
    assert not hub.asked("/resolve/")
    assert not cache.exists()


def test_a_configuration_that_keeps_coming_is_cut_off(hub, cache):
    """The listing says 2 bytes, the body does not end: no more than a piece is read."""
    files = {**dense_files(), "config.json": b" " * 900}
    hub.add(REPO, files, siblings=[GOOD, WEIGHTS])
    with pytest.raises(InvalidArgumentError, match="900 bytes, the hub's own listing says 2"):
        resolve(REPO, quiet=True)
    assert not list(cache.glob("*/snapshots/*/config.json"))


def test_weights_of_a_petabyte_need_the_space(hub):
    huge = {"sha256": "f" * 64, "size": 1 << 50, "pointerSize": 1}
    hub.add(REPO, dense_files(), siblings=[GOOD, {**WEIGHTS, "lfs": huge}])
    result = call("fetch", REPO, "-q")
    assert result.status == 1
    assert f"needs {(1 << 50) + 2 + (64 << 20)} bytes" in result.err
    assert not hub.asked("/resolve/")
    assert "total: 1048576 GiB" in call("fetch", REPO, "--dry").out


# ---------------------------------------------------------------- configuration and index


@pytest.mark.parametrize(
    "config",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[]",
        b"\xff",
        b"{",
        b'{"model_type": 5}',
        b'{"architectures": {"x": 1}, "model_type": "a"}',
    ],
)
def test_configurations_that_cannot_be_read(hub, config):
    hub.add(REPO, {**dense_files(), "config.json": config})
    begun = time.monotonic()
    for words in (("info", REPO), ("info", REPO, "--json"), (REPO, "prompt", "hi")):
        result = call(*words, "-q")
        assert result.status == 1, result.err
        assert "internal error" not in result.err
        assert "config.json" in result.err
    assert call("fetch", REPO, "-q").status == 0
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("index", "kind", "message"),
    [
        (b"[]", InvalidArgumentError, "'weight_map' must be an object"),
        (b'{"weight_map": {}}', InvalidArgumentError, "'weight_map' must be an object"),
        (b'{"weight_map": []}', InvalidArgumentError, "'weight_map' must be an object"),
        (b'{"weight_map": {"a": 5}}', InvalidArgumentError, "a file name must be a string"),
        (b'{"weight_map": {"a": "../../x"}}', InvalidArgumentError, "must be a plain path"),
        (b'{"weight_map": {"a": "/etc/passwd"}}', InvalidArgumentError, "must be a plain path"),
        (b'{"weight_map": {"a": "C:\\\\x"}}', InvalidArgumentError, "must be a plain path"),
        (b'{"weight_map": {"a": "x\\u0000"}}', InvalidArgumentError, "must be a plain path"),
        (b'{"weight_map": {"a": "absent.safetensors"}}', NotFoundError, "names 1 files that"),
        (b'{"weight_map":' * 50_000, InvalidArgumentError, "nested too deeply"),
        (b"not json", InvalidArgumentError, "is not valid JSON"),
    ],
)
def test_an_index_that_lies_is_found_out_before_weights_move(hub, cache, index, kind, message):
    files = dense_files(shards=2)
    files["model.safetensors.index.json"] = index
    hub.add(REPO, files)
    with pytest.raises(kind, match=message):
        resolve(REPO, quiet=True)
    weights = {sha256(data) for name, data in files.items() if name.endswith(".safetensors")}
    assert not [r for r in hub.asked("/blob/") if r.path.rpartition("/")[2] in weights]
    assert not list(cache.glob("*/snapshots/*/*.safetensors"))
    assert call("fetch", REPO, "-q").status == 1


# ---------------------------------------------------------------- the cache itself


def test_a_snapshot_folder_that_leads_away_is_not_written_through(dense, cache, tmp_path):
    away = tmp_path / "away"
    away.mkdir()
    snapshots = cache / "models--otters--Otter-1B" / "snapshots"
    snapshots.mkdir(parents=True)
    files = dense.repos[REPO].files
    files["modules.json"] = b"[]"
    files["1_Pooling/config.json"] = b"{}"
    folder = snapshots / dense.repos[REPO].commit
    folder.mkdir()
    (folder / "1_Pooling").symlink_to(away, target_is_directory=True)
    with pytest.raises(InvalidArgumentError, match="leads out of the snapshot"):
        resolve(REPO, quiet=True)
    assert list(away.iterdir()) == []


def test_a_partial_file_that_is_a_link_is_not_written_through(dense, cache, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    blobs = cache / "models--otters--Otter-1B" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{DIGEST}.incomplete").symlink_to(precious)
    with pytest.raises(UnavailableError, match="cannot be written"):
        resolve(REPO, quiet=True)
    assert precious.read_text() == "keep me"


@pytest.mark.parametrize("text", ["../../../../etc", "x" * 5000, "\xff", "a" * 40])
def test_a_ref_that_names_no_snapshot_counts_for_nothing(dense, cache, text):
    refs = cache / "models--otters--Otter-1B" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_bytes(text.encode("latin-1"))
    with pytest.raises(UnavailableError, match="is not in the cache"):
        resolve(REPO, offline=True)
    assert len(resolve(REPO, quiet=True).files) == len(TAKEN)


# ---------------------------------------------------------------- answers


def test_a_refusal_without_end_is_read_no_further_than_its_first_words(dense):
    """A body of 32 MiB behind a refusal: the answer comes after a piece of it."""
    dense.fail("/api/", status=418, body=b"x" * (32 << 20))
    before = memory_peak()
    result = call("fetch", REPO, "-q")
    assert result.status == 1
    assert "418" in result.err
    assert len(result.err) < 1000
    assert memory_peak() - before < 16 << 20


def memory_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("path", ["/api/", "tokenizer.json"])
def test_compression_in_layers_is_refused(dense, path):
    """A few bytes of it would fill any memory."""
    bomb = gzip.compress(gzip.compress(b" " * (1 << 20)))
    dense.fail(path, status=200, headers={"Content-Encoding": "gzip, gzip"}, body=bomb)
    with pytest.raises(UnavailableError, match="coded as 'gzip, gzip', which nobody asked for"):
        resolve(REPO, quiet=True)


def test_one_compression_is_undone_up_to_the_limits(dense, cache):
    """A description of 1 GiB in 1 MiB of gzip ends at the limit; a file ends at its size."""
    bomb = gzip.compress(b" " * (80 << 20), 1)
    fault = dense.fail("/api/", status=200, headers={"Content-Encoding": "gzip"}, body=bomb)
    with pytest.raises(InvalidArgumentError, match="more than 67108864 bytes"):
        resolve(REPO, quiet=True)
    fault.times = 0
    dense.fail("tokenizer.json", status=200, headers={"Content-Encoding": "gzip"}, body=bomb)
    with pytest.raises(InvalidArgumentError, match="more than the 318 bytes that it states"):
        resolve(REPO, quiet=True)
    assert not list(cache.glob("*/snapshots/*/tokenizer.json"))


@pytest.mark.parametrize(
    "span",
    ["bytes 1-262144/9000000", "bytes 0-", "", "bytes " + "9" * 5000 + "-1/1", "items 0-1/2"],
)
def test_a_header_from_another_place_is_not_read(hub, span):
    hub.add(GGUF, gguf_files())
    hub.fail("/blob/", status=206, headers={"Content-Range": span}, body=b"GGUF" * 4096)
    for words in (("info", f"{GGUF}:Q6_K"), ("check", f"{GGUF}:Q6_K")):
        result = call(*words, "-q")
        assert result.status == 1
        assert "the hub continues with" in result.err
        assert "internal error" not in result.err


@pytest.mark.parametrize("length", ["9" * 5000, "\xb2", "-1", "1e9"])
def test_sizes_in_headers_that_are_no_numbers(hub, length):
    """A mirror that states sizes only in the headers of single files."""
    hub.add(REPO, dense_files(), siblings=[{"rfilename": n} for n in dense_files()])
    etag = git_sha1(b"{}")
    hub.fail("HEAD", status=200, headers={"X-Linked-Size": length, "X-Linked-Etag": etag})
    result = call("fetch", REPO, "-q")
    assert result.status == 1
    assert "the size of" in result.err


def test_a_token_stays_on_the_scheme_it_was_meant_for(monkeypatch):
    """A redirect from https to http on the same host is not followed with the token."""
    asked: list[str] = []

    class Session:
        def request(self, method: str, url: str, **given: object) -> httpx.Response:
            asked.append(url)
            where = {"location": url.replace("https:", "http:")}
            return httpx.Response(302, headers=where, request=httpx.Request(method, url))

    httpx = importlib.import_module(type(utils.get_session()).__module__.partition(".")[0])
    monkeypatch.setattr(utils, "get_session", Session)
    client.head("https://hub.example/org/repo/resolve/main/x", {"authorization": "Bearer hf_x"})
    assert asked == ["https://hub.example/org/repo/resolve/main/x"]


def test_a_pipe_in_the_place_of_a_partial_file(dense, cache):
    blobs = cache / "models--otters--Otter-1B" / "blobs"
    blobs.mkdir(parents=True)
    os.mkfifo(blobs / f"{DIGEST}.incomplete")
    with pytest.raises(UnavailableError, match="cannot be written"):
        resolve(REPO, quiet=True)


# ---------------------------------------------------------------- what the user names


@pytest.mark.parametrize("revision", ["/tmp/x", "a/../../b", "a\\b", "a:b", "x\x1b[2J", "nul", ""])
def test_revisions_that_leave_the_cache(dense, cache, revision):
    result = call("fetch", REPO, "--revision", revision, "-q")
    assert result.status == 2
    assert not cache.exists()
    assert not dense.requests


@pytest.mark.parametrize(
    "source",
    [
        "https://user:hunter2@huggingface.co/otters/Otter-1B",
        "https://hunter2@huggingface.co/otters/Otter-1B",
        "http://user:hunter2@127.0.0.1/otters/Otter-1B",
        "hf://user:hunter2@otters/Otter-1B",
        "ftp://user:hunter2@example.org",
    ],
)
def test_a_password_in_a_url_is_neither_used_nor_shown(dense, source):
    for words in (("fetch", source), ("info", source, "--json"), (source, "prompt", "x")):
        result = call(*words)
        assert result.status in (1, 2)
        assert "a token goes into HF_TOKEN" in result.err
        assert "hunter2" not in result.err + result.out
    assert not dense.requests


def test_a_password_in_the_endpoint_is_not_shown(dense, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "https://user:hunter2@mirror.example")
    for words in (("fetch", REPO), ("info", REPO), ("doctor",)):
        result = call(*words)
        assert "hunter2" not in result.err + result.out
    assert call("fetch", REPO).status == 1


@pytest.mark.parametrize("port", ["8443", "99999", "-1", "x"])
def test_another_port_is_another_host(dense, port):
    result = call("fetch", f"https://huggingface.co:{port}/otters/Otter-1B")
    assert result.status in (2, 3)
    assert not dense.requests


def test_a_cache_that_is_removed_meanwhile(dense, cache):
    """Somebody clears the cache while a fetch runs: a typed error, and the next fetch works."""
    gate = threading.Event()
    fault = dense.fail("/blob/", gate=gate, times=1)
    ended: list[BaseException | None] = []

    def fetch() -> None:
        try:
            resolve(REPO, quiet=True)
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=fetch)
    thread.start()
    limit = time.monotonic() + 20
    while fault.times and time.monotonic() < limit:
        time.sleep(0.01)
    shutil.rmtree(cache)
    gate.set()
    thread.join(30)
    assert isinstance(ended[0], UnavailableError), ended
    assert "cannot be written" in str(ended[0])
    assert resolve(REPO, quiet=True).path.is_dir()


def test_a_file_that_goes_between_two_looks(dense, monkeypatch):
    """It is fetched again."""
    place = resolve(REPO, quiet=True).path / "tokenizer.json"
    usable = Storage._usable

    def remove(self: Storage, path: Path) -> bool:
        found = usable(self, path)
        if path == place and found:
            path.unlink()
        return found

    monkeypatch.setattr(Storage, "_usable", remove)
    resolve(REPO, quiet=True)
    assert place.is_file()
