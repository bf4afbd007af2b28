"""What a repository holds, as the hub describes it.

What the hub answers is checked before it is used, since file names, sizes and checksums come from
it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from ...errors import InvalidArgumentError
from ..sources.reference import Reference
from ..sources.wheel import unsafe_name
from . import client, settings
from .client import patiently, speaking

__all__ = ["Listing", "RemoteFile", "complete", "file_url", "listing"]

_log = logging.getLogger("clika_runtime.modelverse")
_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_FILES = 100_000
_MAX_SIZE = 1 << 50


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
    pipeline_tag: str = ""
    gguf: Mapping[str, Any] = field(default_factory=dict)
    safetensors: Mapping[str, Any] = field(default_factory=dict)

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
    from huggingface_hub import HfApi

    secret = settings.token()
    api = HfApi(
        endpoint=settings.endpoint(),
        token=secret if secret else False,
        headers={"user-agent": settings.USER_AGENT},
    )

    def ask() -> Listing:
        with speaking(reference):
            info = _parsed(reference, api)
        return _checked(reference, info)

    what = f"the file list of '{reference.shown}'"
    return patiently(ask, what, tries=3 if patient else 1)


def _parsed(reference: Reference, api: Any) -> Any:
    try:
        return api.model_info(
            reference.repo,
            revision=reference.revision,
            files_metadata=True,
            timeout=client.TIMEOUT_S,
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _senseless(reference, f"the listing cannot be read ({error!r:.200})") from error
    except ValueError as error:
        from huggingface_hub.errors import HFValidationError

        if isinstance(error, HFValidationError) or isinstance(error, OSError):
            raise
        raise _senseless(reference, f"the listing cannot be read ({error!r:.200})") from error


# ---------------------------------------------------------------- what the hub answers


def _checked(reference: Reference, info: Any) -> Listing:
    commit = info.sha
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise _senseless(reference, f"the commit is {commit!r:.80}, expected 40 hexadecimal digits")
    siblings = info.siblings or []
    if len(siblings) > _MAX_FILES:
        raise _senseless(reference, f"{len(siblings)} files, expected at most {_MAX_FILES}")
    files: dict[str, RemoteFile] = {}
    ignored: list[str] = []
    for sibling in siblings:
        name = sibling.rfilename
        if not isinstance(name, str):
            raise _senseless(reference, f"a file name is {name!r:.80}")
        if unsafe_name(name) or not name.isprintable():  # names are shown in terminals
            ignored.append(name)
            continue
        files[name] = _file(reference, name, sibling)
    if ignored:
        _log.warning(
            "'%s': %d files are ignored, their names leave the folder or cannot be written (%s)",
            reference.shown,
            len(ignored),
            ", ".join(repr(name)[:80] for name in ignored[:3]),
        )
    card = _mapping(getattr(info, "card_data", None))
    tags = [tag for tag in (info.tags or []) if isinstance(tag, str)]
    return Listing(
        reference.repo,
        commit,
        MappingProxyType(files),
        len(ignored),
        str(info.gated) if info.gated else "",
        bool(info.private),
        _license(card, tags),
        _word(card.get("license_name")),
        _word(card.get("base_model")),
        _word(info.pipeline_tag),
        _mapping(getattr(info, "gguf", None)),
        _mapping(getattr(info, "safetensors", None)),
    )


def _file(reference: Reference, name: str, sibling: Any) -> RemoteFile:
    lfs = sibling.lfs
    size, etag = sibling.size, sibling.blob_id
    if lfs is not None:
        size, etag = getattr(lfs, "size", None), getattr(lfs, "sha256", None)
    if size is None and etag is None:
        return RemoteFile(name, 0, "")  # a mirror that states neither: asked for when it is needed
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
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    return {k: v for k, v in getattr(value, "__dict__", {}).items() if not k.startswith("_")}


def _word(value: Any) -> str:
    if isinstance(value, list) and value:
        value = value[0]
    return " ".join(value.split())[:200] if isinstance(value, str) else ""


def _license(card: Mapping[str, Any], tags: list[str]) -> str:
    stated = _word(card.get("license"))
    for tag in tags:
        stated = stated or (tag.removeprefix("license:") if tag.startswith("license:") else "")
    return _word(stated)


def complete(reference: Reference, commit: str, file: RemoteFile) -> RemoteFile:
    """The same file with size and checksum, asked for singly where the listing stated none."""
    if file.etag:
        return file
    from huggingface_hub import get_hf_file_metadata

    def ask() -> RemoteFile:
        with speaking(reference):
            found = get_hf_file_metadata(
                file_url(reference.repo, commit, file.name),
                token=settings.token() or False,
                headers={"user-agent": settings.USER_AGENT},
                timeout=client.TIMEOUT_S,
            )
        etag = found.etag or ""
        if found.size is None or not 0 <= found.size <= _MAX_SIZE or not _HEX.fullmatch(etag):
            raise _senseless(
                reference, f"{file.name!r} has size {found.size!r} and checksum {etag!r:.80}"
            )
        return RemoteFile(file.name, found.size, etag)

    return patiently(ask, f"'{reference.shown}': {file.name}")
