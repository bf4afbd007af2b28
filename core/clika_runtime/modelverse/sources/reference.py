"""What a user writes to name a repository of the hub: an id, with a revision, a path and a
selector, or a pasted URL. Pure text: nothing is looked up here.

    org/repo                    the repository
    org/repo:Q6_K               one of its weight options
    org/repo@REVISION           a branch, a tag or a commit (as in the hub's own hf:// paths)
    org/repo/file.gguf          a file of it, or a folder
    https://huggingface.co/org/repo/blob/REVISION/file.gguf      (also resolve, raw and tree)
    hf://org/repo@REVISION/file.gguf
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ...errors import InvalidArgumentError, UnsupportedError
from ..console import without_secrets
from .wheel import unsafe_name

__all__ = ["DEFAULT_ENDPOINT", "Reference", "endpoint", "is_url", "parse_id", "parse_url"]

DEFAULT_ENDPOINT = "https://huggingface.co"
_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WORD = r"[A-Za-z0-9](?:[\w.-]*[\w])?"
_REVISION = r"refs/(?:pr|convert)/[^/:@]+|[^/:@]+"
_ID = re.compile(
    rf"(?P<repo>{_WORD}/{_WORD})(?:@(?P<revision>{_REVISION}))?"
    r"(?:/(?P<path>[^:]+))?(?::(?P<selector>[^:]+))?",
    re.ASCII,
)
_VIEW = re.compile(
    rf"(?P<repo>{_WORD}/{_WORD})/(?:blob|resolve|raw|tree)/"
    rf"(?P<revision>refs/(?:pr|convert)/[^/]+|[^/]+)(?:/(?P<path>.*))?",
    re.ASCII,
)
_OTHER_KINDS = ("datasets", "spaces", "kernels", "buckets", "collections", "papers", "api")


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository ``repo`` (``org/name``) at ``revision`` (None: the default branch), the file or
    folder ``path`` of it, and the ``selector`` of a weight option; empty where none is named."""

    spec: str
    repo: str
    revision: str | None = None
    path: str = ""
    selector: str = ""

    @property
    def shown(self) -> str:
        """The repository as users write it, for messages."""
        return self.repo if self.revision is None else f"{self.repo}@{self.revision}"


def endpoint() -> str:
    """The hub's address: ``HF_ENDPOINT``, else https://huggingface.co. Read at every call.

    Raises ``InvalidArgumentError`` for one with a user or a password, which messages would show."""
    named = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or DEFAULT_ENDPOINT
    if "@" in named.split("//", 1)[-1].split("/", 1)[0]:
        raise InvalidArgumentError(
            "HF_ENDPOINT holds a user or a password; name the address alone, a token goes into "
            "HF_TOKEN",
            "FAILED_PRECONDITION",
        )
    return named


def is_url(spec: str) -> bool:
    return _URL.match(spec) is not None


def parse_id(spec: str) -> Reference | None:
    """``org/repo[@REVISION][/PATH][:SELECTOR]``; None for a text that is no such id.

    >>> parse_id("Qwen/Qwen3-4B-GGUF:Q6_K").selector
    'Q6_K'
    >>> parse_id("org/repo@v1.0/sub/model.gguf").path
    'sub/model.gguf'
    >>> parse_id("./folder") is None
    True
    """
    found = _ID.fullmatch(spec)
    if not found or "--" in found["repo"] or ".." in found["repo"]:
        return None
    path = (found["path"] or "").rstrip("/")
    return _checked(
        Reference(spec, found["repo"], found["revision"], path, found["selector"] or "")
    )


def parse_url(spec: str) -> Reference:
    """A pasted URL of a model repository, or of a file or folder in it.

    Raises ``UnsupportedError`` for another host or another kind of repository, and
    ``InvalidArgumentError`` for a URL of the hub that names no repository.

    >>> parse_url("https://huggingface.co/org/repo/blob/main/model-Q6_K.gguf?download=true").path
    'model-Q6_K.gguf'
    """
    if without_secrets(spec) != spec:
        raise InvalidArgumentError(
            f"the URL {without_secrets(spec)} holds a user or a password; name it without, a token "
            "goes into HF_TOKEN"
        )
    try:
        parts = urlsplit(spec)
        host, scheme = (parts.hostname or "").lower(), parts.scheme.lower()
        usual = parts.port in (None, 80, 443)
    except ValueError as error:
        raise InvalidArgumentError(f"'{spec}' is no URL: {error}") from error
    if scheme == "hf":
        return _from_hf(spec)
    known = urlsplit(endpoint())
    ours = parts.netloc.lower() == known.netloc.lower() or (host in _HOSTS and usual)
    if scheme not in ("http", "https") or not ours:
        raise UnsupportedError(
            f"'{spec}' is a URL of another host than {endpoint()}; a URL source is one of a model "
            "repository there. Fetch the file yourself and name its path"
        )
    path = unquote(parts.path).strip("/")
    if parts.netloc.lower() == known.netloc.lower():  # a mirror may stand below a path
        path = path.removeprefix(known.path.strip("/")).lstrip("/")
    if path.split("/", 1)[0] in _OTHER_KINDS and path.count("/"):
        raise UnsupportedError(f"'{spec}' is no model repository ({path.split('/', 1)[0]})")
    view = _VIEW.fullmatch(path)
    if view:
        inside = (view["path"] or "").rstrip("/")
        return _checked(Reference(spec, view["repo"], view["revision"], inside))
    plain = parse_id(path)
    if plain is None or plain.path:
        raise InvalidArgumentError(
            f"'{spec}' names no model repository; expected {endpoint()}/org/repo, or a blob, "
            "resolve or tree URL of a file or folder in it"
        )
    return Reference(spec, plain.repo, plain.revision, "", plain.selector)


def _from_hf(spec: str) -> Reference:
    path = spec.split("://", 1)[1].removeprefix("models/")
    found = None if path.split("/", 1)[0] in _OTHER_KINDS else parse_id(unquote(path))
    if found is None:
        raise InvalidArgumentError(
            f"'{spec}' names no model repository; expected hf://org/repo[@REVISION][/FILE]"
        )
    return Reference(spec, found.repo, found.revision, found.path, found.selector)


def _checked(reference: Reference) -> Reference:
    for what, text in (("path", reference.path), ("revision", reference.revision or "")):
        reason = unsafe_name(text) if text else None
        if reason:
            raise InvalidArgumentError(
                f"'{reference.spec}': the {what} {text!r} is not plain: {reason}"
            )
    return reference
