"""Conversations with the hub: requests, patience, and what the hub's refusals mean.

The session, the status checks and the errors are those of ``huggingface_hub``. Its calls beyond
those are not used: while it composes their headers it may ask the hub for more than was wanted.
"""

from __future__ import annotations

import contextlib
import email.utils
import importlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from ...errors import (
    ClikaRTError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from ..sources.reference import Reference
from . import settings

__all__ = [
    "Stopped",
    "Transient",
    "head",
    "patiently",
    "pieces",
    "raise_for_status",
    "speaking",
    "stream",
    "whole_number",
]

_log = logging.getLogger("clika_runtime.modelverse")
_T = TypeVar("_T")
TRIES = 5  # without progress in between
WAIT_S = 1.0  # before the first repetition; doubled each time
LONGEST_WAIT_S = 60.0  # a hub that asks for more is believed and the command ends
TIMEOUT_S = 20.0  # without a byte
_RENAMES = 5
_MAX_REFUSAL = 1 << 16  # bytes of a refusal's body
_ABOUT_THE_BODY = (b"content-encoding", b"content-length", b"transfer-encoding")


class Stopped(Exception):
    """Another file failed, or Ctrl-C was pressed: this one stops where it is."""


class Transient(Exception):
    """A failure that may pass: worth another try. ``wait`` is what the hub asks for, in seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


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


def head(url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers that the hub gives for a file: its own, not those of the content network that it
    redirects to; a redirect on the hub itself (a renamed repository) is followed."""
    utils: Any = importlib.import_module("huggingface_hub.utils")
    for _ in range(_RENAMES):
        response = utils.get_session().request(
            "HEAD", url, headers=dict(headers), follow_redirects=False, timeout=TIMEOUT_S
        )
        raise_for_status(response)
        target = urljoin(url, response.headers.get("location") or url)
        if target == url or urlsplit(target)[:2] != urlsplit(url)[:2]:  # scheme and host
            break
        url = target
    held: Mapping[str, str] = response.headers
    return held


def raise_for_status(response: Any) -> None:
    """Raise the client's error for a refusal; the hub's own words in its body are read, if they
    come and are short."""
    utils: Any = importlib.import_module("huggingface_hub.utils")
    if response.status_code >= 400 and not response.is_stream_consumed:
        said = bytearray()
        with contextlib.suppress(Exception):
            for chunk in pieces(response):
                said += chunk
                if len(said) > _MAX_REFUSAL:
                    break
        response = type(response)(
            response.status_code,
            headers=[row for row in response.headers.raw if row[0].lower() not in _ABOUT_THE_BODY],
            content=bytes(said[:_MAX_REFUSAL]),
            request=response.request,
        )
    utils.hf_raise_for_status(response)


def pieces(response: Any) -> Iterator[bytes]:
    """The body of a streamed answer. It was asked for as it is; one compression is undone, several
    layers of it are refused, since a few bytes of those fill any memory."""
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "deflate"):
        raise UnavailableError(
            f"{urlsplit(str(response.url)).netloc} sends an answer coded as {coding[:60]!r}, "
            "which nobody asked for"
        )
    yield from response.iter_bytes()


def whole_number(text: str) -> int | None:
    """A header's whole number; None for everything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


@contextlib.contextmanager
def speaking(reference: Reference) -> Iterator[None]:
    """Turns what goes wrong in a conversation with the hub into `Transient` or a typed error."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        yield
    except (ClikaRTError, Transient):
        raise
    except OfflineModeIsEnabled as error:
        raise UnavailableError(
            f"'{reference.shown}': HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) was set when the "
            "program started, and huggingface_hub keeps to it; start again without it"
        ) from error
    except HfHubHTTPError as error:
        raise _translated(reference, error) from error
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
    if isinstance(error, errors.DisabledRepoError):
        return UnsupportedError(f"'{repo}' is disabled on {where}")
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
    if status == 429:
        return Transient("the hub limits the rate of requests (429)", _retry_after(held))
    if status >= 500 or status == 408:
        return Transient(f"{where} answers with status {status}", _retry_after(held))
    return UnavailableError(f"'{reference.shown}': {where} answers: {_short(error)}")


def _short(error: BaseException) -> str:
    """What the hub said, as one line that a terminal shows harmlessly."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    return " ".join(text.split())[:300]


def _retry_after(held: Mapping[str, str]) -> float | None:
    text = str(held.get("retry-after") or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError, OSError):  # no date, or one of no calendar
        return None
