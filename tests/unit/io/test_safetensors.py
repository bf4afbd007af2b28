"""The safetensors reader and writer against the ``safetensors`` package and against wrong files."""

from __future__ import annotations

import gc
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.io import open_safetensors, write_safetensors
from clika_runtime.io.safetensors import find_index

ARRAYS: dict[str, np.ndarray] = {
    "bytes": np.arange(7, dtype=np.uint8),
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "half": np.ones((2, 2), np.float16),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(3.5),
    "flags": np.array([True, False]),
    "long": np.array([-1, 2**40], np.int64),
    "unsigned": np.array([2**63], np.uint64),
}


def rows(arrays: dict[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...], Any]]:
    return {name: (array.dtype.name, array.shape, array) for name, array in arrays.items()}


def raw(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(dtype: str, shape: list[Any], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_reads_what_the_package_writes(tmp_path: Path) -> None:
    path = tmp_path / "theirs.safetensors"
    save_file(ARRAYS, path, metadata={"format": "np"})
    file = open_safetensors(path)
    assert dict(file.metadata) == {"format": "np"} and set(file.tensors) == set(ARRAYS)
    for name, array in ARRAYS.items():
        info = file.tensors[name]
        assert (info.dtype, info.shape, info.scheme) == (array.dtype.name, array.shape, 0)
        assert bytes(file.view(name)) == array.tobytes()


def test_the_package_reads_what_we_write(tmp_path: Path) -> None:
    path = tmp_path / "ours.safetensors"
    write_safetensors(path, rows(ARRAYS), {"format": "pt", "ü": "日本"})
    theirs = load_file(path)
    for name, array in ARRAYS.items():
        assert theirs[name].dtype == array.dtype and np.array_equal(theirs[name], array)
    with safe_open(path, "np") as opened:
        assert opened.metadata() == {"format": "pt", "ü": "日本"}
    file = open_safetensors(path)
    assert list(file.tensors) == list(ARRAYS)  # the order given, not an order of ours
    for name, array in ARRAYS.items():
        assert file.tensors[name].offset % max(1, array.itemsize) == 0
        assert bytes(file.view(name)) == array.tobytes()


def test_empty_file_of_tensors(tmp_path: Path) -> None:
    path = tmp_path / "none.safetensors"
    write_safetensors(path, {})
    assert not open_safetensors(path).tensors and load_file(path) == {}


def test_narrow_dtypes(tmp_path: Path) -> None:
    path = tmp_path / "narrow.safetensors"
    values = {
        "f4": ("float4_e2m1", (2, 4), bytes(4)),
        "f6": ("float6_e3m2", (8,), bytes(6)),
        "f8": ("float8_e4m3", (3,), bytes(3)),
        "bf": ("bfloat16", (2,), bytes(4)),
    }
    write_safetensors(path, values)
    file = open_safetensors(path)
    assert {name: info.dtype for name, info in file.tensors.items()} == {
        name: value[0] for name, value in values.items()
    }


def test_views_outlive_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_safetensors(path, rows(ARRAYS))
    file = open_safetensors(path)
    view = file.view("weight")
    file.drop_pages("weight")
    del file
    gc.collect()
    assert view.readonly and bytes(view) == ARRAYS["weight"].tobytes()


GOOD = {"a": entry("F32", [2], 0, 8)}
WRONG: dict[str, tuple[object, bytes, str]] = {
    "not an object": ([1], b"", r"the header starts with byte 91, expected '\{'"),
    "not JSON": (b"{nope", b"", "the header is not valid JSON"),
    "not UTF-8": (b'{"\xff":1}', b"", "the header is not UTF-8"),
    "too deep": (b'{"a":' + b"[" * 200_000, b"", "nested too deeply"),
    "number too long": (b'{"a":' + b"9" * 5000 + b"}", b"", "not valid JSON"),
    "key twice": (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
        b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        b"\0",
        "the key 'a' stands twice",
    ),
    "entry": ({"a": 3}, b"", "expected the keys dtype, shape and data_offsets, found 3"),
    "entry keys": ({"a": {"dtype": "F32"}}, b"", r"found \['dtype'\]"),
    "more keys": ({"a": {**GOOD["a"], "x": 1}}, bytes(8), "expected the keys"),
    "shape": ({"a": entry("F32", ["2"], 0, 8)}, bytes(8), r"list of sizes, found \['2'\]"),
    "shape negative": ({"a": entry("F32", [-2], 0, 8)}, bytes(8), "list of sizes"),
    "shape bool": ({"a": entry("F32", [True, 2], 0, 8)}, bytes(8), "list of sizes"),
    "shape float": ({"a": entry("F32", [2.0], 0, 8)}, bytes(8), "list of sizes"),
    "rank": ({"a": entry("F32", [1] * 65 + [2], 0, 8)}, bytes(8), "list of sizes"),
    "shape huge": ({"a": entry("F32", [2**62, 4], 0, 8)}, bytes(8), "is impossible"),
    "shape huge and empty": ({"a": entry("F32", [2**62, 2**62, 0], 0, 0)}, b"", "is impossible"),
    "offsets": ({"a": entry("F32", [2], 0, 8) | {"data_offsets": [0]}}, bytes(8), r"found \[0\]"),
    "offsets turned": ({"a": entry("F32", [2], 8, 0)}, bytes(8), "do not lie in the data section"),
    "past the end": ({"a": entry("F32", [4], 0, 16)}, bytes(8), "data section of 8 bytes"),
    "byte count": (
        {"a": entry("F32", [3], 0, 8)},
        bytes(8),
        r"shape \[3\] of F32 needs 12 bytes, data_offsets \[0, 8\] hold 8",
    ),
    "half a byte": ({"a": entry("F4", [3], 0, 2)}, bytes(2), "3 elements of F4 do not fill whole"),
    "gap": (
        {"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 2, 3)},
        bytes(3),
        "'b' starts at 2, expected 1: it leaves a gap after 'a'",
    ),
    "overlap": (
        {"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)},
        bytes(3),
        "'b' starts at 1, expected 2: it overlaps 'a'",
    ),
    "first gap": ({"a": entry("U8", [1], 1, 2)}, bytes(2), "leaves a gap after the header"),
    "bytes left": (GOOD, bytes(9), "the tensors hold 8 bytes, the data section has 9"),
    "metadata": (GOOD | {"__metadata__": {"a": 1}}, bytes(8), "must map names to strings"),
    "metadata list": (GOOD | {"__metadata__": []}, bytes(8), "must map names to strings"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_refused_by_field(tmp_path: Path, case: str) -> None:
    header, data, message = WRONG[case]
    path = raw(tmp_path / "wrong.safetensors", header, data)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        open_safetensors(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.code_name == "MALFORMED_FILE"


def test_unknown_dtypes_are_refused_by_name(tmp_path: Path) -> None:
    for dtype, message in (("Q7", "unknown dtype 'Q7'; known are BOOL"), ("C64", "complex64")):
        path = raw(tmp_path / "t.safetensors", {"a": entry(dtype, [1], 0, 8)}, bytes(8))
        with pytest.raises(UnsupportedError, match=message):
            open_safetensors(path)
    path = raw(tmp_path / "t.safetensors", {"a": {**GOOD["a"], "dtype": ["F32"]}}, bytes(8))
    with pytest.raises(UnsupportedError, match=r"unknown dtype \['F32'\]"):
        open_safetensors(path)


@pytest.mark.parametrize("length", [0, 1, 10**6, 2**63, 2**64 - 1])
def test_header_lengths_are_bounded(tmp_path: Path, length: int) -> None:
    path = raw(tmp_path / "length.safetensors", GOOD, bytes(8), length)
    with pytest.raises(InvalidArgumentError, match=f"the header's length is {length} bytes"):
        open_safetensors(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = raw(tmp_path / "whole.safetensors", GOOD, bytes(8)).read_bytes()
    path = tmp_path / "cut.safetensors"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(InvalidArgumentError):
            open_safetensors(path)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        open_safetensors(tmp_path / "absent.safetensors")
    assert caught.value.code_name == "NO_SUCHFILE"
    with pytest.raises(NotFoundError, match=r"holds no \.safetensors file"):
        open_safetensors(tmp_path)
    with pytest.raises(NotFoundError, match="no such directory"):
        find_index(tmp_path / "absent")


# ------------------------------------------------------------ shards
def write_shards(folder: Path, weight_map: dict[str, Any] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    for index, name in enumerate(("one.safetensors", "two.safetensors")):
        array = np.full(4, index, np.float32)
        write_safetensors(folder / name, rows({f"t{index}": array}), {"part": str(index)})
    default = {"t1": "two.safetensors", "t0": "one.safetensors"}
    chosen = default if weight_map is None else weight_map
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 32}, "weight_map": chosen}))
    return path


def test_shards_are_one_mapping(tmp_path: Path) -> None:
    index = write_shards(tmp_path / "model")
    for path in (index, index.parent):
        file = open_safetensors(path)
        assert list(file.tensors) == ["t1", "t0"] and len(file.files) == 2
        assert np.frombuffer(file.view("t1"), np.float32).tolist() == [1.0] * 4
        assert np.frombuffer(file.view("t0"), np.float32).tolist() == [0.0] * 4


ODD_NAMES = [
    "../one.safetensors",
    "/etc/one.safetensors",
    "a/../one.safetensors",
    "./one.safetensors",
    "a//one.safetensors",
    "",
    "..",
    "c:one.safetensors",
    "a\\one.safetensors",
    "one\0.safetensors",
    "one\n.safetensors",
    "n" * 2000 + ".safetensors",
    3,
    None,
    ["one.safetensors"],
    "model.safetensors.index.json",  # itself
    "config.json",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=repr)
def test_names_that_leave_the_directory_are_refused(tmp_path: Path, name: object) -> None:
    index = write_shards(tmp_path / "model", {"t0": name})
    (tmp_path / "one.safetensors").write_bytes((index.parent / "one.safetensors").read_bytes())
    with pytest.raises(InvalidArgumentError, match=r"file name|\.safetensors file"):
        open_safetensors(index)


def test_missing_shard(tmp_path: Path) -> None:
    index = write_shards(tmp_path / "model", {"t0": "one.safetensors", "t9": "nine.safetensors"})
    with pytest.raises(NotFoundError, match=r"nine.safetensors: the shard is missing") as caught:
        open_safetensors(index)
    assert str(index) in str(caught.value) and caught.value.code_name == "NO_SUCHFILE"


def test_tensor_that_is_not_in_its_shard(tmp_path: Path) -> None:
    index = write_shards(tmp_path / "model", {"t0": "one.safetensors", "t7": "two.safetensors"})
    with pytest.raises(InvalidArgumentError, match=r"weight_map says 't7' is in 'two.safetensors'"):
        open_safetensors(index)


def test_a_shard_that_is_an_index(tmp_path: Path) -> None:
    index = write_shards(tmp_path / "model", {"t0": "loop.safetensors"})
    (index.parent / "loop.safetensors").write_bytes(index.read_bytes())
    with pytest.raises(InvalidArgumentError, match="the header's length"):
        open_safetensors(index)


@pytest.mark.parametrize("text", ["{}", "[]", '{"weight_map": []}', '{"weight_map": {}}', "{", ""])
def test_wrong_indexes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError):
        open_safetensors(path)


def test_choice_of_a_file_in_a_directory(tmp_path: Path) -> None:
    assert find_index(tmp_path) is None
    write_safetensors(tmp_path / "other.safetensors", {})
    assert find_index(tmp_path) == str(tmp_path / "other.safetensors")
    write_safetensors(tmp_path / "third.safetensors", {})
    with pytest.raises(InvalidArgumentError, match="name the one to read"):
        find_index(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", {})
    assert find_index(tmp_path) == str(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    assert find_index(tmp_path) == str(tmp_path / "model.safetensors.index.json")


# ------------------------------------------------------------ writing
def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_safetensors(path, rows(ARRAYS))
    before = path.read_bytes()

    class Unreadable:
        def __buffer__(self, flags: int) -> memoryview:
            raise RuntimeError("the device is gone")

    with pytest.raises((RuntimeError, TypeError)):
        write_safetensors(path, {"a": ("float32", (1,), Unreadable())})
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [path.name]


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for name, row, error, message in (
        (
            "a",
            ("float32", (3,), bytes(8)),
            InvalidArgumentError,
            "needs 12 bytes, the buffer has 8",
        ),
        ("a", ("complex64", (1,), bytes(8)), UnsupportedError, "'complex64' cannot be stored"),
        ("__metadata__", ("uint8", (1,), b"x"), InvalidArgumentError, "cannot be named"),
        ("a", ("float32", (2,), np.zeros(4, np.float32)[::2]), InvalidArgumentError, "contiguous"),
    ):
        with pytest.raises(error, match=message):
            write_safetensors(path, {name: row})
    with pytest.raises(InvalidArgumentError, match="must map names to strings"):
        write_safetensors(path, {}, {"a": 1})  # type: ignore[dict-item]
    with pytest.raises(NotFoundError, match="no such directory"):
        write_safetensors(tmp_path / "absent" / "a.safetensors", {})
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        (tmp_path / "folder").mkdir()
        write_safetensors(tmp_path / "folder", {})
    assert [item.name for item in tmp_path.iterdir()] == ["folder"]


def test_what_could_not_be_read_again_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.safetensors"
    for names, metadata in (({"\ud800": ARRAYS["weight"]}, {}), ({}, {"a": "x\udfff"})):
        with pytest.raises(InvalidArgumentError, match="is no UTF-8"):
            write_safetensors(path, rows(names), metadata)
    monkeypatch.setattr("clika_runtime.io.safetensors.MAX_HEADER_BYTES", 1000)
    write_safetensors(path, {}, {"a": "x" * 900})
    assert open_safetensors(os.fsencode(path)).metadata["a"] == "x" * 900
    before = path.read_bytes()
    with pytest.raises(InvalidArgumentError, match="at most 1000 can be read again"):
        write_safetensors(path, {}, {"a": "x" * 1000})
    assert path.read_bytes() == before
