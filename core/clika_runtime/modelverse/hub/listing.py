"""What a repository holds, as the hub describes it.

What the hub answers is checked before it is used, since file names, sizes and checksums come from
it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from ...errors import InvalidArgumentError
from .. import catalog
from ..sources.reference import Reference
from ..sources.wheel import unsafe_name
from . import settings
from .client import head, patiently, pieces, raise_for_status, speaking, stream, whole_number

__all__ = ["Listing", "RemoteFile", "complete", "file_url", "listing"]

_log = logging.getLogger("clika_runtime.modelverse")
_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_FILES = 100_000
_MAX_SIZE = 1 << 50
_MAX_ANSWER = 64 << 20


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository: its name, its size, and its checksum as the cache names it (SHA-256
    of a large file, else git's SHA-1 of a blob); empty when the hub states none."""

    name: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository at one commit, as the hub describes it. ``ignored`` counts files whose names no
    cache can hold safely."""

    repo: str
    commit: str
    files: Mapping[str, RemoteFile]
    ignored: int = 0
    gated: str = ""
    private: bool = False
    license: str = ""
    license_name: str = ""
    base_model: str = ""
    gguf: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """The bytes of all files; None where the hub does not state them."""
        if not all(file.etag for file in self.files.values()):
            return None
        return sum(file.size for file in self.files.values())


def file_url(repo: str, commit: str, name: str) -> str:
    return f"{settings.endpoint()}/{repo}/resolve/{quote(commit, safe='')}/{quote(name)}"


def listing(reference: Reference, *, patient: bool = True) -> Listing:
    """Ask the hub for the repository's files, sizes and checksums; once only unless ``patient``.

    Raises ``NotFoundError`` for a repository or revision that does not exist, ``UnavailableError``
    for one that is gated or private and for a hub that cannot be reached, and
    ``InvalidArgumentError`` (``MALFORMED_FILE``) for an answer that makes no sense.
    """
    url = f"{settings.endpoint()}/api/models/{reference.repo}"
    if reference.revision is not None:
        url += f"/revision/{quote(reference.revision, safe='')}"

    def ask() -> Listing:
        return _checked(reference, _answer(reference, f"{url}?blobs=true"))

    what = f"the file list of '{reference.shown}'"
    return patiently(ask, what, tries=3 if patient else 1)


def _answer(reference: Reference, url: str) -> Mapping[str, Any]:
    body = bytearray()
    with speaking(reference), stream(url, settings.headers()) as response:
        raise_for_status(response)
        for chunk in pieces(response):
            body += chunk
            if len(body) > _MAX_ANSWER:
                raise _senseless(reference, f"more than {_MAX_ANSWER} bytes")
    try:
        answer = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        what = str(error) or type(error).__name__
        raise _senseless(reference, f"the listing is no JSON ({what[:200]})") from error
    if not isinstance(answer, dict):
        raise _senseless(reference, f"the listing is {type(answer).__name__}, expected an object")
    return answer


# ---------------------------------------------------------------- what the hub answers


def _checked(reference: Reference, answer: Mapping[str, Any]) -> Listing:
    commit = answer.get("sha")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise _senseless(reference, f"the commit is {commit!r:.80}, expected 40 hexadecimal digits")
    siblings = answer.get("siblings") or []
    if not isinstance(siblings, list) or not all(isinstance(row, dict) for row in siblings):
        raise _senseless(reference, f"the files are {siblings!r:.80}, expected a list of objects")
    if len(siblings) > _MAX_FILES:
        raise _senseless(reference, f"{len(siblings)} files, expected at most {_MAX_FILES}")
    files: dict[str, RemoteFile] = {}
    ignored: list[str] = []
    for row in siblings:
        name = row.get("rfilename")
        if not isinstance(name, str):
            raise _senseless(reference, f"a file name is {name!r:.80}")
        if unsafe_name(name) or not name.isprintable():  # names are shown in terminals
            ignored.append(name)
            continue
        files[name] = _file(reference, name, row)
    if ignored:
        _log.warning(
            "'%s': %d files are ignored, their names leave the folder or cannot be written (%s)",
            reference.shown,
            len(ignored),
            ", ".join(repr(name)[:80] for name in ignored[:3]),
        )
    card = _mapping(answer.get("cardData"))
    return Listing(
        reference.repo,
        commit,
        MappingProxyType(files),
        len(ignored),
        _gate(answer.get("gated")),
        bool(answer.get("private")),
        _license(card, answer.get("tags")),
        _word(card.get("license_name")),
        _word(card.get("base_model")),
        _mapping(answer.get("gguf")),
    )


def _file(reference: Reference, name: str, row: Mapping[str, Any]) -> RemoteFile:
    size, etag = row.get("size"), row.get("blobId")
    lfs = row.get("lfs")
    if isinstance(lfs, dict):
        size, etag = lfs.get("size"), lfs.get("sha256")
    if size is None and etag is None:
        return RemoteFile(name, 0, "")  # a mirror that states neither: asked for when it is needed
    return _stated(reference, name, size, etag)


def _stated(reference: Reference, name: str, size: Any, etag: Any) -> RemoteFile:
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MAX_SIZE:
        raise _senseless(reference, f"the size of {name!r} is {size!r:.80}")
    if not isinstance(etag, str) or not _HEX.fullmatch(etag):
        raise _senseless(reference, f"the checksum of {name!r} is {etag!r:.80}")
    return RemoteFile(name, size, etag)


def _senseless(reference: Reference, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"'{reference.shown}': {settings.endpoint()} answers nonsense: {what}", "MALFORMED_FILE"
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: Any) -> str:
    if isinstance(value, list) and value:
        value = value[0]
    return catalog.printable(value, 200) if isinstance(value, str) else ""


def _gate(value: Any) -> str:
    """``auto`` or ``manual`` as the hub states it; any other true value counts as a gate too."""
    return _word(value) or ("yes" if value else "")


def _license(card: Mapping[str, Any], tags: Any) -> str:
    stated = _word(card.get("license"))
    for tag in tags if isinstance(tags, list) else ():
        if not stated and isinstance(tag, str) and tag.startswith("license:"):
            stated = _word(tag.removeprefix("license:"))
    return stated


def complete(reference: Reference, commit: str, file: RemoteFile) -> RemoteFile:
    """The same file with size and checksum, asked for singly where the listing stated none."""
    if file.etag:
        return file
    url = file_url(reference.repo, commit, file.name)

    def ask() -> RemoteFile:
        with speaking(reference):
            held = head(url, settings.headers())
        etag = held.get("x-linked-etag") or held.get("etag") or ""
        size = held.get("x-linked-size") or held.get("content-length") or ""
        return _stated(reference, file.name, whole_number(size), etag.removeprefix("W/").strip('"'))

    return patiently(ask, f"'{reference.shown}': {file.name}")
