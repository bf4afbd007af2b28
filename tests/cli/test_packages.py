"""The source pkg:NAME[==VERSION], against an index that is a folder of wheels."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from clika_runtime.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from clika_runtime.modelverse.sources import pip, resolve, wheel
from tests.cli.harness import call
from tests.cli.wheels import make_wheel, record_line, tiny_gguf

GGUF = tiny_gguf()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes as its only index; the cache is a folder of the test as well."""
    folder = tmp_path / "index"
    folder.mkdir()
    for variable in list(os.environ):
        if variable.startswith("PIP_"):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("CLIKA_MODELVERSE_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return folder


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def no_pip(monkeypatch):
    """Any attempt to run pip fails the test."""

    def fail(*_):
        raise AssertionError("pip was run")

    monkeypatch.setattr(pip, "download", fail)


def leftovers(cache: Path) -> list[str]:
    return sorted(p.name for p in cache.rglob("*") if p.name.startswith(".") and p.name != ".lock")


# ---------------------------------------------------------------- fetching


def test_a_wheel_is_fetched_once_and_nothing_of_it_is_installed(index, cache):
    files = {
        "tiny_model/__init__.py": b"raise SystemExit('imported')",
        "tiny_model/data/tiny.Q4_1.gguf": GGUF,
        "tiny_model/README.md": b"read me",
    }
    make_wheel(index, "tiny-model", "0.1.2", files)
    first = resolve("pkg:tiny-model", cache_dir=cache, quiet=True)
    assert (first.kind, first.origin, first.found) == ("gguf", "package", "fetched")
    assert (first.package, first.version) == ("tiny-model", "0.1.2")
    assert first.path == cache / "packages" / "tiny-model" / "0.1.2" / "tiny.Q4_1.gguf"
    assert first.path.read_bytes() == GGUF
    kept = sorted(p.name for p in first.path.parent.iterdir())
    assert kept == ["source.json", "tiny.Q4_1.gguf"]
    assert leftovers(cache) == []
    assert "tiny_model" not in sys.modules

    shutil.rmtree(index)
    again = resolve("pkg:Tiny_Model==0.1.2", cache_dir=cache, offline=True)
    assert again.found == "cached"
    assert again.path == first.path


def test_a_safetensors_folder_is_taken_whole(index, cache):
    files = {
        "st_model/m/model.safetensors": b"\x02\0\0\0\0\0\0\0{}",
        "st_model/m/config.json": b'{"model_type": "llama"}',
        "st_model/m/tokenizer.json": b"{}",
        "st_model/m/evil.py": b"",
    }
    make_wheel(index, "st-model", "1.0", files)
    found = resolve("pkg:st-model", cache_dir=cache, quiet=True)
    assert found.kind == "safetensors"
    assert sorted(p.name for p in found.path.iterdir()) == [
        "config.json",
        "model.safetensors",
        "source.json",
        "tokenizer.json",
    ]


def test_the_modules_of_a_chain_keep_their_folders(index, cache):
    files = {
        "m/config.json": b"{}",
        "m/model.safetensors": b"w",
        "m/modules.json": b"[]",
        "m/1_Pooling/config.json": b'{"pooling": 1}',
        "m/2_Dense/model.safetensors": b"d",
    }
    make_wheel(index, "tiny-chain", "1.0", files)
    for offline in (False, True):
        found = resolve("pkg:tiny-chain", cache_dir=cache, offline=offline, quiet=True)
        held = {p.relative_to(found.folder).as_posix(): p.read_bytes() for p in found.files}
        assert held == {name[2:]: data for name, data in files.items()}
        assert [path.name for path in found.weights] == ["model.safetensors"]


def test_a_version_is_honoured_and_the_last_fetched_one_is_the_default(index, cache):
    for version in ("1.0", "2.0"):
        make_wheel(
            index, "vers", version, {"vers/m.gguf": tiny_gguf(payload=version.encode() * 32)}
        )
    assert resolve("pkg:vers==2.0", cache_dir=cache, quiet=True).version == "2.0"
    assert resolve("pkg:vers==1", cache_dir=cache, quiet=True).version == "1.0"
    assert resolve("pkg:vers", cache_dir=cache, offline=True).version == "1.0"
    assert resolve("pkg:vers==2.0.0", cache_dir=cache, offline=True).version == "2.0"


def test_an_unknown_package_and_version(index, cache):
    make_wheel(index, "known", "1.0", {"known/m.gguf": GGUF})
    with pytest.raises(NotFoundError, match="No matching distribution found for absent"):
        resolve("pkg:absent", cache_dir=cache, quiet=True)
    with pytest.raises(NotFoundError, match=r"known==9"):
        resolve("pkg:known==9", cache_dir=cache, quiet=True)
    assert leftovers(cache) == []


def test_a_source_archive_is_never_built(index, cache):
    import tarfile

    setup = index / "setup.py"
    setup.write_text("raise SystemExit('built')")
    with tarfile.open(index / "srcpkg-1.0.tar.gz", "w:gz") as archive:
        archive.add(setup, "srcpkg-1.0/setup.py")
    setup.unlink()
    with pytest.raises(NotFoundError, match="a wheel is needed"):
        resolve("pkg:srcpkg", cache_dir=cache, quiet=True)


def test_a_damaged_cache_entry_is_fetched_again(index, cache):
    make_wheel(index, "tiny", "1.0", {"tiny/m.gguf": GGUF})
    first = resolve("pkg:tiny", cache_dir=cache, quiet=True)
    first.path.write_bytes(GGUF[:40])
    with pytest.raises(UnavailableError, match="neither installed nor in the cache"):
        resolve("pkg:tiny", cache_dir=cache, offline=True)
    again = resolve("pkg:tiny", cache_dir=cache, quiet=True)
    assert again.found == "fetched"
    assert again.path.read_bytes() == GGUF


@pytest.mark.parametrize(
    "change",
    [
        {"weights": ["../../../../etc/passwd"]},
        {"weights": ["/etc/passwd"]},
        {"weights": []},
        {"weights": "m.gguf"},
        {"kind": "pickle"},
        {"manifest": 99},
        {"sizes": {}},
        {"version": None},
    ],
)
def test_a_hostile_manifest_is_no_cache_entry(index, cache, no_pip, change):
    entry = cache / "packages" / "tiny" / "1.0"
    entry.mkdir(parents=True)
    (entry / "m.gguf").write_bytes(GGUF)
    manifest = {
        "manifest": 1,
        "kind": "gguf",
        "version": "1.0",
        "fetched": 1.0,
        "weights": ["m.gguf"],
        "companions": [],
        "sizes": {"m.gguf": len(GGUF)},
    }
    (entry / "source.json").write_text(json.dumps(manifest))
    assert resolve("pkg:tiny", cache_dir=cache).found == "cached"
    (entry / "source.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(AssertionError, match="pip was run"):
        resolve("pkg:tiny", cache_dir=cache)


# ---------------------------------------------------------------- offline


def test_offline_forbids_the_fetch(cache, no_pip, index, monkeypatch):
    with pytest.raises(UnavailableError, match="--offline forbids"):
        resolve("pkg:tiny", cache_dir=cache, offline=True)
    monkeypatch.setenv("CLIKA_MODELVERSE_OFFLINE", "1")
    with pytest.raises(UnavailableError, match="CLIKA_MODELVERSE_OFFLINE=1 forbids"):
        resolve("pkg:tiny", cache_dir=cache)
    monkeypatch.setenv("CLIKA_MODELVERSE_OFFLINE", "0")
    monkeypatch.setenv("HF_HUB_OFFLINE", "true")
    with pytest.raises(UnavailableError, match="HF_HUB_OFFLINE=true forbids"):
        resolve("pkg:tiny", cache_dir=cache)
    assert not cache.exists()


def test_without_pip_the_message_says_what_to_do(cache, index, monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(sys, "_base_executable", "/bin/false", raising=False)
    with pytest.raises(UnavailableError, match="-m ensurepip"):
        resolve("pkg:tiny", cache_dir=cache)
    assert leftovers(cache) == []


def test_an_unwritable_cache(index, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    with pytest.raises(UnavailableError, match="the cache cannot be written"):
        resolve("pkg:tiny", cache_dir=blocked)


def test_a_full_disk_is_refused_before_writing(index, cache, monkeypatch):
    make_wheel(index, "tiny", "1.0", {"tiny/m.gguf": GGUF})
    usage = shutil.disk_usage(index)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(UnavailableError, match=r"needs \d+ bytes in .*, 1000 are free"):
        resolve("pkg:tiny", cache_dir=cache, quiet=True)
    assert leftovers(cache) == []


# ---------------------------------------------------------------- hostile wheels


def refuse(path: Path, message: str, tmp_path: Path, name: str = "evil") -> None:
    """The wheel is refused, and nothing of it appears anywhere below the target."""
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        wheel.extract(wheel.read_wheel(path, name=name), target)
    assert caught.value.code_name == "MALFORMED_FILE"
    assert path.name in str(caught.value)


@pytest.mark.parametrize(
    "member",
    [
        "../evil.gguf",
        "/tmp/evil.gguf",
        "evil/../../evil.gguf",
        "evil\\..\\evil.gguf",
        "C:/evil.gguf",
        "evil/./m.gguf",
        "evil//m.gguf",
        "evil/m.gguf ",
        "evil/nul.gguf",
        "evil/a\nb.gguf",
        "evil/" + "x" * 2000 + ".gguf",
    ],
)
def test_entry_names_that_leave_the_folder(member, tmp_path):
    path = make_wheel(tmp_path, "evil", "1.0", {member: GGUF})
    refuse(path, "entry name", tmp_path)


def test_two_entries_of_one_name(tmp_path):
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF, "evil/M.gguf": GGUF})
    refuse(path, "each name once", tmp_path)


def test_a_content_that_is_not_the_recorded_one(tmp_path):
    other = record_line("evil/m.gguf", GGUF[:-1] + b"\x01")
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF}, record=other)
    digest = hashlib.sha256(GGUF).hexdigest()
    refuse(path, f"sha256 of 'evil/m.gguf' is {digest}", tmp_path)


