"""A reader of GGUF checkpoints (versions 2 and 3) over a memory map.

Everything the file claims is checked against the file's own size before it is used, so a hostile
file costs at most a pass over its bytes. Nothing is copied: metadata arrays are decoded when they
are first looked at, tensor bytes are views of the mapping.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, overload

from .._native._strings import end_of_strings, read_strings
from ._files import MappedFile, invalid, missing, shown, unsupported
from .ggml_types import REMOVED, TYPES, TYPES_BY_NAME, GgmlType
from .tensor_info import TensorInfo

__all__ = ["GgufArray", "GgufFile", "check_header", "open_gguf"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMS = 4
MAX_KEY_BYTES = 65535
MAX_NAME_BYTES = 1024
MAX_ARRAY_DEPTH = 4
MAX_PARTS = 1024
DEFAULT_ALIGNMENT = 32
MIN_PAIR_BYTES = 8 + 4 + 1  # key length, value type, smallest value
MIN_TENSOR_BYTES = 8 + 4 + 4 + 8  # name length, rank, type, offset

_STRING = 8
_ARRAY = 9
# value type -> (name, struct code, bytes)
_SCALARS: dict[int, tuple[str, str, int]] = {
    0: ("uint8", "B", 1),
    1: ("int8", "b", 1),
    2: ("uint16", "H", 2),
    3: ("int16", "h", 2),
    4: ("uint32", "I", 4),
    5: ("int32", "i", 4),
    6: ("float32", "f", 4),
    7: ("bool", "B", 1),
    10: ("uint64", "Q", 8),
    11: ("int64", "q", 8),
    12: ("float64", "d", 8),
}
_CODES = {row[0]: row[1] for row in _SCALARS.values()}
_BOOL = 7
_TYPE_NAMES = {number: row[0] for number, row in _SCALARS.items()} | {
    _STRING: "string",
    _ARRAY: "array",
}
_SMALLEST = {number: row[2] for number, row in _SCALARS.items()} | {_STRING: 8, _ARRAY: 12}

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SPLIT_NAME = re.compile(r"(?P<stem>.*)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


class GgufArray(Sequence[Any]):
    """An array of the metadata: a read-only sequence whose items are decoded at the first look.

    Items asked for one by one are kept decoded. ``element_type`` is the name of the items' type
    (``"string"``, ``"int32"``, ``"float32"``, ...). ``tolist()`` gives a plain list, nested arrays
    included.
    """

    __slots__ = ("_count", "_data", "_items", "_where", "element_type")

    def __init__(
        self,
        data: memoryview,
        count: int,
        element_type: str,
        where: tuple[str, str],
        items: list[Any] | None = None,
    ) -> None:
        self._data = data
        self._count = count
        self._where = where
        self._items = items
        self.element_type = element_type

    def _decode(self) -> list[Any]:
        return self._decode_strings() if self.element_type == "string" else self._decode_numbers()

    def _held(self) -> list[Any]:
        items = self._items
        if items is None:
            items = self._items = self._decode()  # two threads may both decode, to equal lists
        return items

    def _decode_numbers(self) -> list[Any]:
        values = array(_CODES[self.element_type])
        values.frombytes(self._data)
        if sys.byteorder == "big":
            values.byteswap()
        if self.element_type == "bool":
            return [value != 0 for value in values]
        return values.tolist()

    def _decode_strings(self) -> list[str]:
        items: list[str] = []
        try:
            read_strings(self._data, self._count, items)
        except UnicodeDecodeError as error:
            path, key = self._where
            raise invalid(
                path, f"metadata '{key}': item {len(items)} is not UTF-8 ({error.reason})"
            ) from error
        return items

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._held()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (GgufArray, list, tuple)):
            return self.tolist() == (
                other.tolist() if isinstance(other, GgufArray) else list(other)
            )
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"GgufArray({self.element_type}, {self._count} items)"

    def tolist(self) -> list[Any]:
        """The items as a plain list of the caller's own; nothing is kept here for it."""
        items = self._items
        if items is None:
            return self._decode()
        if self.element_type == "array":
            return [item.tolist() for item in items]
        return list(items)


