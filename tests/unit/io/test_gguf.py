"""The GGUF reader against files of the ``gguf`` package and against wrong ones."""

from __future__ import annotations

import gc
import itertools
import json
import os
import struct
import time
from collections import Counter
from pathlib import Path

import gguf
import numpy as np
import pytest

from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.io import GgufArray, open_gguf
from clika_runtime.io.ggml_types import LOADABLE, REMOVED, TYPES, TYPES_BY_NAME, scheme_name
from tests.unit.io.raw_gguf import ARRAY, STRING, RawGguf, pair, strings, tensor, text

#: Every type that the ``gguf`` package decodes, and three that it only knows by name.
DECODED = tuple(kind.name for kind in gguf.quants._type_traits if kind.name != "BF16")
UNDECODED = ("Q8_1", "Q8_K", "Q1_0")
QUANTIZED = DECODED + UNDECODED


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """A file with every value type and many tensor types, made by the ``gguf`` package."""
    path = tmp_path_factory.mktemp("gguf") / "all.gguf"
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("v.uint8", 200)
    writer.add_int8("v.int8", -5)
    writer.add_uint16("v.uint16", 65535)
    writer.add_int16("v.int16", -32768)
    writer.add_uint32("v.uint32", 2**32 - 1)
    writer.add_int32("v.int32", -(2**31))
    writer.add_uint64("v.uint64", 2**64 - 1)
    writer.add_int64("v.int64", -(2**63))
    writer.add_float32("v.float32", 0.5)
    writer.add_float64("v.float64", 1e300)
    writer.add_bool("v.true", True)
    writer.add_bool("v.false", False)
    writer.add_string("v.string", "grüße 😀")
    writer.add_array("v.strings", ["a", "", "日本"])
    writer.add_array("v.ints", [1, -2, 3])
    writer.add_array("v.floats", [0.25, -4.0])
    writer.add_array("v.bools", [True, False])
    writer.add_array("v.nested", [[1, 2], [3]])
    tensors: dict[str, np.ndarray] = {}
    for dtype in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64):
        name = f"dense.{np.dtype(dtype).name}"
        tensors[name] = (rng.standard_normal((3, 5)) * 50).astype(dtype)
        writer.add_tensor(name, tensors[name])
    for name in QUANTIZED:
        kind = gguf.GGMLQuantizationType[name]
        try:
            packed = gguf.quants.quantize(rng.standard_normal((4, 256)).astype(np.float32), kind)
        except NotImplementedError:
            _, size = gguf.GGML_QUANT_SIZES[kind]
            rows = (4, 256 // gguf.GGML_QUANT_SIZES[kind][0] * size)
            packed = rng.integers(0, 255, rows).astype(np.uint8)
        tensors[f"packed.{name}"] = packed
        writer.add_tensor(f"packed.{name}", packed, raw_dtype=kind)
    tensors["one"] = np.zeros(7, np.float32)
    writer.add_tensor("one", tensors["one"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, tensors


def test_reads_what_the_gguf_package_writes(written: tuple[Path, dict[str, np.ndarray]]) -> None:
    path, tensors = written
    file = open_gguf(path)
    assert (file.version, file.alignment, file.architecture) == (3, 32, "llama")
    assert list(file.tensors) == list(tensors)
    for name, array in tensors.items():
        info = file.tensors[name]
        assert info.nbytes == array.nbytes
        assert bytes(file.view(name)) == array.tobytes()
        if name.startswith("packed."):
            kind = TYPES_BY_NAME[name.removeprefix("packed.")]
            assert (info.type, info.scheme, info.dtype) == (kind.name, kind.id + 1, None)
            assert info.shape == (4, 256) and info.packed
            assert info.loadable == (kind.name in DECODED)
        else:
            assert info.shape == array.shape and info.scheme == 0 and info.loadable
            assert info.dtype == array.dtype.name


def test_metadata_values(written: tuple[Path, dict[str, np.ndarray]]) -> None:
    metadata = open_gguf(written[0]).metadata
    assert metadata["v.uint8"] == 200 and metadata["v.int8"] == -5
    assert metadata["v.uint16"] == 65535 and metadata["v.int16"] == -32768
    assert metadata["v.uint32"] == 2**32 - 1 and metadata["v.int32"] == -(2**31)
    assert metadata["v.uint64"] == 2**64 - 1 and metadata["v.int64"] == -(2**63)
    assert metadata["v.float32"] == 0.5 and metadata["v.float64"] == 1e300
    assert metadata["v.true"] is True and metadata["v.false"] is False
    assert metadata["v.string"] == "grüße 😀"
    assert metadata["v.strings"] == ["a", "", "日本"]
    assert metadata["v.ints"].tolist() == [1, -2, 3]
    assert metadata["v.floats"][1] == -4.0 and metadata["v.floats"][:1] == [0.25]
    assert list(metadata["v.bools"]) == [True, False]
    assert metadata["v.nested"].tolist() == [[1, 2], [3]]
    assert isinstance(metadata["v.ints"], GgufArray) and len(metadata["v.ints"]) == 3
    assert "int32" in repr(metadata["v.ints"]) and metadata["v.strings"].element_type == "string"
    with pytest.raises(TypeError):
        metadata["x"] = 1  # type: ignore[index]


def test_metadata_json_holds_every_key(written: tuple[Path, dict[str, np.ndarray]]) -> None:
    file = open_gguf(written[0])
    plain = json.loads(file.metadata_json())
    assert list(plain) == list(file.metadata)
    assert plain["v.strings"] == ["a", "", "日本"] and plain["v.nested"] == [[1, 2], [3]]


def test_views_outlive_the_reader(written: tuple[Path, dict[str, np.ndarray]]) -> None:
    path, tensors = written
    file = open_gguf(path)
    view = file.view("one")
    assert view.readonly
    file.drop_pages("one")
    del file
    gc.collect()
    assert bytes(view) == tensors["one"].tobytes()


def test_type_table_matches_the_gguf_package() -> None:
    theirs = {kind.value: (kind.name, *size) for kind, size in gguf.GGML_QUANT_SIZES.items()}
    ours = {kind.id: (kind.name, kind.block, kind.nbytes) for kind in TYPES.values()}
    assert ours == theirs
    assert not set(REMOVED) & set(TYPES)
    assert {TYPES[i].name for i in LOADABLE if TYPES[i].dtype is None} == set(DECODED)
    assert scheme_name(9) == "GGUF_Q8_0"
    for dense in (0, 1, 2):
        with pytest.raises(KeyError):
            scheme_name(dense)


def test_version_2_and_own_alignment(tmp_path: Path) -> None:
    raw = RawGguf(version=2, alignment=128)
    raw.pairs.append(pair("general.alignment", 4, struct.pack("<I", 128)))
    raw.tensors = [tensor("a", [4], 0, 0), tensor("b", [2, 3], 1, 128)]
    raw.data = bytes(range(16)) + bytes(112) + bytes(range(12))
    file = open_gguf(raw.write(tmp_path / "v2.gguf"))
    assert file.version == 2 and file.alignment == 128
    assert bytes(file.view("a")) == bytes(range(16)) and file.tensors["a"].offset % 128 == 0
    assert bytes(file.view("b")) == bytes(range(12)) and file.tensors["b"].shape == (3, 2)


def test_no_tensors_and_scalar_tensor(tmp_path: Path) -> None:
    assert not open_gguf(RawGguf().write(tmp_path / "none.gguf")).tensors
    raw = RawGguf(tensors=[tensor("s", [], 0, 0)], data=bytes(4))
    assert open_gguf(raw.write(tmp_path / "scalar.gguf")).tensors["s"].shape == ()


def u32(key: str, value: int) -> bytes:
    return pair(key, 4, struct.pack("<I", value))


def array(kind: int, count: int, body: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + body


F32 = bytes(64)
WRONG: dict[str, tuple[RawGguf, str]] = {
    "magic": (RawGguf(magic=b"GGML"), r"magic is b'GGML', expected b'GGUF'"),
    "pairs past the end": (RawGguf(n_pairs=10**9), "metadata count 1000000000 does not fit"),
    "pairs 2**64": (RawGguf(n_pairs=2**64 - 1), "metadata count"),
    "tensors past the end": (RawGguf(n_tensors=2**63), "tensor count"),
    "one pair too many": (RawGguf(n_pairs=2), "metadata"),
    "key too long": (RawGguf(pairs=[struct.pack("<Q", 2**62)]), "metadata"),
    "key over the limit": (
        RawGguf(pairs=[pair("k" * 70000, 0, b"\0")]),
        "the length is 70000 bytes, the limit is 65535",
    ),
    "empty key": (RawGguf(pairs=[pair("", 0, b"\0")]), "metadata key 0 is empty"),
    "key not UTF-8": (RawGguf(pairs=[pair(b"\xff\xfe", 0, b"\0")]), "metadata key 0 is not UTF-8"),
    "key twice": (RawGguf(pairs=[u32("a", 1), u32("a", 2)]), "'a' stands twice"),
    "value type": (RawGguf(pairs=[pair("a", 99, b"")]), "unknown value type 99, expected 0 to 12"),
    "bool": (RawGguf(pairs=[pair("a", 7, b"\2")]), "a bool is 0 or 1, found 2"),
    "bools": (RawGguf(pairs=[pair("a", ARRAY, array(7, 3, b"\0\1\3"))]), "a bool is 0 or 1"),
    "string not UTF-8": (RawGguf(pairs=[pair("a", STRING, text(b"\xc3("))]), "'a' is not UTF-8"),
    "string past the end": (
        RawGguf(pairs=[pair("a", STRING, struct.pack("<Q", 10**12))]),
        "reach past the end",
    ),
    "array type": (RawGguf(pairs=[pair("a", ARRAY, array(77, 1))]), "unknown element type 77"),
    "array count": (
        RawGguf(pairs=[pair("a", ARRAY, array(4, 2**61))]),
        "2305843009213693952 items of type uint32 do not fit",
    ),
    "array of strings past the end": (
        RawGguf(pairs=[pair("a", ARRAY, array(STRING, 2, text("x") + struct.pack("<Q", 2**63)))]),
        "2 strings from offset",
    ),
    "arrays too deep": (
        RawGguf(pairs=[pair("a", ARRAY, array(9, 1) * 6 + array(0, 0))]),
        "nested deeper than 4",
    ),
    "arrays of nothing": (
        RawGguf(pairs=[pair("a", ARRAY, array(9, 2**40))]),
        "do not fit in the",
    ),
    "alignment zero": (
        RawGguf(pairs=[u32("general.alignment", 0)]),
        "must be a power of two, found 0",
    ),
    "alignment odd": (RawGguf(pairs=[u32("general.alignment", 48)]), "power of two, found 48"),
    "alignment text": (
        RawGguf(pairs=[pair("general.alignment", STRING, text("32"))]),
        "power of two, found '32'",
    ),
    "alignment huge": (
        RawGguf(pairs=[u32("general.alignment", 2**31)], tensors=[tensor("a", [1], 0, 0)]),
        "reach past the end",
    ),
    "tensor name empty": (RawGguf(tensors=[tensor("", [4], 0, 0)], data=F32), "tensor 0 is empty"),
    "tensor name long": (
        RawGguf(tensors=[tensor("n" * 2000, [4], 0, 0)], data=F32),
        "the length is 2000 bytes, the limit is 1024",
    ),
    "tensor twice": (
        RawGguf(tensors=[tensor("a", [4], 0, 0), tensor("a", [4], 0, 32)], data=F32),
        "'a' stands twice",
    ),
    "rank": (
        RawGguf(tensors=[tensor("a", [1, 1, 1, 1, 1], 0, 0)], data=F32),
        "the rank is 5, at most 4",
    ),
    "rank huge": (RawGguf(tensors=[tensor("a", [1], 0, 0, rank=2**32 - 1)]), "the rank is"),
    "size zero": (RawGguf(tensors=[tensor("a", [4, 0], 0, 0)], data=F32), "dimension 1 of"),
    "sizes overflow": (
        RawGguf(tensors=[tensor("a", [2**32, 2**32, 2**32], 0, 0)], data=F32),
        "is impossible in a file of",
    ),
    "block": (
        RawGguf(tensors=[tensor("a", [40, 1], 8, 0)], data=F32),
        "rows of 40 elements are not a multiple of 32, the block of Q8_0",
    ),
    "offset not aligned": (
        RawGguf(tensors=[tensor("a", [4], 0, 4)], data=F32),
        "offset 4 is not a multiple of the alignment 32",
    ),
    "tensor past the end": (
        RawGguf(tensors=[tensor("a", [17], 0, 0)], data=F32),
        "68 bytes at offset 128 reach past the end of the file",
    ),
    "offset past the end": (
        RawGguf(tensors=[tensor("a", [1], 0, 2**63)], data=F32),
        "reach past the end",
    ),
    "overlap": (
        RawGguf(tensors=[tensor("a", [9], 0, 0), tensor("b", [2], 0, 32)], data=F32),
        "tensors 'a' and 'b' overlap",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_refused_by_field(tmp_path: Path, case: str) -> None:
    raw, message = WRONG[case]
    path = raw.write(tmp_path / "wrong.gguf")
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        open_gguf(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.code_name == "MALFORMED_FILE"


UNSERVED: dict[str, tuple[RawGguf, str]] = {
    "version 1": (RawGguf(version=1), r"GGUF version 1; expected one of \[2, 3\]"),
    "version 4": (RawGguf(version=4), "GGUF version 4"),
    "big endian": (RawGguf(version=3 << 24), "version 3 in big-endian order"),
    "type number": (
        RawGguf(tensors=[tensor("a", [4], 4711, 0)], data=F32),
        "tensor 'a': unknown type number 4711; known are F32, F16",
    ),
    "type withdrawn": (
        RawGguf(tensors=[tensor("a", [32], 31, 0)], data=F32),
        r"type Q4_0_4_4 \(number 31\) was withdrawn",
    ),
}


@pytest.mark.parametrize("case", UNSERVED)
def test_what_is_not_served_is_refused_by_name(tmp_path: Path, case: str) -> None:
    raw, message = UNSERVED[case]
    with pytest.raises(UnsupportedError, match=message):
        open_gguf(raw.write(tmp_path / "unserved.gguf"))


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    raw = RawGguf(tensors=[tensor("a", [8], 0, 0)], data=bytes(range(32)))
    raw.pairs.append(strings("tokens", ["a", "bc", "def"]))
    raw.pairs.append(pair("n", ARRAY, array(4, 2, struct.pack("<2I", 1, 2))))
    whole = raw.bytes()
    path = tmp_path / "cut.gguf"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises((InvalidArgumentError, UnsupportedError)):
            open_gguf(path)
    path.write_bytes(whole)
    assert open_gguf(path).metadata["tokens"] == ["a", "bc", "def"]


def test_items_that_are_not_text_are_refused_when_looked_at(tmp_path: Path) -> None:
    raw = RawGguf(pairs=[pair("t", ARRAY, array(STRING, 2, text("ok") + text(b"\xff")))])
    file = open_gguf(raw.write(tmp_path / "bytes.gguf"))
    with pytest.raises(InvalidArgumentError, match="metadata 't': item 1 is not UTF-8"):
        file.metadata["t"].tolist()


def test_architecture_must_be_said(tmp_path: Path) -> None:
    file = open_gguf(RawGguf(pairs=[u32("general.architecture", 3)]).write(tmp_path / "a.gguf"))
    with pytest.raises(InvalidArgumentError, match=r"'general.architecture' must be a string"):
        _ = file.architecture
    with pytest.raises(InvalidArgumentError, match="there is no tensor 'nope'"):
        file.view("nope")


def test_files_that_are_not_files(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file") as caught:
        open_gguf(tmp_path / "absent.gguf")
    assert caught.value.code_name == "NO_SUCHFILE"
    with pytest.raises(InvalidArgumentError, match="expected a file, found a directory"):
        open_gguf(tmp_path)
    empty = tmp_path / "empty.gguf"
    empty.touch()
    with pytest.raises(InvalidArgumentError, match="the file is empty"):
        open_gguf(empty)
    with pytest.raises(NotFoundError):
        open_gguf(empty / "below.gguf")
    with pytest.raises(NotFoundError):
        open_gguf(tmp_path / ("n" * 5000))
    with pytest.raises(InvalidArgumentError):
        open_gguf("a\0b")
    with pytest.raises(InvalidArgumentError, match="the path is empty"):
        open_gguf("")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    with pytest.raises(InvalidArgumentError, match="not a regular file"):
        open_gguf(pipe)


# ------------------------------------------------------------ split checkpoints
def u16(key: str, value: int) -> bytes:
    return pair(key, 2, struct.pack("<H", value))


def write_parts(folder: Path, count: int = 3, **changes: object) -> list[Path]:
    paths = []
    for index in range(count):
        raw = RawGguf(tensors=[tensor(f"t{index}", [8], 0, 0)], data=bytes([index]) * 32)
        raw.pairs += [u16("split.no", index), u16("split.count", count)]
        raw.pairs.append(pair("split.tensors.count", 5, struct.pack("<i", count)))
        paths.append(raw.write(folder / f"m-{index + 1:05d}-of-{count:05d}.gguf"))
    return paths


def test_split_checkpoint_is_one_object(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    for named in paths:
        file = open_gguf(named)
        assert file.files == tuple(map(str, paths)) and list(file.tensors) == ["t0", "t1", "t2"]
        assert [bytes(file.view(name))[0] for name in file.tensors] == [0, 1, 2]
        file.drop_pages("t2")


def test_split_checkpoint_with_a_missing_part(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    paths[1].unlink()
    with pytest.raises(NotFoundError, match=r"00002-of-00003.gguf: part 2 of 3 of the checkpoint"):
        open_gguf(paths[0])


def test_split_checkpoint_with_a_wrong_part(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    paths[2].write_bytes(paths[1].read_bytes())
    with pytest.raises(InvalidArgumentError, match=r"'split.no' is 1, expected 2"):
        open_gguf(paths[0])
    single = RawGguf(tensors=[tensor("t2", [8], 0, 0)], data=bytes(32))
    single.write(paths[2])
    with pytest.raises(InvalidArgumentError, match=r"'split.no' is missing|'split.no'"):
        open_gguf(paths[0])


def test_split_checkpoint_with_wrong_counts(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    moved = paths[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(InvalidArgumentError, match=r"must be named NAME-00001-of-00003.gguf"):
        open_gguf(moved)
    raw = RawGguf(pairs=[u16("split.count", 60000)])
    with pytest.raises(InvalidArgumentError, match=r"'split.count' is 60000, at most 1024"):
        open_gguf(raw.write(tmp_path / "many.gguf"))
    raw = RawGguf(pairs=[pair("split.count", STRING, text("2"))])
    with pytest.raises(InvalidArgumentError, match=r"'split.count' must be a count, found '2'"):
        open_gguf(raw.write(tmp_path / "text.gguf"))


def test_split_checkpoint_with_a_tensor_in_two_parts(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, 2)
    raw = RawGguf(tensors=[tensor("t0", [8], 0, 0)], data=bytes(32))
    raw.pairs += [u16("split.no", 1), u16("split.count", 2)]
    raw.write(paths[1])
    with pytest.raises(InvalidArgumentError, match="tensor 't0' also stands in"):
        open_gguf(paths[0])


def test_split_checkpoint_with_too_few_tensors(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, 2)
    raw = RawGguf()
    raw.pairs += [u16("split.no", 1), u16("split.count", 2)]
    raw.write(paths[1])
    with pytest.raises(InvalidArgumentError, match="is 2, the parts hold 1 tensors"):
        open_gguf(paths[0])


def test_parts_that_the_gguf_package_writes(tmp_path: Path) -> None:
    """With tensors in every part, and with a first part that holds metadata only."""
    arrays = {f"t{i}": np.full((4, 8), i, np.float32) for i in range(5)}
    for small, expected in ((False, 3), (True, 4)):
        writer = gguf.GGUFWriter(
            tmp_path / "w.gguf", "llama", split_max_tensors=2, small_first_shard=small
        )
        writer.add_string("general.name", "whole")
        for name, array in arrays.items():
            writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        file = open_gguf(tmp_path / f"w-00002-of-0000{expected}.gguf")
        assert len(file.files) == expected and file.metadata["general.name"] == "whole"
        assert file.architecture == "llama" and list(file.tensors) == list(arrays)
        for name, array in arrays.items():
            assert bytes(file.view(name)) == array.tobytes()


@pytest.mark.parametrize("key", ["split.tensors.count", "general.architecture", "general.name"])
def test_parts_of_different_checkpoints_are_refused(tmp_path: Path, key: str) -> None:
    """Also where the numbers of parts and tensors happen to agree."""
    paths = write_parts(tmp_path, 2)
    raw = RawGguf(tensors=[tensor("t1", [8], 0, 0)], data=bytes(32))
    raw.pairs = [u16("split.no", 1), u16("split.count", 2)]
    if key == "split.tensors.count":
        raw.pairs.append(pair(key, 5, struct.pack("<i", 7)))
    else:
        raw.pairs.append(pair(key, STRING, text("other")))
    raw.write(paths[1])
    with pytest.raises(InvalidArgumentError, match=f"{key}' is .*different checkpoints"):
        open_gguf(paths[0])


def test_a_name_that_contradicts_the_metadata_is_refused(tmp_path: Path) -> None:
    single = RawGguf(tensors=[tensor("t", [8], 0, 0)], data=bytes(32))
    with pytest.raises(InvalidArgumentError, match=r"says 2 parts, metadata 'split.count' is 1"):
        open_gguf(single.write(tmp_path / "m-00001-of-00002.gguf"))
    assert len(open_gguf(single.write(tmp_path / "m-00001-of-00001.gguf")).tensors) == 1
    moved = write_parts(tmp_path, 3)[0].rename(tmp_path / "m-00001-of-00004.gguf")
    with pytest.raises(InvalidArgumentError, match=r"says 4 parts, metadata 'split.count' is 3"):
        open_gguf(moved)


# ------------------------------------------------------------ cost
def test_a_large_vocabulary_opens_without_decoding_it(tmp_path: Path) -> None:
    raw = RawGguf()
    raw.pairs.append(strings("tokens", [f"token {i}" for i in range(50_000)]))
    path = raw.write(tmp_path / "large.gguf")
    best = 1.0
    for _ in range(5):
        start = time.perf_counter()
        file = open_gguf(path)
        best = min(best, time.perf_counter() - start)
    assert best < 0.2  # about 6 ms on an idle core
    assert file.metadata["tokens"].tolist()[7] == "token 7"
    assert file.metadata["tokens"]._items is None
    assert file.metadata["tokens"][49_999] == "token 49999"


def test_real_checkpoint(smollm2_gguf: Path) -> None:
    file = open_gguf(smollm2_gguf)
    assert file.architecture == "llama" and file.metadata["llama.block_count"] == 30
    kinds = Counter(info.type for info in file.tensors.values())
    assert kinds == {"Q4_1": 210, "F32": 61, "Q8_0": 1}
    table = file.tensors["token_embd.weight"]
    assert (table.shape, table.type, table.scheme) == ((49152, 576), "Q8_0", 9)
    down = file.tensors["blk.0.ffn_down.weight"]
    assert (down.shape, down.scheme, down.nbytes) == ((576, 1536), 4, 576 * 1536 // 32 * 20)
    # The tensors lie one after the other and end where the file ends.
    ordered = sorted(file.tensors.values(), key=lambda info: info.offset)
    for before, after in itertools.pairwise(ordered):
        assert after.offset - (before.offset + before.nbytes) in range(32)
    assert ordered[-1].offset + ordered[-1].nbytes == smollm2_gguf.stat().st_size
    tokens, merges = (file.metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "merges"))
    assert (len(tokens), tokens[2], tokens[51]) == (49152, "<|im_end|>", "C")
    assert (len(merges), merges[0]) == (48900, "Ġ t")
    norm = np.frombuffer(file.view("output_norm.weight"), np.float32)
    assert norm.shape == (576,) and np.isfinite(norm).all() and norm.std() > 0