@pytest.mark.parametrize("record", ["", "evil/m.gguf,,\n", "evil/m.gguf,md5=abc,1\n", "\xff", '"'])
def test_a_record_without_the_digest(record, tmp_path):
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF}, record=record)
    refuse(path, "RECORD line of 'evil/m.gguf'", tmp_path)


def test_a_record_with_another_size(tmp_path):
    line = record_line("evil/m.gguf", GGUF).replace(f",{len(GGUF)}", ",17")
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF}, record=line)
    refuse(path, f"size of 'evil/m.gguf' is {len(GGUF)}, expected 17", tmp_path)


def test_an_entry_made_to_fill_the_disk(tmp_path):
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": bytes(80 << 20)})
    refuse(path, "at most 200 times the compressed size", tmp_path)


def rewrite(path: Path, field: int, size: str, value: int, member: str) -> None:
    """Overwrite a field of the central directory's entry of ``member``."""
    data = bytearray(path.read_bytes())
    position = data.index(b"PK\x01\x02")
    while True:
        length = struct.unpack_from("<H", data, position + 28)[0]
        if data[position + 46 : position + 46 + length] == member.encode():
            break
        position = data.index(b"PK\x01\x02", position + 4)
    struct.pack_into("<" + size, data, position + field, value)
    path.write_bytes(data)


