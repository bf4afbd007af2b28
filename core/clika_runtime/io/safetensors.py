"""A reader and a writer of safetensors files, single and sharded.

The reader maps the file and checks the header against it: a bounded header, known dtypes, byte
counts that fit the shapes, and offsets that cover the data without a gap or an overlap. Nothing is
copied. The writer makes the same layout, aligned, in one new file that replaces the old one only
when it is complete.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ._files import (
    MappedFile,
    check_inside,
    invalid,
    missing,
    parse_json,
    read_json,
    shown,
    unsupported,
    write_atomic,
)
from .tensor_info import TensorInfo

__all__ = ["SafetensorsFile", "find_index", "open_safetensors", "write_safetensors"]

MAX_HEADER_BYTES = 100_000_000
MAX_RANK = 64
MAX_SHARDS = 4096
INDEX_LIMIT = 256 << 20
ALIGNMENT = 64  # of the first byte that the writer puts down; readers need none
INDEX_SUFFIX = ".safetensors.index.json"

_METADATA = "__metadata__"
# file's name -> (bits of an element, the runtime's dtype name)
_DTYPES: dict[str, tuple[int, str]] = {
    "BOOL": (8, "bool"),
    "U8": (8, "uint8"),
    "I8": (8, "int8"),
    "U16": (16, "uint16"),
    "I16": (16, "int16"),
    "U32": (32, "uint32"),
    "I32": (32, "int32"),
    "U64": (64, "uint64"),
    "I64": (64, "int64"),
    "F16": (16, "float16"),
    "BF16": (16, "bfloat16"),
    "F32": (32, "float32"),
    "F64": (64, "float64"),
    "F8_E4M3": (8, "float8_e4m3"),
    "F8_E5M2": (8, "float8_e5m2"),
    "F8_E4M3FNUZ": (8, "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": (8, "float8_e5m2fnuz"),
    "F8_E8M0": (8, "float8_e8m0"),
    "F6_E2M3": (6, "float6_e2m3"),
    "F6_E3M2": (6, "float6_e3m2"),
    "F4": (4, "float4_e2m1"),
}
_FILE_NAMES = {dtype: name for name, (_, dtype) in _DTYPES.items()}
# Listed by the format; tensors of complex numbers are refused by the whole runtime.
_REFUSED = {"C64": "complex64"}


def _entry(path: str, name: str, entry: Any, size: int, part: int) -> TensorInfo:
    """Check one tensor of the header. ``size`` is the length of the data section."""
    what = f"tensor {shown(name)}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        keys = sorted(entry) if isinstance(entry, dict) else entry
        raise invalid(
            path, f"{what}: expected the keys dtype, shape and data_offsets, found {shown(keys)}"
        )
    kind = entry["dtype"]
    row = _DTYPES.get(kind) if isinstance(kind, str) else None
    if row is None:
        if isinstance(kind, str) and kind in _REFUSED:
            raise unsupported(path, f"{what}: dtype {kind} ({_REFUSED[kind]}) is not served")
        raise unsupported(
            path, f"{what}: unknown dtype {shown(kind)}; known are {', '.join(_DTYPES)}"
        )
    bits, dtype = row
    shape = entry["shape"]
    if not isinstance(shape, list) or len(shape) > MAX_RANK or not all(map(_is_size, shape)):
        raise invalid(path, f"{what}: the shape must be a list of sizes, found {shown(shape)}")
    offsets = entry["data_offsets"]
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise invalid(path, f"{what}: data_offsets must be [begin, end], found {shown(offsets)}")
    begin, end = offsets
    if not begin <= end <= size:
        raise invalid(
            path, f"{what}: data_offsets {offsets} do not lie in the data section of {size} bytes"
        )
    if math.prod(filter(None, shape)) >= 1 << 63:
        raise invalid(path, f"{what}: the shape {shown(shape)} is impossible")
    numel = math.prod(shape)
    if numel * bits % 8:
        raise invalid(path, f"{what}: {numel} elements of {kind} do not fill whole bytes")
    nbytes = numel * bits // 8
    if nbytes != end - begin:
        raise invalid(
            path,
            f"{what}: shape {shape} of {kind} needs {nbytes} bytes, data_offsets {offsets} hold "
            f"{end - begin}",
        )
    return TensorInfo(name, kind, dtype, 0, tuple(shape), begin, nbytes, part)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


class _Shard:
    """One file, read and checked; tensor offsets count from the start of the file."""

    __slots__ = ("file", "metadata", "tensors")

    def __init__(self, path: str | os.PathLike[str], part: int) -> None:
        self.file = file = MappedFile(path)
        if file.size < 8:
            raise invalid(path, f"the file has {file.size} bytes, a header needs at least 8")
        (length,) = struct.unpack_from("<Q", file.bytes, 0)
        limit = min(MAX_HEADER_BYTES, file.size - 8)
        if not 2 <= length <= limit:
            raise invalid(
                path, f"the header's length is {length} bytes, expected 2 to {limit} in this file"
            )
        start = 8 + length
        if file.bytes[8] != ord("{"):
            raise invalid(path, f"the header starts with byte {file.bytes[8]}, expected '{{'")
        header = parse_json(file.bytes[8:start], path, "the header", unique_keys=True)
        if not isinstance(header, dict):  # pragma: no cover - the first byte says otherwise
            raise invalid(path, "the header is not an object")
        self.metadata = _metadata(file.path, header.pop(_METADATA, {}))
        size = file.size - start
        found = [_entry(file.path, name, entry, size, part) for name, entry in header.items()]
        _check_cover(file.path, found, size)
        self.tensors = {info.name: replace(info, offset=start + info.offset) for info in found}


def _metadata(path: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise invalid(path, f"{_METADATA} must map names to strings, found {shown(value)}")
    return value


def _check_cover(path: str, found: Iterable[TensorInfo], size: int) -> None:
    """The tensors must lie one after the other and fill the data section exactly."""
    position = 0
    before = ""
    for info in sorted(found, key=lambda item: (item.offset, item.nbytes)):
        if info.offset != position:
            relation = "overlaps" if info.offset < position else "leaves a gap after"
            raise invalid(
                path,
                f"tensor {shown(info.name)} starts at {info.offset}, expected {position}: it "
                f"{relation} "
                f"{shown(before) if before else 'the header'}",
            )
        position += info.nbytes
        before = info.name
    if position != size:
        raise invalid(path, f"the tensors hold {position} bytes, the data section has {size}")


def _read_index(path: str) -> dict[str, str]:
    """``weight_map`` of an index: tensor name -> file name, every file name checked."""
    index = read_json(path, INDEX_LIMIT, unique_keys=True)
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise invalid(path, f"weight_map must map tensor names to files, found {shown(weight_map)}")
    for name, file in weight_map.items():
        check_inside(file, path)
        if not file.endswith(".safetensors"):
            raise invalid(
                path, f"weight_map[{shown(name)}] names {shown(file)}, expected a .safetensors file"
            )
    return weight_map


class SafetensorsFile:
    """A safetensors checkpoint, opened: one file, or all shards of an index as one mapping.

    ``metadata`` is the file's ``__metadata__`` (for an index: the first shard's). ``tensors`` keeps
    the order of the header, or of the index.

    >>> checkpoint = open_safetensors("model.safetensors")  # doctest: +SKIP
    >>> checkpoint.tensors["weight"].shape  # doctest: +SKIP
    (4, 8)
    """

    __slots__ = ("_parts", "metadata", "path", "tensors")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        weight_map = _read_index(self.path) if self.path.endswith(".json") else None
        if weight_map is None:
            shard = _Shard(path, 0)
            self._parts: tuple[MappedFile, ...] = (shard.file,)
            self.metadata: Mapping[str, str] = MappingProxyType(shard.metadata)
            self.tensors: Mapping[str, TensorInfo] = MappingProxyType(shard.tensors)
            return
        names = list(dict.fromkeys(weight_map.values()))
        if len(names) > MAX_SHARDS:
            raise invalid(
                path, f"weight_map names {len(names)} files, at most {MAX_SHARDS} are allowed"
            )
        folder = os.path.dirname(self.path)
        shards: dict[str, _Shard] = {}
        for part, name in enumerate(names):
            shard_path = os.path.join(folder, *name.split("/"))
            if not os.path.exists(shard_path):
                raise missing(shard_path, f"the shard is missing; {self.path} names it")
            shards[name] = _Shard(shard_path, part)
        tensors: dict[str, TensorInfo] = {}
        for name, file in weight_map.items():
            info = shards[file].tensors.get(name)
            if info is None:
                raise invalid(
                    path, f"weight_map says {shown(name)} is in {shown(file)}; it is not there"
                )
            tensors[name] = info
        self._parts = tuple(shard.file for shard in shards.values())
        self.metadata = MappingProxyType(shards[names[0]].metadata)
        self.tensors = MappingProxyType(tensors)

    def __repr__(self) -> str:
        return f"SafetensorsFile({self.path!r}, {len(self.tensors)} tensors)"

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files that make up the checkpoint."""
        return tuple(part.path for part in self._parts)

    def view(self, name: str) -> memoryview:
        """The bytes of a tensor: a read-only view of the mapping, which it keeps alive."""
        info = self._info(name)
        return self._parts[info.part].bytes[info.offset : info.offset + info.nbytes]

    def drop_pages(self, name: str) -> None:
        """Let the system take the pages of a tensor back; the next read brings them in again."""
        info = self._info(name)
        self._parts[info.part].drop_pages(info.offset, info.nbytes)

    def drop_all_pages(self) -> None:
        """The same for everything."""
        for part in self._parts:
            part.drop_pages(0, len(part.bytes))

    def _info(self, name: str) -> TensorInfo:
        try:
            return self.tensors[name]
        except KeyError:
            raise invalid(self.path, f"there is no tensor {shown(name)}") from None


