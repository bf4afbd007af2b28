"""Fetching one file: resumed where it stopped, its checksum computed on the way.

The bytes collect in ``blobs/CHECKSUM.incomplete``, which other Hugging Face tools resume too; the
name without the suffix appears when size and checksum are right, and never before.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...errors import ClikaRTError, InvalidArgumentError, UnavailableError
from ..sources import cache
from ..sources.reference import Reference
from . import client, settings
from .client import (
    Stopped,
    Transient,
    patiently,
    pieces,
    raise_for_status,
    speaking,
    stream,
    whole_number,
)
from .listing import RemoteFile, file_url
from .storage import Storage, new_digest

__all__ = ["fetch_file", "read_range"]

_log = logging.getLogger("clika_runtime.modelverse")
# A single answer stays below what content networks deliver at once (50 GB).
_SEGMENT = 32 << 30
_CHUNK = 1 << 20
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)


class Transfer:
    """One file on its way. ``moved`` is told how many bytes have arrived (negative: given up)."""

    def __init__(
        self,
        reference: Reference,
        commit: str,
        file: RemoteFile,
        partial: Path,
        stop: threading.Event,
        moved: Callable[[int], None],
    ) -> None:
        self.reference = reference
        self.file = file
        self.partial = partial
        self.stop = stop
        self.moved = moved
        self.url = file_url(reference.repo, commit, file.name)
        self.what = f"'{reference.shown}': {file.name}"
        self.digest: Any = new_digest(file)
        self.done = 0
        self.restarts = 0

    def run(self) -> None:
        """Fetch the rest of the file into ``partial`` and check it."""
        for attempt in (1, 2):
            with self._opened() as sink:
                self._resume(sink)
                while self.done < self.file.size:
                    patiently(lambda: self._stretch(sink), self.what, self.stop)
                sink.flush()
                os.fsync(sink.fileno())
            actual = self.digest.hexdigest()
            if actual == self.file.etag:
                return
            self.partial.unlink(missing_ok=True)  # nothing of it can be trusted
            self.moved(-self.done)
            if attempt == 1:
                _log.warning("%s: the checksum is wrong; fetching it once more", self.what)
                self.digest, self.done = new_digest(self.file), 0
        raise InvalidArgumentError(
            f"{self.what}: the checksum is {actual}, expected {self.file.etag}; the hub, or "
            "something between it and here, sends other content than it states",
            "MALFORMED_FILE",
        )

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        """The partial file for reading and writing; what the disk refuses becomes a typed error."""
        try:
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            flags |= getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(self.partial, flags, 0o644), "r+b") as sink:
                yield sink
        except ClikaRTError:  # some of ours are OSErrors too
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise UnavailableError(
                    f"{self.what}: the disk is full at {self.done} of {self.file.size} bytes "
                    f"({self.partial.parent}: {error.strerror}); make room, or name another "
                    "folder with --cache-dir; what is fetched is kept"
                ) from error
            raise UnavailableError(f"{self.what}: cannot be written: {error}") from error

    def _resume(self, sink: Any) -> None:
        """Take over what an earlier try left; its bytes enter the checksum."""
        held = os.fstat(sink.fileno()).st_size
        if held > self.file.size:
            sink.truncate(0)
            return
        while chunk := sink.read(_CHUNK):
            if self.stop.is_set():
                raise Stopped
            self._count(chunk)
        if self.done:
            _log.debug("%s: resumed at %d of %d bytes", self.what, self.done, self.file.size)

    def _count(self, chunk: bytes) -> None:
        self.digest.update(chunk)
        self.done += len(chunk)
        self.moved(len(chunk))

    def _again(self, sink: Any) -> None:
        """Start over: the hub does not continue where this file stopped."""
        self.restarts += 1
        if self.restarts > client.TRIES:
            raise UnavailableError(
                f"{self.what}: the connection breaks and the hub does not continue the file "
                f"({self.restarts} times from the start)"
            )
        sink.seek(0)
        sink.truncate()
        self.moved(-self.done)
        self.digest, self.done = new_digest(self.file), 0

    def _stretch(self, sink: Any) -> None:
        """One request: from where the file stands to its end, or to the end of a segment. Progress
        makes a failure at its end none: the caller asks on from there."""
        begun = self.done
        try:
            with speaking(self.reference):
                self._receive(sink)
        except Transient as error:
            if self.done == begun:
                raise
            _log.info("%s: %s; going on at %d bytes", self.what, error, self.done)

    def _receive(self, sink: Any) -> None:
        headers = settings.headers()
        end = min(self.file.size, self.done + _SEGMENT)
        if self.done or end < self.file.size:
            headers["range"] = f"bytes={self.done}-{end - 1}"
        with stream(self.url, headers) as response:
            if response.status_code == 416 and self.done:
                self._again(sink)
                raise Transient("the hub does not continue the file")
            raise_for_status(response)
            if response.status_code == 206:
                check_range(response, self.done)
            elif "range" in headers:
                self._again(sink)
            self._check_length(response)
            for chunk in pieces(response):
                if self.stop.is_set():
                    raise Stopped
                if self.done + len(chunk) > self.file.size:
                    raise self._wrong(f"more than the {self.file.size} bytes that it states")
                sink.write(chunk)
                self._count(chunk)
        if self.done < end:
            raise Transient(f"the connection ended at {self.done} of {self.file.size} bytes")

    def _check_length(self, response: Any) -> None:
        length = whole_number(response.headers.get("content-length", ""))
        coded = response.headers.get("content-encoding", "identity") != "identity"
        if length is not None and not coded and self.done + length > self.file.size:
            raise self._wrong(f"{length} bytes, the hub's own listing says {self.file.size}")

    def _wrong(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{self.what}: the hub sends {what}; nothing of it is kept under the file's name",
            "MALFORMED_FILE",
        )


def check_range(response: Any, start: int) -> None:
    """A part of a file has to begin where it was asked for."""
    text = response.headers.get("content-range", "")
    found = _RANGE.fullmatch(text)
    if not found or int(found[1]) != start:
        raise Transient(f"the hub continues with {text!r:.60}, bytes {start}- were asked")


def fetch_file(
    reference: Reference,
    commit: str,
    file: RemoteFile,
    storage: Storage,
    stop: threading.Event,
    moved: Callable[[int], None],
) -> Path:
    """Make sure that the snapshot has the file, and return its path. Two processes that want the
    same content wait for each other and fetch it once."""
    path = storage.lock(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with cache.lock(path, stop):
        if stop.is_set():
            raise Stopped
        if storage.has_blob(file):
            moved(file.size)
        else:
            partial = storage.partial(file)
            Transfer(reference, commit, file, partial, stop, moved).run()
            os.replace(partial, storage.blob(file))
        return storage.place(commit, file)


def read_range(
    reference: Reference,
    commit: str,
    file: RemoteFile,
    start: int,
    count: int,
    stop: threading.Event,
) -> bytes:
    """``count`` bytes of a remote file from ``start`` on, fewer at its end. Nothing is stored."""
    end = min(start + count, file.size)
    if end <= start:
        return b""
    headers = {**settings.headers(), "range": f"bytes={start}-{end - 1}"}
    url = file_url(reference.repo, commit, file.name)
    what = f"'{reference.shown}': the header of {file.name}"

    def ask() -> bytes:
        found = bytearray()
        skip = 0
        with speaking(reference), stream(url, headers) as response:
            raise_for_status(response)
            if response.status_code == 206:
                check_range(response, start)
            else:
                skip = start  # the whole file comes: step over what was not asked for
            for chunk in pieces(response):
                if stop.is_set():
                    raise Stopped
                found += chunk[skip:]
                skip = max(skip - len(chunk), 0)
                if len(found) >= end - start:
                    break
        del found[end - start :]
        if len(found) != end - start:
            raise Transient(f"the connection ended at {len(found)} of {end - start} bytes")
        return bytes(found)

    return patiently(ask, what, stop)