def test_a_size_larger_than_the_content(tmp_path):
    line = record_line("evil/m.gguf", GGUF).replace(f",{len(GGUF)}", ",")
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF}, record=line)
    rewrite(path, 24, "I", len(GGUF) + 1000, "evil/m.gguf")
    refuse(path, "evil/m.gguf", tmp_path)


def test_a_size_smaller_than_the_content(tmp_path):
    line = record_line("evil/m.gguf", GGUF).replace(f",{len(GGUF)}", ",")
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF}, record=line)
    rewrite(path, 24, "I", 40, "evil/m.gguf")
    refuse(path, "evil/m.gguf", tmp_path)


def test_a_wrong_checksum(tmp_path):
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF})
    rewrite(path, 16, "I", zlib.crc32(GGUF) ^ 1, "evil/m.gguf")
    refuse(path, "content of 'evil/m.gguf'", tmp_path)


def test_encrypted_and_odd_compression(tmp_path):
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF})
    rewrite(path, 8, "H", 1, "evil/m.gguf")
    refuse(path, "encryption", tmp_path)
    shutil.rmtree(tmp_path / "target")
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF}, compression=zipfile.ZIP_LZMA)
    refuse(path, "stored or deflated", tmp_path)


def test_a_symbolic_link(tmp_path):
    path = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": b"/etc/passwd"})
    rewrite(path, 38, "I", 0o120777 << 16, "evil/m.gguf")
    refuse(path, "a regular file", tmp_path)


