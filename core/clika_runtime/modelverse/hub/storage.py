"""The cache of the hub on disk, in the layout that all Hugging Face tools share:

    models--org--name/refs/REVISION                    the commit that a name stands for
    models--org--name/blobs/CHECKSUM                   contents
    models--org--name/snapshots/COMMIT/path/to/file    links to them
    .locks/models--org--name/CHECKSUM.lock

In a folder of the user's own a snapshot holds real files (hard links), so that a plain copy of it
is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import InvalidArgumentError
from .listing import RemoteFile

__all__ = ["Storage", "digest_of"]

_log = logging.getLogger("clika_runtime.modelverse")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CHUNK = 1 << 20
_SMALL = 1 << 20  # files up to this size are hashed whenever they are looked at


class Storage:
    """The cached files of one repository under the cache folder ``root``. ``own`` says that the
    folder is the user's own, so snapshots hold real files."""

    def __init__(self, root: Path, repo: str, own: bool) -> None:
        self.root = root
        self.repo = repo
        self.own = own
        self.folder = root / f"models--{repo.replace('/', '--')}"

    def blob(self, file: RemoteFile) -> Path:
        return self.folder / "blobs" / file.etag

    def partial(self, file: RemoteFile) -> Path:
        return self.folder / "blobs" / f"{file.etag}.incomplete"

    def lock(self, file: RemoteFile) -> Path:
        return self.root / ".locks" / self.folder.name / f"{file.etag}.lock"

    def snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit

    def commit(self, revision: str | None) -> str | None:
        """The commit that ``revision`` stood for when it was last fetched; None: never."""
        name = revision or "main"
        with contextlib.suppress(OSError, ValueError):
            text = (self.folder / "refs" / name).read_text(encoding="ascii").strip()
            if _COMMIT.fullmatch(text) and self.snapshot(text).is_dir():
                return text
        if _COMMIT.fullmatch(name) and self.snapshot(name).is_dir():
            return name
        return None

    def remember(self, revision: str | None, commit: str) -> None:
        """Note what ``revision`` stands for. A cache that cannot be written keeps its old note."""
        name = revision or "main"
        if name == commit:
            return
        path = self.folder / "refs" / name
        with contextlib.suppress(OSError):
            if path.is_file() and path.read_bytes().strip() == commit.encode():
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
            beside.write_text(commit, encoding="ascii")
            os.replace(beside, path)

    def names(self, commit: str) -> list[str]:
        """The files of a cached snapshot, relative to it. Links that lead out of the cache or to
        nothing do not count."""
        top = self.snapshot(commit)
        found = []
        for folder, _, files in os.walk(top):
            for name in files:
                path = Path(folder, name)
                if self._usable(path):
                    found.append(path.relative_to(top).as_posix())
        return sorted(found)

    def _usable(self, path: Path) -> bool:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        bases = (self.folder.resolve(), self.root.resolve())
        if real.is_file() and any(base in real.parents for base in bases):
            return True
        _log.warning("%s leads out of the cache (%s) and is not used", path, real)
        return False

    def holds(self, commit: str, file: RemoteFile, *, verify: bool = False) -> bool:
        """Whether the snapshot has the file whole: by its size, and by its checksum where it is
        small or ``verify`` asks for it."""
        try:
            return self._whole(self.snapshot(commit) / file.name, file, verify)
        except OSError:  # somebody removed it meanwhile, or it cannot be read
            return False

    def _whole(self, path: Path, file: RemoteFile, verify: bool) -> bool:
        if not path.exists() or not self._usable(path):
            return False
        if path.stat().st_size != file.size:
            _log.warning("%s has another size than the hub states; it is fetched again", path)
            return False
        if file.size > _SMALL and not verify:
            return True
        if digest_of(path, file) == file.etag:
            return True
        _log.warning("%s is damaged (checksum); it is fetched again", path)
        return False

    def has_blob(self, file: RemoteFile) -> bool:
        """Whether the content is there under its checksum, from another revision perhaps."""
        path = self.blob(file)
        try:
            return path.stat().st_size == file.size and digest_of(path, file) == file.etag
        except OSError:
            return False

    def place(self, commit: str, file: RemoteFile) -> Path:
        """Give the blob its name in the snapshot; it appears there whole."""
        top = self.snapshot(commit)
        target = top / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        inside, real = top.resolve(), target.parent.resolve()
        if real != inside and inside not in real.parents:
            raise InvalidArgumentError(
                f"{target.parent} leads out of the snapshot ({real}); remove it and fetch again",
                "MALFORMED_FILE",
            )
        blob = self.blob(file)
        beside = target.parent / f".{secrets.token_hex(8)}.tmp"
        try:
            if self.own or not _linked(blob, beside):
                try:
                    os.link(blob.resolve(), beside)
                except OSError:  # no hard links there: the snapshot has the only copy
                    os.replace(blob, beside)
            os.replace(beside, target)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()
        return target

    def make_real(self, commit: str, file: RemoteFile) -> None:
        """Turn a link of the snapshot into a real file, in a folder of the user's own."""
        path = self.snapshot(commit) / file.name
        if self.own and path.is_symlink() and self.blob(file).exists():
            self.place(commit, file)


def _linked(blob: Path, link: Path) -> bool:
    try:
        os.symlink(os.path.relpath(blob, link.parent), link)
    except (OSError, NotImplementedError):
        return False
    return True


def new_digest(file: RemoteFile) -> Any:
    """The running checksum that ``file.etag`` states: SHA-256, or git's SHA-1 with its header."""
    if len(file.etag) == 64:
        return hashlib.sha256()
    digest = hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % file.size)
    return digest


def digest_of(path: Path, file: RemoteFile, feed: Callable[[int], None] | None = None) -> str:
    """The checksum of a file on disk, in the form that ``file.etag`` has."""
    digest = new_digest(file)
    with open(path, "rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            if feed is not None:
                feed(len(chunk))
    text: str = digest.hexdigest()
    return text