class _Cursor:
    """A position in the mapped file; every read is checked against the end. ``whole`` is the size
    that tensors are checked against: that of the checkpoint's file, of which only the beginning may
    be mapped."""

    __slots__ = ("data", "path", "position", "size", "whole")

    def __init__(self, file: MappedFile, whole: int | None = None) -> None:
        self.data = file.bytes
        self.path = file.path
        self.size = file.size
        self.whole = file.size if whole is None else whole
        self.position = 0

    @property
    def left(self) -> int:
        return self.size - self.position

    def take(self, nbytes: int, what: str) -> int:
        """Step over ``nbytes`` bytes and return where they start."""
        start = self.position
        if nbytes > self.size - start:
            raise invalid(
                self.path,
                f"{what}: {nbytes} bytes at offset {start} reach past the end of the file "
                f"({self.size} bytes)",
            )
        self.position = start + nbytes
        return start

    def u32(self, what: str) -> int:
        value: int = _U32.unpack_from(self.data, self.take(4, what))[0]
        return value

    def u64(self, what: str) -> int:
        value: int = _U64.unpack_from(self.data, self.take(8, what))[0]
        return value

    def string(self, what: str, limit: int | None = None) -> str:
        length = self.u64(f"length of {what}")
        if limit is not None and length > limit:
            raise invalid(self.path, f"{what}: the length is {length} bytes, the limit is {limit}")
        start = self.take(length, what)
        try:
            return str(self.data[start : start + length], "utf-8")
        except UnicodeDecodeError as error:
            raise invalid(
                self.path, f"{what} is not UTF-8: {error.reason} at byte {error.start}"
            ) from error

    def skip_strings(self, count: int, what: str) -> None:
        """Step over ``count`` strings."""
        end = end_of_strings(self.data, self.position, count)
        if end < 0:
            raise invalid(
                self.path,
                f"{what}: {count} strings from offset {self.position} on reach past the end of "
                "the file "
                f"({self.size} bytes)",
            )
        self.position = end

    def value(self, kind: int, key: str, depth: int = 0) -> Any:
        what = f"metadata '{key}'"
        row = _SCALARS.get(kind)
        if row is not None:
            _, code, nbytes = row
            (value,) = struct.unpack_from("<" + code, self.data, self.take(nbytes, what))
            if kind == _BOOL:
                if value > 1:
                    raise invalid(self.path, f"{what}: a bool is 0 or 1, found {value}")
                return value == 1
            return value
        if kind == _STRING:
            return self.string(what)
        if kind == _ARRAY:
            return self.array(key, depth)
        raise invalid(
            self.path, f"{what}: unknown value type {kind}, expected 0 to {max(_TYPE_NAMES)}"
        )

    def array(self, key: str, depth: int) -> GgufArray:
        what = f"metadata '{key}'"
        if depth >= MAX_ARRAY_DEPTH:
            raise invalid(self.path, f"{what}: arrays are nested deeper than {MAX_ARRAY_DEPTH}")
        kind = self.u32(f"element type of {what}")
        smallest = _SMALLEST.get(kind)
        if smallest is None:
            raise invalid(
                self.path, f"{what}: unknown element type {kind}, expected 0 to {max(_TYPE_NAMES)}"
            )
        count = self.u64(f"count of {what}")
        if count > self.left // smallest:
            raise invalid(
                self.path,
                f"{what}: {count} items of type {_TYPE_NAMES[kind]} do not fit in the {self.left} "
                "bytes left",
            )
        start = self.position
        items: list[Any] | None = None
        if kind == _STRING:
            self.skip_strings(count, what)
        elif kind == _ARRAY:
            items = [self.array(key, depth + 1) for _ in range(count)]
        else:
            self.take(count * smallest, what)
            if kind == _BOOL and bytes(self.data[start : self.position]).translate(None, b"\0\1"):
                raise invalid(self.path, f"{what}: a bool is 0 or 1, found a larger byte")
        stretch = self.data[start : self.position]
        return GgufArray(stretch, count, _TYPE_NAMES[kind], (self.path, key), items)


