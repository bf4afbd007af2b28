"""A hub that refuses, breaks off, limits, lies about lengths, or cannot be reached."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from clika_runtime import __version__
from clika_runtime.errors import (
    ClikaRTError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from clika_runtime.modelverse.hub import client, storage, transfer
from clika_runtime.modelverse.hub.listing import RemoteFile
from clika_runtime.modelverse.sources import resolve
from tests.cli.harness import environment, run
from tests.hub.content import GGUF, REPO, TAKEN, dense_files, gguf_files
from tests.hub.played import Request, sha256

WEIGHTS = dense_files()["model.safetensors"]
DIGEST = sha256(WEIGHTS)


def named(cache: Path) -> list[Path]:
    """The contents that stand under their checksum."""
    return [path for path in cache.glob("*/blobs/*") if path.suffix != ".incomplete"]


def partials(cache: Path) -> list[Path]:
    return list(cache.glob("*/blobs/*.incomplete"))


def nothing_is_wrong(cache: Path) -> None:
    """No final name has content that its checksum does not fit, and nothing else lies about."""
    assert not [path for path in cache.glob("*/snapshots/**/*") if path.suffix == ".tmp"]
    assert not [path for path in cache.glob("*/snapshots/**/*") if not path.exists()]
    for path in named(cache):
        file = RemoteFile(path.name, path.stat().st_size, path.name)
        assert storage.digest_of(path, file) == path.name


def weights_were_fetched(requests: list[Request]) -> bool:
    return any("/blob/" in request.path for request in requests)


# ---------------------------------------------------------------- who may see it


def test_a_gated_repository_without_a_token(hub, cache):
    hub.add(REPO, dense_files(), gated="manual")
    with pytest.raises(UnavailableError) as caught:
        resolve(REPO, quiet=True)
    assert str(caught.value) == (
        f"'{REPO}' is gated or private on {hub.url}; set $HF_TOKEN or log in to the hub"
    )
    assert not weights_were_fetched(hub.requests)
    assert named(cache) == []


def test_a_token_that_has_not_accepted_the_terms(hub, monkeypatch):
    hub.add(REPO, dense_files(), gated="auto", token="hf_other")
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    with pytest.raises(UnavailableError, match=f"accept the terms at {hub.url}/{REPO}$"):
        resolve(REPO, quiet=True)


@pytest.mark.parametrize("way", ["HF_TOKEN", "file in HF_HOME", "HF_TOKEN_PATH"])
def test_where_a_token_comes_from(hub, monkeypatch, tmp_path, way):
    hub.add(REPO, dense_files(), gated="auto", private=True, token="hf_secret")
    if way == "HF_TOKEN":
        monkeypatch.setenv("HF_TOKEN", "hf_secret\n")
    elif way == "HF_TOKEN_PATH":
        (tmp_path / "elsewhere").write_text("hf_secret\n")
        monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "elsewhere"))
    else:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "token").write_text("hf_secret")
    assert len(resolve(REPO, quiet=True).files) == len(TAKEN)
    for request in hub.requests:
        sent = request.headers.get("authorization")
        assert sent == ("Bearer hf_secret" if request.server == "hub" else None), request


@pytest.mark.parametrize("text", ["hf_\u00e4", "hf a", "hf_\x07", "Bearer x", "hf_\u2028x"])
@pytest.mark.parametrize("way", ["variable", "file"])
def test_a_token_that_no_header_can_carry(dense, monkeypatch, tmp_path, text, way):
    if way == "variable":
        monkeypatch.setenv("HF_TOKEN", text)
    else:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "token").write_text(text)
    with pytest.raises(InvalidArgumentError, match="characters that no token has") as caught:
        resolve(REPO, quiet=True)
    assert text not in str(caught.value)
    assert dense.requests == []


def test_the_token_never_goes_to_another_host(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(UnsupportedError, match="another host"):
        resolve(f"{hub.cdn_url}/{REPO}/resolve/main/m.gguf", quiet=True)
    assert hub.requests == []


def test_telemetry_stays_out_of_the_requests(dense):
    resolve(REPO, quiet=True)
    assert {request.headers["user-agent"] for request in dense.requests} == {
        f"clika-runtime/{__version__}"
    }


def test_nothing_else_is_asked(hub, tmp_path):
    """In a process that has just begun: no request but those for the description and the files."""
    files = dense_files()
    hub.add(REPO, files, siblings=[{"rfilename": name} for name in files])
    env = environment(HF_ENDPOINT=hub.url, HF_HOME=str(tmp_path / "fresh"))
    assert run("fetch", REPO, env=env, cwd=tmp_path).status == 0
    paths = {request.path for request in hub.requests}
    expected = {f"/api/models/{REPO}", f"/blob/{DIGEST}"}
    expected |= {f"/{REPO}/resolve/{hub.repos[REPO].commit}/{name}" for name in TAKEN}
    assert paths == expected


def test_a_private_repository_looks_like_a_missing_one(hub, monkeypatch):
    hub.add(REPO, dense_files(), private=True, token="hf_secret")
    for name in (REPO, "otters/absent"):
        with pytest.raises(UnavailableError, match=r"is gated or private on .*; set \$HF_TOKEN"):
            resolve(name, quiet=True)
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    for name in (REPO, "otters/absent"):
        with pytest.raises(NotFoundError, match="no such repository on") as caught:
            resolve(name, quiet=True)
        assert caught.value.code_name == "NOT_FOUND"


@pytest.mark.parametrize(
    ("status", "headers", "kind", "message"),
    [
        (401, {"X-Error-Message": "Invalid credentials in Authorization header"},
         UnavailableError, "is gated or private"),
        (403, {}, UnavailableError, "is gated or private"),
        (403, {"X-Error-Message": "Access to this resource is disabled."},
         UnsupportedError, "is disabled on"),
        (404, {}, NotFoundError, "no such repository"),
        (400, {}, UnavailableError, "Bad request"),
        (451, {}, UnavailableError, "451"),
    ],
)  # fmt: skip
def test_refusals_by_status(dense, status, headers, kind, message):
    dense.fail("/api/models/", status=status, headers=headers)
    with pytest.raises(kind, match=message):
        resolve(REPO, quiet=True)
    assert len(dense.requests) == 1


def test_a_file_that_the_listing_names_and_the_hub_lacks(dense, cache):
    dense.fail("tokenizer.json", status=404, headers={"X-Error-Code": "EntryNotFound"})
    with pytest.raises(NotFoundError, match="lacks a file that it lists"):
        resolve(REPO, quiet=True)
    nothing_is_wrong(cache)


# ---------------------------------------------------------------- what passes when asked again


@pytest.mark.parametrize("status", [429, 500, 503, 408])
@pytest.mark.parametrize("where", ["/api/models/", "resolve/.*config.json", "/blob/"])
def test_a_failure_that_passes(dense, where, status):
    dense.fail(where, status=status, times=2)
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS


def test_a_hub_that_stays_broken(dense, cache):
    dense.fail("/blob/", status=503)
    with pytest.raises(UnavailableError, match=r"status 503 \(5 tries\); run the command again"):
        resolve(REPO, quiet=True)
    assert len(dense.asked("/blob/")) == client.TRIES
    assert not (cache / "models--otters--Otter-1B" / "refs").exists()
    nothing_is_wrong(cache)


def test_the_hub_says_how_long_to_wait(dense, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    dense.fail("/api/", status=429, headers={"Retry-After": "7"}, times=1)
    later = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 20))
    dense.fail("/api/", status=429, headers={"Retry-After": later}, times=1)
    resolve(REPO, quiet=True)
    assert waits[0] == 7
    assert 15 < waits[1] <= 20


def test_a_long_wait_ends_the_command(dense):
    dense.fail("/api/", status=429, headers={"Retry-After": "3600"})
    with pytest.raises(UnavailableError, match=r"\(429\); the hub asks to wait 3600 s"):
        resolve(REPO, quiet=True)
    assert len(dense.requests) == 1


# ---------------------------------------------------------------- connections that break


@pytest.mark.parametrize("cut", [0, 1, 1000, 4999])
def test_a_connection_that_breaks_goes_on_where_it_stopped(dense, cut):
    dense.fail("/blob/", cut=cut, times=1)
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS
    ranges = [request.headers.get("range") for request in dense.asked("/blob/")]
    assert ranges == [None, f"bytes={cut}-4999" if cut else None]


def test_a_connection_that_breaks_again_and_again_makes_progress(dense):
    dense.fail("/blob/", cut=500, times=9)
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS
    assert len(dense.asked("/blob/")) == 10


def test_files_beyond_a_segment_come_in_ranges(dense, monkeypatch):
    """As those beyond 50 GB must: no content network delivers them in one answer."""
    monkeypatch.setattr(transfer, "_SEGMENT", 2000)
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS
    ranges = [request.headers.get("range") for request in dense.asked("/blob/")]
    assert ranges == ["bytes=0-1999", "bytes=2000-3999", "bytes=4000-4999"]


def test_a_server_that_cannot_resume_starts_over(dense):
    dense.fail("/blob/", cut=3000, times=1)
    dense.fail("/blob/", ignore_range=True)
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS


def test_a_server_that_cannot_resume_and_always_breaks(dense, cache):
    for cut in (3000, 2000, 4000, 1000, 2500, 1500, 3500, 4500):
        dense.fail("/blob/", cut=cut, ignore_range=True, times=1)
    dense.fail("/blob/", cut=100, ignore_range=True)
    with pytest.raises(UnavailableError, match="breaks"):
        resolve(REPO, quiet=True)
    nothing_is_wrong(cache)


def test_an_interrupted_fetch_is_resumed_by_the_next_command(dense, cache, monkeypatch):
    monkeypatch.setattr(client, "TRIES", 1)
    dense.fail("/blob/", cut=3000, times=1)
    dense.fail("/blob/", status=503, times=1)
    with pytest.raises(UnavailableError):
        resolve(REPO, quiet=True)
    (partial,) = partials(cache)
    assert partial.read_bytes() == WEIGHTS[:3000]
    dense.requests.clear()
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS
    assert [r.headers["range"] for r in dense.asked("/blob/")] == ["bytes=3000-4999"]
    assert partials(cache) == []


@pytest.mark.parametrize("left", [b"\xff" * 2000, b"\xff" * 5000, b"\xff" * 9000])
def test_a_damaged_partial_file_is_noticed(dense, cache, left, caplog):
    folder = cache / "models--otters--Otter-1B" / "blobs"
    folder.mkdir(parents=True)
    (folder / f"{sha256(WEIGHTS)}.incomplete").write_bytes(left)
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS
    if len(left) <= 5000:
        assert "the checksum is wrong; fetching it once more" in caplog.text


def test_a_hub_that_sends_nothing_for_long(dense, monkeypatch):
    monkeypatch.setattr(client, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(client, "TRIES", 2)
    fault = dense.fail("/blob/", cut=64, hold=threading.Event(), times=1)
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS
    assert fault.hold is not None
    fault.hold.set()


# ---------------------------------------------------------------- other content than stated


def test_a_wrong_checksum_is_tried_twice_and_refused(dense, cache):
    dense.fail("/blob/", corrupt=True)
    with pytest.raises(InvalidArgumentError, match=f"expected {sha256(WEIGHTS)}") as caught:
        resolve(REPO, quiet=True)
    assert caught.value.code_name == "MALFORMED_FILE"
    assert len(dense.asked("/blob/")) == 2
    assert not (cache / "models--otters--Otter-1B" / "blobs" / sha256(WEIGHTS)).exists()
    assert partials(cache) == []
    nothing_is_wrong(cache)


def test_a_wrong_checksum_once_is_no_matter(dense):
    dense.fail("resolve/.*/config.json", corrupt=True, times=1)
    assert (resolve(REPO, quiet=True).snapshot / "config.json").read_bytes() == (
        dense_files()["config.json"]
    )


def test_a_length_beyond_the_listing_is_refused_at_once(dense, cache):
    dense.fail("/blob/", length=10**12)
    with pytest.raises(InvalidArgumentError, match=r"1000000000000 bytes, the hub's own listing"):
        resolve(REPO, quiet=True)
    nothing_is_wrong(cache)


def test_a_file_that_has_grown_is_refused(dense, cache):
    dense.repos[REPO].siblings = [
        {"rfilename": "config.json", "size": 5, "blobId": "a" * 40},
        {"rfilename": "model.safetensors", "size": 5, "blobId": "b" * 40},
    ]
    with pytest.raises(InvalidArgumentError, match="the hub's own listing says 5"):
        resolve(REPO, quiet=True)
    nothing_is_wrong(cache)


def test_a_body_without_a_length_may_not_be_longer_either(dense, cache):
    small = {"sha256": DIGEST, "size": 4000, "pointerSize": 1}
    rows = [{"rfilename": "model.safetensors", "size": 4000, "blobId": "0" * 40, "lfs": small}]
    dense.repos[REPO].siblings = rows
    dense.fail("/blob/", length=-2)
    with pytest.raises(InvalidArgumentError, match="sends more than the 4000 bytes"):
        resolve(REPO, quiet=True)
    nothing_is_wrong(cache)


def test_a_body_without_a_length_is_taken(dense):
    dense.fail("/blob/", length=-2)
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS


def test_a_length_that_is_too_short_is_taken_for_a_broken_connection(dense):
    dense.fail("/blob/", length=100)
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS
    assert len(dense.asked("/blob/")) == 50


def test_redirects_without_end(dense):
    dense.fail("resolve/", redirect=f"{dense.url}/{REPO}/resolve/main/again")
    with pytest.raises(UnavailableError, match="redirects without end"):
        resolve(REPO, quiet=True)


@pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://[", "//"])
def test_redirects_to_nowhere(dense, where, cache, monkeypatch):
    monkeypatch.setattr(client, "TRIES", 2)
    dense.fail("resolve/", redirect=where)
    with pytest.raises(ClikaRTError):
        resolve(REPO, quiet=True)
    nothing_is_wrong(cache)


# ---------------------------------------------------------------- no hub at all


def unreachable(monkeypatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


def test_a_hub_that_cannot_be_reached(hub, monkeypatch):
    unreachable(monkeypatch)
    with pytest.raises(UnavailableError, match=r"http://127.0.0.1:9 cannot be reached"):
        resolve(REPO, quiet=True)


@pytest.mark.parametrize(
    "address",
    ["nonsense", "ftp://127.0.0.1", "http://[", "http://127.0.0.1:99999", "http://", "//"],
)
def test_an_endpoint_that_is_no_address(hub, monkeypatch, address):
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(UnavailableError):
        resolve(REPO, quiet=True)


def test_the_cached_copy_is_used_with_a_warning(dense, monkeypatch, caplog):
    found = resolve(REPO, quiet=True)
    unreachable(monkeypatch)
    assert resolve(REPO, quiet=True).files == found.files
    assert "the cached copy is used" in caplog.text


def test_a_refusal_is_no_reason_to_use_the_cached_copy(dense):
    resolve(REPO, quiet=True)
    dense.fail("/api/", status=403)
    with pytest.raises(UnavailableError, match="gated or private"):
        resolve(REPO, quiet=True)


@pytest.mark.parametrize("switch", ["flag", "CLIKA_MODELVERSE_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_takes_what_is_cached_and_asks_nobody(dense, monkeypatch, switch):
    """The variables are set after everything was imported: they are read by each call."""
    found = resolve(REPO, quiet=True)
    dense.requests.clear()
    if switch != "flag":
        monkeypatch.setenv(switch, "1")
    assert resolve(REPO, offline=switch == "flag", quiet=True).files == found.files
    name = "--offline" if switch == "flag" else f"{switch}=1"
    with pytest.raises(UnavailableError, match=f"not in the cache .* and {name} forbids"):
        resolve("otters/absent", offline=switch == "flag", quiet=True)
    assert dense.requests == []


def test_a_client_that_was_started_offline_says_so(dense, tmp_path):
    """huggingface_hub reads its variable when it is imported, once."""
    code = (
        "import os\nfrom huggingface_hub import constants\ndel os.environ['HF_HUB_OFFLINE']\n"
        "from clika_runtime.modelverse import resolve\n"
        f"try:\n    resolve({REPO!r})\nexcept Exception as error:\n    print(type(error), error)"
    )
    env = environment(HF_ENDPOINT=dense.url, HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert "UnavailableError" in done.stdout, done.stderr
    assert "(or TRANSFORMERS_OFFLINE) was set when the program" in done.stdout
    assert dense.requests == []


def test_offline_knows_the_quantizations_that_are_cached(quantized):
    resolve(f"{GGUF}:Q6_K", quiet=True)
    for spec in (GGUF, f"{GGUF}:Q6_K", f"{GGUF}/Otter-1B-Q6_K.gguf"):
        assert resolve(spec, offline=True).path.read_bytes() == gguf_files()["Otter-1B-Q6_K.gguf"]
    with pytest.raises(UnavailableError, match=r"matches no option.*--offline forbids"):
        resolve(f"{GGUF}:Q8_0", offline=True)
    with pytest.raises(UnavailableError, match="not in the cache"):
        resolve(f"{GGUF}@v9", offline=True)


def test_offline_sees_that_shards_are_missing(hub):
    hub.add(REPO, dense_files(shards=2))
    found = resolve(REPO, quiet=True)
    found.weights[1].unlink()
    with pytest.raises(UnavailableError, match="1 of 2 shards are not in the cache"):
        resolve(REPO, offline=True)


def test_offline_sees_that_a_part_is_missing(hub):
    hub.add(GGUF, {f"m-0000{i}-of-00002.gguf": bytes([i]) * 2000 for i in (1, 2)})
    found = resolve(GGUF, quiet=True)
    found.weights[1].unlink()
    with pytest.raises(UnavailableError, match="only 1 of 2 parts of m are in the cache"):
        resolve(GGUF, offline=True)


def test_a_configuration_alone_is_no_cached_model(dense, monkeypatch):
    from clika_runtime.modelverse.hub.repository import open_repository
    from clika_runtime.modelverse.sources import place

    open_repository(place(REPO), quiet=True).bring(["config.json"])
    with pytest.raises(UnavailableError, match=r"its weights are not in the cache .*--offline"):
        resolve(REPO, offline=True)
    unreachable(monkeypatch)
    with pytest.raises(UnavailableError, match="not in the cache, and the hub cannot be reached"):
        resolve(REPO, quiet=True)


def test_a_link_out_of_the_cache_does_not_count(dense, tmp_path, caplog):
    found = resolve(REPO, quiet=True)
    (tmp_path / "secret").write_text("{}")
    (found.snapshot / "config.json").unlink()
    (found.snapshot / "config.json").symlink_to(tmp_path / "secret")
    again = resolve(REPO, quiet=True)
    assert "leads out of the cache" in caplog.text
    assert (again.snapshot / "config.json").read_bytes() == dense_files()["config.json"]
    assert (tmp_path / "secret").read_text() == "{}"


# ---------------------------------------------------------------- disks


def test_a_full_disk_is_refused_before_a_byte(dense, monkeypatch, cache):
    usage = shutil.disk_usage(cache.anchor)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(UnavailableError, match=rf"'{REPO}' needs \d+ bytes in .*, 1000 are free"):
        resolve(REPO, quiet=True)
    assert not dense.asked("/resolve/|/blob/")


def test_what_is_there_needs_no_space(dense, monkeypatch, cache):
    found = resolve(REPO, quiet=True)
    usage = shutil.disk_usage(cache.anchor)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=0))
    assert resolve(REPO, quiet=True).files == found.files


def test_a_disk_that_fills_up_under_way(dense, cache, monkeypatch):
    import os

    real, broken = os.fsync, [True]

    def full(handle: int) -> None:
        if broken[0] and os.fstat(handle).st_size > 4000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnavailableError, match="the disk is full at 5000 of 5000 bytes"):
        resolve(REPO, quiet=True)
    nothing_is_wrong(cache)
    broken[0] = False
    assert resolve(REPO, quiet=True).weights[0].read_bytes() == WEIGHTS


def test_a_cache_that_cannot_be_written(dense, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UnavailableError, match=r"cannot be written.*--cache-dir"):
        resolve(REPO, cache_dir=tmp_path / "file", quiet=True)


def test_a_cache_that_may_only_be_read_serves_what_it_has(dense, monkeypatch):
    import os

    found = resolve(REPO, quiet=True)

    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, "read-only")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(Path, "write_text", refuse)
    assert resolve(REPO, quiet=True).files == found.files


# ---------------------------------------------------------------- together


def test_one_failure_stops_the_others_and_keeps_their_bytes(hub, cache):
    size = 60_000
    hub.add(REPO, dense_files(shards=4, size=size))
    slow, bad = sha256(b"\0" * size), sha256(b"\3" * size)
    begun = threading.Event()
    hub.fail(f"/blob/{slow}", wait=0.003)
    hub.fail(f"/blob/{bad}", status=404, gate=begun)

    def watch() -> None:
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            if any(p.name.startswith(slow) and p.stat().st_size for p in partials(cache)):
                break
            time.sleep(0.01)
        begun.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    with pytest.raises(NotFoundError):
        resolve(REPO, quiet=True)
    watcher.join()
    (partial,) = [path for path in partials(cache) if path.name.startswith(slow)]
    assert 0 < partial.stat().st_size < size
    hub.faults.clear()
    assert len(resolve(REPO, quiet=True).weights) == 4


def test_several_files_come_at_a_time(hub):
    hub.add(REPO, dense_files(shards=6))
    hub.fail("/blob/", wait=0.004)
    resolve(REPO, quiet=True)
    assert hub.most >= 3


def test_two_fetches_at_once_share_the_work(dense):
    dense.fail("/blob/", wait=0.005)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(resolve(REPO, quiet=True))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [f.weights[0].read_bytes() for f in found] == [WEIGHTS] * 3
    assert len(dense.asked("/blob/")) == 1


def test_what_the_older_tools_left_half_done_is_taken_up(dense, cache):
    """Releases of huggingface_hub before 2.0 leave CHECKSUM.incomplete as well."""
    folder = cache / "models--otters--Otter-1B"
    (folder / "blobs").mkdir(parents=True)
    (folder / "blobs" / f"{sha256(WEIGHTS)}.incomplete").write_bytes(WEIGHTS[:1234])
    resolve(REPO, quiet=True)
    assert dense.asked("/blob/")[0].headers["range"] == "bytes=1234-4999"
