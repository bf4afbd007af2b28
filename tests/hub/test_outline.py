"""Reading what a remote model is from its small files and the headers of its weights."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from clika_runtime.errors import ClikaRTError, InvalidArgumentError, NotFoundError
from clika_runtime.io import open_gguf, open_safetensors
from clika_runtime.modelverse.hub import outline as module
from clika_runtime.modelverse.hub.outline import outline
from clika_runtime.modelverse.hub.repository import open_repository
from clika_runtime.modelverse.sources import place, resolve
from tests.cli.wheels import tiny_gguf
from tests.hub.content import GGUF, REPO, dense_files

safetensors = pytest.importorskip("safetensors.numpy")
gguf = pytest.importorskip("gguf")


def opened(spec: str):
    return open_repository(place(spec), quiet=True)


def big_gguf(path: Path, words: int) -> bytes:
    """Written by the gguf package: a vocabulary that makes the header large."""
    writer = gguf.GGUFWriter(path, "otter")
    writer.add_array("tokenizer.ggml.tokens", [f"token {i}" for i in range(words)])
    writer.add_tensor("a.weight", np.arange(4096, dtype=np.float32).reshape(64, 64))
    writer.add_tensor("b.weight", np.ones((32, 64), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


@pytest.mark.parametrize("words", [10, 20_000, 60_000])
def test_a_gguf_header_of_any_size(hub, tmp_path, words):
    data = big_gguf(tmp_path / "made.gguf", words)
    hub.add(GGUF, {"made-F16.gguf": data})
    repository = opened(GGUF)
    with outline(repository, repository.choose()) as found:
        there = open_gguf(found.path)
        whole = open_gguf(tmp_path / "made.gguf")
        assert dict(there.metadata) == dict(whole.metadata)
        assert dict(there.tensors) == dict(whole.tensors)
        assert found.weight_bytes == len(data)
        folder = found.path.parent
        del there
    assert not folder.exists()
    moved = sum(  # bytes of ranges that were asked for
        1 + int(r.headers["range"].split("-")[1]) - int(r.headers["range"][6:].split("-")[0])
        for r in hub.asked("GET /blob/")
    )
    assert moved <= max(module._FIRST, 4 * (len(data) - 20_480))


def test_the_parts_of_a_split(hub, tmp_path):
    """A checkpoint that the gguf package splits itself."""
    writer = gguf.GGUFWriter(tmp_path / "s.gguf", "otter", split_max_tensors=1)
    for name in "abc":
        writer.add_tensor(f"{name}.weight", np.full((64, 64), 2, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    parts = {path.name: path.read_bytes() for path in tmp_path.glob("s-*.gguf")}
    assert len(parts) == 3
    hub.add(GGUF, parts)
    repository = opened(GGUF)
    with outline(repository, repository.choose()) as found:
        assert sorted(open_gguf(found.path).tensors) == ["a.weight", "b.weight", "c.weight"]
    whole = resolve(GGUF, quiet=True)
    assert (open_gguf(whole.path).view("b.weight")[:4], len(whole.weights)) == (b"\0\0\0@", 3)


@pytest.mark.parametrize("rows", [8, 6000])
def test_the_headers_of_safetensors(hub, tmp_path, rows):
    names = [f"model-{i:05d}-of-00002.safetensors" for i in (1, 2)]
    files, table = dense_files(), {}
    del files["model.safetensors"]
    for part, name in enumerate(names):
        arrays = {f"layer.{part}.{i}.weight": np.ones((2, 3), np.float16) for i in range(rows)}
        files[name] = safetensors.save(arrays)
        table |= dict.fromkeys(arrays, name)
    files["model.safetensors.index.json"] = json.dumps({"weight_map": table}).encode()
    hub.add(REPO, files)
    repository = opened(REPO)
    with outline(repository, repository.choose()) as found:
        tensors = open_safetensors(found.entry).tensors
        assert len(tensors) == 2 * rows
        assert {tensor.shape for tensor in tensors.values()} == {(2, 3)}
        assert json.loads((found.folder / "config.json").read_text())["model_type"] == "otter"
        assert found.companions[-1].stat().st_size == len(files[found.companions[-1].name])
    assert not hub.asked(r"resolve/.*/tokenizer\.json")


def test_what_is_cached_is_read_where_it_is(dense):
    found = resolve(REPO, quiet=True)
    dense.requests.clear()
    repository = opened(REPO)
    with outline(repository, repository.choose()) as there:
        assert there.files == found.files
    assert [request.path for request in dense.requests] == [f"/api/models/{REPO}"]


def test_without_headers_no_weight_is_asked_for(dense):
    repository = opened(REPO)
    with outline(repository, repository.choose(), headers=False) as found:
        assert found.weight_bytes == 5000
    assert not dense.asked("/blob/|model.safetensors")


def test_a_server_without_ranges(hub, tmp_path):
    data = big_gguf(tmp_path / "made.gguf", 20_000)
    hub.add(GGUF, {"made.gguf": data})
    hub.fail("/blob/", ignore_range=True)
    repository = opened(GGUF)
    with outline(repository, repository.choose()) as found:
        assert len(open_gguf(found.path).tensors) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"no gguf at all" * 500,
        b"GGUF" + b"\0" * 5000,
        b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + b"\xff" * 5000,
        tiny_gguf()[:70] + b"\xff" * 3000,
    ],
)
def test_damaged_headers_end_in_a_typed_error(hub, data):
    hub.add(GGUF, {"m.gguf": data})
    repository = opened(GGUF)
    with pytest.raises(ClikaRTError), outline(repository, repository.choose()) as found:
        open_gguf(found.path)


def test_a_header_without_end_is_given_up(hub, monkeypatch):
    """An array of 2^40 empty strings in a file said to be huge: what is read is bounded."""
    monkeypatch.setattr(module, "_MAX_HEADER", 1 << 20)
    key = b"k"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + key
    head += struct.pack("<IIQ", 9, 8, 1 << 40)
    hub.add(GGUF, {"m.gguf": head + bytes(3 << 20)})
    repository = opened(GGUF)
    with (
        pytest.raises(InvalidArgumentError, match=r"the header of m\.gguf takes .* the limit is"),
        outline(repository, repository.choose()),
    ):
        pass


def test_a_safetensors_header_that_claims_too_much(hub, monkeypatch):
    monkeypatch.setattr(module, "_MAX_HEADER", 1 << 20)
    files = dense_files()
    files["model.safetensors"] = struct.pack("<Q", 1 << 21) + bytes(3 << 20)
    hub.add(REPO, files)
    repository = opened(REPO)
    with (
        pytest.raises(InvalidArgumentError, match="the limit is"),
        outline(repository, repository.choose()),
    ):
        pass


def test_an_index_is_judged_in_outline_too(hub):
    files = dense_files(shards=2)
    del files["model-00002-of-00002.safetensors"]
    hub.add(REPO, files)
    repository = opened(REPO)
    with (
        pytest.raises(NotFoundError, match="names 1 files that the repository lacks"),
        outline(repository, repository.choose()),
    ):
        pass