def test_files_that_are_no_wheel(tmp_path):
    path = tmp_path / "evil-1.0-py3-none-any.whl"
    path.write_bytes(b"not a zip archive")
    refuse(path, "a readable zip archive", tmp_path)
    whole = make_wheel(tmp_path / "w", "evil", "1.0", {"evil/m.gguf": GGUF}).read_bytes()
    for cut in range(0, len(whole), 37):
        path.write_bytes(whole[:cut])
        shutil.rmtree(tmp_path / "target")
        refuse(path, "archive", tmp_path)


def test_another_distribution_under_the_name(tmp_path):
    path = make_wheel(tmp_path, "other", "1.0", {"other/m.gguf": GGUF})
    refuse(path, "distribution name is other, expected evil", tmp_path)


def test_random_damage_never_gives_a_wrong_file(tmp_path):
    import random

    whole = make_wheel(tmp_path, "evil", "1.0", {"evil/m.gguf": GGUF}).read_bytes()
    path = tmp_path / "evil-1.0-py3-none-any.whl"
    generator = random.Random(7)
    for round_ in range(300):
        data = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data)
        target = tmp_path / f"t{round_}"
        target.mkdir()
        try:
            found = wheel.read_wheel(path, name="evil")
            wheel.extract(found, target)
        except (InvalidArgumentError, UnsupportedError):
            continue
        (member,) = found.option.files
        extracted = (target / member.rsplit("/", 1)[-1]).read_bytes()
        assert hashlib.sha256(extracted).digest() == found.digests[member]


def test_packages_without_a_model_or_with_several(index, cache, tmp_path):
    onnx = make_wheel(tmp_path, "onlyonnx", "1.0", {"onlyonnx/model.onnx": b"x"})
    with pytest.raises(UnsupportedError, match=r"ONNX \(onlyonnx/model.onnx\)"):
        wheel.read_wheel(onnx, name="onlyonnx")
    nothing = make_wheel(tmp_path, "nothing", "1.0", {"nothing/__init__.py": b""})
    with pytest.raises(UnsupportedError, match="holds no model file"):
        wheel.read_wheel(nothing, name="nothing")
    make_wheel(index, "two", "1.0", {"two/a.gguf": GGUF, "two/b.gguf": GGUF})
    with pytest.raises(InvalidArgumentError, match=r"2 weight options.*two/a \(gguf\), two/b"):
        resolve("pkg:two", cache_dir=cache, quiet=True)
    assert leftovers(cache) == []


# ---------------------------------------------------------------- installed