def _read_metadata(cursor: _Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for index in range(count):
        key = cursor.string(f"metadata key {index}", MAX_KEY_BYTES)
        if not key:
            raise invalid(cursor.path, f"metadata key {index} is empty")
        if key in metadata:
            raise invalid(cursor.path, f"metadata key {shown(key)} stands twice")
        kind = cursor.u32(f"type of metadata '{key}'")
        metadata[key] = cursor.value(kind, key)
    return metadata


def _alignment(cursor: _Cursor, metadata: dict[str, Any]) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0 or value & (value - 1):
        raise invalid(
            cursor.path,
            f"metadata 'general.alignment' must be a power of two, found {shown(value)}",
        )
    return value


def _tensor_type(cursor: _Cursor, number: int, what: str) -> GgmlType:
    kind = TYPES.get(number)
    if kind is not None:
        return kind
    if number in REMOVED:
        raise unsupported(
            cursor.path,
            f"{what}: type {REMOVED[number]} (number {number}) was withdrawn from the format; "
            "convert the file "
            "again",
        )
    raise unsupported(
        cursor.path,
        f"{what}: unknown type number {number}; known are {', '.join(TYPES_BY_NAME)}",
    )


def _read_tensor(cursor: _Cursor, index: int, alignment: int, part: int) -> TensorInfo:
    name = cursor.string(f"name of tensor {index}", MAX_NAME_BYTES)
    if not name:
        raise invalid(cursor.path, f"the name of tensor {index} is empty")
    what = f"tensor {shown(name)}"
    rank = cursor.u32(f"rank of {what}")
    if rank > MAX_DIMS:
        raise invalid(cursor.path, f"{what}: the rank is {rank}, at most {MAX_DIMS} is allowed")
    sizes = [cursor.u64(f"dimension {axis} of {what}") for axis in range(rank)]
    numel = 1
    for axis, size in enumerate(sizes):
        numel *= size
        if size == 0 or numel > cursor.whole * 8:  # no type packs more than 8 elements into a byte
            raise invalid(
                cursor.path,
                f"{what}: dimension {axis} of {sizes} is impossible in a file of {cursor.whole} "
                "bytes",
            )
    kind = _tensor_type(cursor, cursor.u32(f"type of {what}"), what)
    columns = sizes[0] if sizes else 1
    if columns % kind.block:
        raise invalid(
            cursor.path,
            f"{what}: rows of {columns} elements are not a multiple of {kind.block}, the block of "
            f"{kind.name}",
        )
    offset = cursor.u64(f"offset of {what}")
    if offset % alignment:
        raise invalid(
            cursor.path, f"{what}: offset {offset} is not a multiple of the alignment {alignment}"
        )
    return TensorInfo(
        name=name,
        type=kind.name,
        dtype=kind.dtype,
        scheme=kind.scheme,
        shape=tuple(reversed(sizes)),
        offset=offset,
        nbytes=numel // kind.block * kind.nbytes,
        part=part,
        loadable=kind.loadable,
    )


def _place(cursor: _Cursor, found: list[TensorInfo], alignment: int) -> list[TensorInfo]:
    """Turn offsets into the data section into offsets into the file, and check that the ranges are
    sound."""
    start = -(-cursor.position // alignment) * alignment
    placed: list[TensorInfo] = []
    for info in found:
        offset = start + info.offset
        if offset + info.nbytes > cursor.whole:
            raise invalid(
                cursor.path,
                f"tensor {shown(info.name)}: {info.nbytes} bytes at offset {offset} reach past "
                "the end of the "
                f"file ({cursor.whole} bytes)",
            )
        placed.append(replace(info, offset=offset))
    before: TensorInfo | None = None
    for info in sorted(placed, key=lambda item: item.offset):
        if before is not None and info.offset < before.offset + before.nbytes:
            raise invalid(
                cursor.path,
                f"tensors {shown(before.name)} and {shown(info.name)} overlap: the first ends at "
                f"{before.offset + before.nbytes}, the second starts at {info.offset}",
            )
        before = info
    return placed


class _Part:
    """One file of a checkpoint, read and checked."""

    __slots__ = ("alignment", "file", "metadata", "metadata_end", "tensors", "version")

    def __init__(self, path: str | os.PathLike[str], number: int, whole: int | None = None) -> None:
        self.file = MappedFile(path)
        cursor = _Cursor(self.file, whole)
        magic = bytes(self.file.bytes[: len(MAGIC)])
        if magic != MAGIC:
            raise invalid(cursor.path, f"not a GGUF file: magic is {magic!r}, expected {MAGIC!r}")
        cursor.position = len(MAGIC)
        self.version = cursor.u32("version")
        if self.version not in VERSIONS:
            swapped = int.from_bytes(self.version.to_bytes(4, "big"), "little")
            if swapped in VERSIONS:
                raise unsupported(
                    cursor.path,
                    f"GGUF version {swapped} in big-endian order; expected little-endian",
                )
            raise unsupported(
                cursor.path, f"GGUF version {self.version}; expected one of {list(VERSIONS)}"
            )
        n_tensors = cursor.u64("tensor count")
        n_pairs = cursor.u64("metadata count")
        if n_pairs > cursor.left // MIN_PAIR_BYTES:
            raise invalid(
                cursor.path,
                f"metadata count {n_pairs} does not fit in the {cursor.left} bytes left",
            )
        if n_tensors > cursor.left // MIN_TENSOR_BYTES:
            raise invalid(
                cursor.path,
                f"tensor count {n_tensors} does not fit in the {cursor.left} bytes left",
            )
        self.metadata = _read_metadata(cursor, n_pairs)
        self.metadata_end = cursor.position
        self.alignment = _alignment(cursor, self.metadata)
        found: dict[str, TensorInfo] = {}
        for index in range(n_tensors):
            info = _read_tensor(cursor, index, self.alignment, number)
            if info.name in found:
                raise invalid(cursor.path, f"tensor {shown(info.name)} stands twice")
            found[info.name] = info
        placed = _place(cursor, list(found.values()), self.alignment)
        self.tensors = {info.name: info for info in placed}


def _metadata_int(part: _Part, key: str, default: int) -> int:
    value = part.metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise invalid(part.file.path, f"metadata '{key}' must be a count, found {shown(value)}")
    return value


def _read_parts(path: str | os.PathLike[str]) -> list[_Part]:
    """The files of a checkpoint: one, or all parts of a split one, whichever part was named."""
    named = _Part(path, 0)
    count = _metadata_int(named, "split.count", 1)
    if count > MAX_PARTS:
        raise invalid(path, f"metadata 'split.count' is {count}, at most {MAX_PARTS} is allowed")
    folder, name = os.path.split(os.fspath(path))
    match = _SPLIT_NAME.fullmatch(name)
    if match is not None and int(match["count"]) != max(count, 1):
        raise invalid(
            path,
            f"the name says {int(match['count'])} parts, metadata 'split.count' is {count}",
        )
    if count <= 1:
        return [named]
    if match is None:
        raise invalid(
            path,
            f"a part of a checkpoint split into {count} files must be named "
            f"NAME-00001-of-{count:05d}.gguf",
        )
    parts: list[_Part] = []
    for index in range(count):
        part_path = os.path.join(folder, f"{match['stem']}-{index + 1:05d}-of-{count:05d}.gguf")
        if not os.path.exists(part_path):
            raise missing(part_path, f"part {index + 1} of {count} of the checkpoint is missing")
        part = _Part(part_path, index)
        for key, expected in (("split.no", index), ("split.count", count)):
            value = _metadata_int(part, key, -1 if key not in part.metadata else 0)
            if value != expected:
                raise invalid(part_path, f"metadata '{key}' is {value}, expected {expected}")
        parts.append(part)
    # Parts repeat little of the metadata; what they do repeat tells parts of another checkpoint.
    for part in parts[1:]:
        for key in ("split.tensors.count", "general.architecture", "general.name"):
            here, first = part.metadata.get(key), parts[0].metadata.get(key)
            if here is not None and here != first:
                raise invalid(
                    part.file.path,
                    f"metadata '{key}' is {shown(here)}, in the first part {shown(first)}: the "
                    "parts are of different checkpoints",
                )
    total = sum(len(part.tensors) for part in parts)
    expected_total = _metadata_int(parts[0], "split.tensors.count", total)
    if total != expected_total:
        raise invalid(
            parts[0].file.path,
            f"metadata 'split.tensors.count' is {expected_total}, the parts hold {total} tensors",
        )
    return parts


class GgufFile:
    """A GGUF checkpoint, opened: ``metadata`` and ``tensors`` are read-only mappings, bytes stay in
    the file.

    A checkpoint split over several files is one object: the metadata is the first part's.

    >>> checkpoint = open_gguf("model.gguf")  # doctest: +SKIP
    >>> checkpoint.architecture, len(checkpoint.tensors)  # doctest: +SKIP
    ('llama', 272)
    """

    __slots__ = ("_metadata_end", "_parts", "alignment", "metadata", "path", "tensors", "version")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        parts = _read_parts(path)
        first = parts[0]
        self._parts = tuple(part.file for part in parts)
        self.path = first.file.path
        self.version = first.version
        self.alignment = first.alignment
        self._metadata_end = first.metadata_end
        self.metadata: Mapping[str, Any] = MappingProxyType(first.metadata)
        tensors: dict[str, TensorInfo] = {}
        for part in parts:
            for name, info in part.tensors.items():
                if name in tensors:
                    raise invalid(
                        part.file.path,
                        f"tensor {shown(name)} also stands in "
                        f"{self._parts[tensors[name].part].path}",
                    )
                tensors[name] = info
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(tensors)

    def __repr__(self) -> str:
        return f"GgufFile({self.path!r}, {len(self.tensors)} tensors)"

    @property
    def architecture(self) -> str:
        """``general.architecture``. Raises ``InvalidArgumentError`` when the file does not say."""
        value = self.metadata.get("general.architecture")
        if not isinstance(value, str) or not value:
            raise invalid(
                self.path, f"metadata 'general.architecture' must be a string, found {shown(value)}"
            )
        return value

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

    def drop_metadata_pages(self) -> None:
        """The same for the metadata: a vocabulary takes megabytes there."""
        self._parts[0].drop_pages(0, self._metadata_end)

    def _info(self, name: str) -> TensorInfo:
        try:
            return self.tensors[name]
        except KeyError:
            raise invalid(self.path, f"there is no tensor {shown(name)}") from None

    def metadata_json(self) -> str:
        """All metadata as one JSON object, arrays included, in the order of the file."""
        plain = {
            key: value.tolist() if isinstance(value, GgufArray) else value
            for key, value in self.metadata.items()
        }
        return json.dumps(plain, ensure_ascii=False)


def open_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Open a GGUF checkpoint without reading its tensors.

    ``path`` names a file; when the file is one part of a split checkpoint, all parts are opened.
    Errors: ``NotFoundError`` (``NO_SUCHFILE``) for a missing file or part, ``UnsupportedError`` for
    a version or a tensor type that is unknown, ``InvalidArgumentError`` for everything that is
    wrong inside the file; the message names file, field, what was found and what was expected.
    """
    return GgufFile(path)


def check_header(path: str | os.PathLike[str], whole: int) -> None:
    """Check the header of one GGUF file of ``whole`` bytes, of which ``path`` holds the beginning.

    Errors are those of ``open_gguf``: also ``InvalidArgumentError`` for a beginning that is too
    short to hold the header. The other parts of a split checkpoint are not looked at.
    """
    _Part(path, 0, whole)
