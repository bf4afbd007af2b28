"""Requests to the hub: the listing of a repository, and what the hub's refusals mean.

The session, the status checks and the errors are those of ``huggingface_hub``; what the hub answers
is checked before it is used, since file names, sizes and checksums come from it.
"""

from __future__ import annotations

import contextlib
import email.utils
import importlib
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote

from ...errors import (
    ClikaRTError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from ..sources.reference import Reference
from ..sources.wheel import unsafe_name
from . import settings

__all__ = [
    "Listing",
    "RemoteFile",
    "Stopped",
    "Transient",
    "complete",
    "file_url",
    "listing",
    "patiently",
    "raise_for_status",
    "speaking",
    "stream",
]

_log = logging.getLogger("clika_runtime.modelverse")
_T = TypeVar("_T")
_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_FILES = 100_000
_MAX_SIZE = 1 << 50
TRIES = 5  # without progress in between
WAIT_S = 1.0  # before the first repetition; doubled each time
LONGEST_WAIT_S = 60.0  # a hub that asks for more is believed and the command ends
TIMEOUT_S = 20.0  # without a byte


class Stopped(Exception):
    """Another file failed, or Ctrl-C was pressed: this one stops where it is."""


class Transient(Exception):
    """A failure that may pass: worth another try. ``wait`` is what the hub asks for, in seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


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
            reference.repo, revision=reference.revision, files_metadata=True, timeout=TIMEOUT_S
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _senseless(reference, f"the listing cannot be read ({error!r:.200})") from error
    except ValueError as error:
        from huggingface_hub.errors import HFValidationError

        if isinstance(error, HFValidationError) or isinstance(error, OSError):
            raise
        raise _senseless(reference, f"the listing cannot be read ({error!r:.200})") from error


def patiently(
    action: Callable[[], _T],
    what: str,
    stop: threading.Event | None = None,
    tries: int | None = None,
) -> _T:
    """Run ``action`` until it does not fail with `Transient` any more, with growing waits between.

    Raises ``UnavailableError`` when the tries are used up, or when the hub asks for a wait that is
    longer than a minute.
    """
    wait, tries = WAIT_S, tries or TRIES
    for attempt in range(1, tries + 1):
        try:
            return action()
        except Transient as error:
            asked = error.wait
            if attempt == tries or (asked is not None and asked > LONGEST_WAIT_S):
                later = f"; the hub asks to wait {asked:.0f} s" if asked else ""
                raise UnavailableError(
                    f"{what}: {error}{later} ({attempt} {'tries' if attempt > 1 else 'try'}); "
                    "run the command again later, what is fetched is kept"
                ) from error
            pause = wait if asked is None else asked
            _log.info("%s: %s; trying again in %.0f s", what, error, pause)
            if stop is None:
                time.sleep(pause)
            elif stop.wait(pause):
                raise Stopped from error
            wait *= 2
    raise AssertionError("unreachable")


def stream(url: str, headers: Mapping[str, str]) -> Any:
    """A GET whose body is read piece by piece: a context manager that gives the response. The
    transport follows redirects and leaves the token behind at another host."""
    utils: Any = importlib.import_module("huggingface_hub.utils")
    return utils.get_session().stream(
        "GET", url, headers=dict(headers), follow_redirects=True, timeout=TIMEOUT_S
    )


def raise_for_status(response: Any) -> None:
    utils: Any = importlib.import_module("huggingface_hub.utils")
    if response.status_code >= 400:
        with contextlib.suppress(Exception):  # the body has the hub's own words, if it comes
            response.read()
    utils.hf_raise_for_status(response)


@contextlib.contextmanager
def speaking(reference: Reference) -> Iterator[None]:
    """Turns what goes wrong in a conversation with the hub into `Transient` or a typed error."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    try:
        yield
    except (ClikaRTError, Transient):
        raise
    except OfflineModeIsEnabled as error:
        raise UnavailableError(
            f"'{reference.shown}': HF_HUB_OFFLINE was set when the program started, and "
            "huggingface_hub keeps to it; start again without it"
        ) from error
    except HfHubHTTPError as error:
        raise _translated(reference, error) from error
    except HFValidationError as error:
        raise InvalidArgumentError(f"'{reference.spec}': {error}") from error
    except Exception as error:
        if not _of_the_transport(error):
            raise
        where = settings.endpoint()
        if type(error).__name__ == "TooManyRedirects":
            raise UnavailableError(
                f"'{reference.shown}': {where} redirects without end ({error})"
            ) from error
        if type(error).__name__ in ("UnsupportedProtocol", "InvalidURL", "LocalProtocolError"):
            raise UnavailableError(
                f"'{reference.shown}': {where} is no address that can be asked: {error}"
            ) from error
        said = str(error) or type(error).__name__
        raise Transient(f"{where} cannot be reached or broke off ({said})") from error


def _of_the_transport(error: Exception) -> bool:
    """Whether ``error`` is one of the HTTP library that ``huggingface_hub`` uses (its major
    versions use different ones)."""
    for kind in type(error).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in ("httpx", "httpx2", "requests") and package in sys.modules:
            return True
    return isinstance(error, (ConnectionError, TimeoutError))


def _translated(reference: Reference, error: Any) -> Exception:
    from huggingface_hub import errors

    where, repo = settings.endpoint(), reference.repo
    response = getattr(error, "response", None)
    status = int(getattr(response, "status_code", 0) or 0)
    held = getattr(response, "headers", {})
    gated = f"'{repo}' is gated or private on {where}; set $HF_TOKEN or log in to the hub"
    secret = settings.token()
    if isinstance(error, errors.GatedRepoError):
        if secret:
            gated += f"; the token in use has no access: accept the terms at {where}/{repo}"
        return UnavailableError(gated)
    if isinstance(error, errors.RevisionNotFoundError):
        name = reference.revision or "main"
        return NotFoundError(f"'{repo}' has no revision '{name}' on {where}", "NOT_FOUND")
    if isinstance(error, errors.EntryNotFoundError):
        return NotFoundError(f"'{reference.shown}' lacks a file that it lists: {_short(error)}")
    if status in (401, 403):
        if secret:
            return UnavailableError(f"{gated}; the hub refuses the token in use ({status})")
        if status == 401:  # what the hub also says about names that do not exist
            gated += "; or there is no repository of this name"
        return UnavailableError(gated)
    if isinstance(error, errors.RepositoryNotFoundError) or status == 404:
        hidden = "the token in use does not open it" if secret else "a private one needs a token"
        return NotFoundError(
            f"'{repo}': no such file or directory here, and no such repository on {where} "
            f"({hidden})",
            "NOT_FOUND",
        )
    if isinstance(error, errors.DisabledRepoError):
        return UnsupportedError(f"'{repo}' is disabled on {where}")
    if status == 429:
        return Transient("the hub limits the rate of requests (429)", _retry_after(held))
    if status >= 500 or status == 408:
        return Transient(f"{where} answers with status {status}", _retry_after(held))
    return UnavailableError(f"'{reference.shown}': {where} answers: {_short(error)}")


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _retry_after(held: Mapping[str, str]) -> float | None:
    text = str(held.get("retry-after") or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


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
        if unsafe_name(name):
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
                timeout=TIMEOUT_S,
            )
        etag = found.etag or ""
        if found.size is None or not 0 <= found.size <= _MAX_SIZE or not _HEX.fullmatch(etag):
            raise _senseless(
                reference, f"{file.name!r} has size {found.size!r} and checksum {etag!r:.80}"
            )
        return RemoteFile(file.name, found.size, etag)

    return patiently(ask, f"'{reference.shown}': {file.name}")