def install(wheel_path: Path, site: Path) -> None:
    with zipfile.ZipFile(wheel_path) as archive:
        archive.extractall(site)


def test_an_installed_distribution_is_used_as_it_is(tmp_path, monkeypatch, no_pip, cache):
    site = tmp_path / "site"
    files = {"inst_model/x/tiny.gguf": GGUF, "inst_model/__init__.py": b"raise SystemExit"}
    install(make_wheel(tmp_path / "w", "inst-model", "0.3", files), site)
    monkeypatch.syspath_prepend(str(site))
    found = resolve("pkg:inst-model", cache_dir=cache, offline=True)
    assert (found.found, found.version) == ("installed", "0.3")
    assert found.path == site / "inst_model" / "x" / "tiny.gguf"
    assert resolve("pkg:inst_model==0.3.0", cache_dir=cache).path == found.path
    assert "inst_model" not in sys.modules
    assert not cache.exists()
    with pytest.raises(UnavailableError):  # another version is another thing
        resolve("pkg:inst-model==0.4", cache_dir=cache, offline=True)
    found.path.unlink()
    with pytest.raises(NotFoundError, match="reinstall the package"):
        resolve("pkg:inst-model", cache_dir=cache)


def test_an_installed_package_without_a_model(tmp_path, monkeypatch, no_pip, cache):
    site = tmp_path / "site"
    install(make_wheel(tmp_path / "w", "code-only", "1", {"code_only/__init__.py": b""}), site)
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(UnsupportedError, match="the installed package code-only 1 holds no model"):
        resolve("pkg:code-only", cache_dir=cache)


# ---------------------------------------------------------------- two processes

_RACE = """
import sys
from clika_runtime.modelverse.sources import package, resolve
found = resolve("pkg:racer", cache_dir=sys.argv[1], quiet=True)
print(found.found, found.path)
"""


def test_two_processes_fetch_one_package(index, cache):
    payload = os.urandom(4 << 20)
    make_wheel(index, "racer", "1.0", {"racer/m.gguf": tiny_gguf(payload=payload)})
    command = [sys.executable, "-c", _RACE, str(cache)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | _path())
        for _ in range(3)
    ]
    answers = [process.communicate(timeout=120)[0].split() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sorted(answer[0] for answer in answers) == ["cached", "cached", "fetched"]
    assert len({answer[1] for answer in answers}) == 1
    assert Path(answers[0][1]).read_bytes() == tiny_gguf(payload=payload)
    assert leftovers(cache) == []


def _path() -> dict[str, str]:
    import clika_runtime

    return {"PYTHONPATH": str(Path(clika_runtime.__file__).parents[1])}


def test_what_a_killed_process_left_is_swept(index, cache):
    make_wheel(index, "tiny", "1.0", {"tiny/m.gguf": GGUF})
    folder = cache / "packages" / "tiny"
    stale = folder / ".fetch-abc"
    stale.mkdir(parents=True)
    (stale / "half.whl").write_bytes(b"x" * 100)
    (folder / "1.0").mkdir()  # an entry without its manifest
    found = resolve("pkg:tiny", cache_dir=cache, quiet=True)
    assert found.found == "fetched"
    assert leftovers(cache) == []


def test_verify_reads_the_files_again(index, tmp_path):
    """A file of the right size and other bytes passes a fetch and not a verification."""
    make_wheel(index, "otter-model", "1.0", {"otter_model/otter.gguf": GGUF})
    words = ("--cache-dir", tmp_path / "kept", "fetch", "pkg:otter-model")
    first = call(*words, "-q")
    assert first.status == 0, first.err
    assert call(*words, "--verify").out == first.out
    path = Path(first.out.strip())
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert call(*words).status == 0
    result = call(*words, "--verify")
    assert (result.status, result.out) == (1, "")
    assert hashlib.sha256(GGUF).hexdigest() in result.err
    assert "fetch again" in result.err