def find_index(folder: str | os.PathLike[str]) -> str | None:
    """The safetensors entry of a model directory: its index, else its single file, else None.

    ``model.safetensors.index.json`` and ``model.safetensors`` are preferred; any other name is
    taken only when it is the only one of its kind.
    """
    root = os.fspath(folder)
    try:
        names = sorted(os.listdir(root))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing(root, "no such directory") from error
    except (OSError, ValueError) as error:
        raise invalid(root, f"cannot be listed: {error}") from error
    for suffix, default in (
        (INDEX_SUFFIX, "model" + INDEX_SUFFIX),
        (".safetensors", "model.safetensors"),
    ):
        found = [name for name in names if name.endswith(suffix)]
        if default in found:
            return os.path.join(root, default)
        if len(found) == 1:
            return os.path.join(root, found[0])
        if found:
            raise invalid(
                root,
                f"several {suffix} files and no {default}: {shown(found)}; name the one to read",
            )
    return None


def open_safetensors(path: str | os.PathLike[str]) -> SafetensorsFile:
    """Open a safetensors checkpoint without reading its tensors.

    ``path`` is a ``.safetensors`` file, an index (``*.safetensors.index.json``) or a directory that
    holds one of them. Errors: ``NotFoundError`` (``NO_SUCHFILE``) for a missing file or shard,
    ``UnsupportedError`` for an unknown dtype, ``InvalidArgumentError`` for everything that is wrong
    inside a file; the message names file, field, what was found and what was expected.
    """
    if os.path.isdir(path):
        entry = find_index(path)
        if entry is None:
            raise missing(path, "the directory holds no .safetensors file and no index")
        path = entry
    return SafetensorsFile(path)


