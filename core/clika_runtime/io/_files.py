"""Opening, mapping and refusing files: shared by every reader of this folder."""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clika_runtime.errors import (
    ClikaRTError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)

__all__ = [
    "MappedFile",
    "check_inside",
    "invalid",
    "missing",
    "parse_json",
    "read_bytes",
    "read_head",
    "read_json",
    "shown",
    "unsupported",
    "write_atomic",
]

_SHOWN = 120  # characters of a hostile value that a message repeats


def shown(value: object) -> str:
    """A value as a message shows it: ``repr``, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def invalid(path: str | os.PathLike[str], problem: str) -> InvalidArgumentError:
    """The error for a file whose content is wrong; the message starts with the file."""
    return InvalidArgumentError(f"{os.fspath(path)}: {problem}", "MALFORMED_FILE")


def unsupported(path: str | os.PathLike[str], problem: str) -> UnsupportedError:
    """The error for a file that is well formed but holds something this build does not read."""
    return UnsupportedError(f"{os.fspath(path)}: {problem}")


def missing(path: str | os.PathLike[str], problem: str = "no such file") -> NotFoundError:
    """The error for a file that is not there (code ``NO_SUCHFILE``)."""
    return NotFoundError(f"{os.fspath(path)}: {problem}")


def _open(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading. A pipe or a device would block or never end, so it is
    refused."""
    name = os.fspath(path)
    if not name:
        raise invalid("''", "the path is empty")
    try:
        # O_NONBLOCK keeps the open of a named pipe from waiting for a writer before we can refuse
        # it.
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(name, flags | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing(name) from error
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise missing(shown(name), f"no such file ({error.strerror})") from error
        raise invalid(name, f"cannot be opened: {error.strerror}") from error
    except ValueError as error:  # a NUL inside the name
        raise invalid(shown(name), f"cannot be opened: {error}") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise invalid(name, f"expected a file, found {kind}")
    return descriptor


class MappedFile:
    """A file mapped read-only. ``bytes`` is a view of all of it and keeps the mapping alive.

    The mapping lives as long as any view of it. A file that is cut short by another program while
    it is mapped cannot be read safely by anyone (the system ends the process); replace files by
    renaming.
    """

    __slots__ = ("bytes", "map", "path", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        descriptor = _open(path)
        try:
            self.size = os.fstat(descriptor).st_size
            if self.size == 0:
                raise invalid(path, "the file is empty (0 bytes)")
            try:
                self.map = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError, OverflowError) as error:
                raise invalid(path, f"cannot be mapped: {error}") from error
        finally:
            os.close(descriptor)
        self.bytes = memoryview(self.map)

    def drop_pages(self, offset: int, nbytes: int) -> None:
        """Tell the system that these bytes are not needed soon; whole pages inside the range leave
        memory."""
        if not hasattr(self.map, "madvise") or not hasattr(mmap, "MADV_DONTNEED"):
            return
        page = mmap.PAGESIZE
        first = -(-offset // page) * page
        last = (offset + nbytes) // page * page
        if last > first:
            self.map.madvise(mmap.MADV_DONTNEED, first, last - first)


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a file of at most ``limit`` bytes."""
    descriptor = _open(path)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise invalid(path, f"the file has {size} bytes, more than the limit of {limit}")
        try:
            return file.read(limit + 1)[: limit + 1]
        except OSError as error:
            raise invalid(path, f"cannot be read: {error}") from error


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {shown(key)} stands twice in one object")
            seen.add(key)
    return result


def read_head(path: str | os.PathLike[str], nbytes: int) -> bytes:
    """The first bytes of a file, fewer when it is shorter."""
    with os.fdopen(_open(path), "rb") as file:
        try:
            return file.read(nbytes)
        except OSError as error:
            raise invalid(path, f"cannot be read: {error}") from error


def parse_json(
    data: bytes | memoryview,
    path: str | os.PathLike[str],
    what: str = "the file",
    *,
    unique_keys: bool = False,
) -> Any:
    """Parse JSON of unknown origin. Every failure is an ``InvalidArgumentError`` that names the
    file.

    With ``unique_keys`` an object with a repeated key is refused (the readers of formats ask for
    it, since a repeated key means two programs may read two different things).
    """
    try:
        text = str(data, "utf-8")
        return json.loads(text, object_pairs_hook=_no_duplicates if unique_keys else None)
    except UnicodeDecodeError as error:
        raise invalid(path, f"{what} is not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise invalid(path, f"{what} is JSON nested too deeply") from error
    except ValueError as error:
        raise invalid(path, f"{what} is not valid JSON: {error}") from error


def read_json(
    path: str | os.PathLike[str], limit: int = 64 << 20, *, unique_keys: bool = False
) -> Any:
    """Read and parse a JSON file of at most ``limit`` bytes (default 64 MiB)."""
    return parse_json(read_bytes(path, limit), path, unique_keys=unique_keys)


def check_inside(name: object, source: str | os.PathLike[str]) -> str:
    """A file name found inside a model file, checked to stay in the model's directory.

    Symbolic links on disk are the user's own and are followed; a name in a file may not be
    absolute, climb with ``..`` or use another system's separators.
    """
    if not isinstance(name, str):
        raise invalid(source, f"a file name must be a string, found {shown(name)}")
    parts = name.split("/")
    bad = (
        not name
        or len(name) > 1024
        or "\\" in name
        or any(ord(character) < 32 for character in name)
        or ":" in name
        or any(part in ("", ".", "..") for part in parts)
        or Path(name).is_absolute()
    )
    if bad:
        raise invalid(
            source, f"the file name {shown(name)} must be a plain path inside the model's directory"
        )
    return name


def write_atomic(target: str, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file that appears under its name only when it is complete: it is written beside it
    and renamed. Errors: ``NotFoundError`` for a missing directory, ``InvalidArgumentError`` for
    what the system refuses."""
    folder, name = os.path.split(target)
    try:
        mode = os.stat(target).st_mode
    except (OSError, ValueError):  # not there, or refused below
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # the file would replace a device
        raise invalid(target, "cannot be written: it is there and no regular file")
    temporary = os.path.join(folder, f".{name[:64]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError, ValueError):
            os.unlink(temporary)
        if isinstance(error, ClikaRTError):
            raise
        if isinstance(error, FileNotFoundError):
            raise missing(folder, "no such directory") from error
        if isinstance(error, (OSError, ValueError)):
            raise invalid(target, f"cannot be written: {error}") from error
        raise