def write_safetensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, tuple[str, tuple[int, ...], Any]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a safetensors file: ``tensors`` maps a name to (dtype name, shape, contiguous buffer).
    In the place of a buffer may stand a function that gives it, called when it is written.

    The header keeps the order of ``tensors``; the bytes are laid out with the widest elements
    first, so that every tensor starts at a multiple of its element's size. The file appears under
    its name only when it is complete: it is written beside it and renamed. Errors:
    ``InvalidArgumentError`` for a name, dtype or byte count that does not fit and for a header that
    no reader would take, ``NotFoundError`` for a missing directory.
    """
    target = os.fsdecode(path)
    if not target:
        raise invalid("''", "the path is empty")
    header: dict[str, Any] = {}
    if metadata:
        header[_METADATA] = _metadata(target, dict(metadata))
    sizes: dict[str, int] = {}
    bits_of: dict[str, int] = {}

    def view(name: str, buffer: Any) -> memoryview:
        found = memoryview(buffer)
        if not found.c_contiguous:
            raise invalid(target, f"tensor {shown(name)}: the buffer is not contiguous")
        if found.nbytes != sizes[name]:
            dtype, shape, _ = tensors[name]
            raise invalid(
                target,
                f"tensor {shown(name)}: shape {list(shape)} of {dtype} needs {sizes[name]} bytes, "
                f"the buffer has {found.nbytes}",
            )
        return found.cast("B") if found.nbytes else memoryview(b"")

    for name, (dtype, shape, buffer) in tensors.items():
        if not isinstance(name, str) or name == _METADATA:
            raise invalid(target, f"a tensor cannot be named {shown(name)}")
        kind = _FILE_NAMES.get(dtype)
        if kind is None:
            raise unsupported(
                target, f"tensor {shown(name)}: dtype {shown(dtype)} cannot be stored"
            )
        bits_of[name] = _DTYPES[kind][0]
        sizes[name], rest = divmod(math.prod(shape) * bits_of[name], 8)
        if rest:
            raise invalid(
                target, f"tensor {shown(name)}: shape {list(shape)} of {dtype} is no whole bytes"
            )
        if not callable(buffer):
            view(name, buffer)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [0, 0]}
    layout = sorted(sizes, key=lambda item: -bits_of[item])  # stable: equal widths keep their order
    position = 0
    for name in layout:
        end = position + sizes[name]
        header[name]["data_offsets"] = [position, end]
        position = end
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise invalid(
            target, f"{shown(error.object[error.start])} in a name or in {_METADATA} is no UTF-8"
        ) from error
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise invalid(
            target,
            f"names and {_METADATA} make a header of {len(text)} bytes, at most {MAX_HEADER_BYTES} "
            "can be read again",
        )

    def chunks() -> Iterator[bytes | memoryview]:
        yield struct.pack("<Q", len(text)) + text
        for name in layout:
            buffer = tensors[name][2]
            yield view(name, buffer() if callable(buffer) else buffer)

    write_atomic(target, chunks())
