"""Where the hub is, where its cache is and which token opens it. Everything is read from the
environment at the time of the call, so that a program may set it late."""

from __future__ import annotations

import os
from pathlib import Path

from ..._version import __version__
from ...errors import InvalidArgumentError
from ..sources.cache import named_folder
from ..sources.reference import endpoint

__all__ = ["USER_AGENT", "cache_folder", "endpoint", "headers", "token", "token_path"]

#: No library versions and no machine facts: the telemetry of the hub's client stays out of it.
USER_AGENT = f"clika-runtime/{__version__}"
_TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def _path(text: str) -> Path:
    return Path(os.path.expandvars(os.path.expanduser(text)))


def _home() -> Path:
    named = os.environ.get("HF_HOME")
    if named:
        return _path(named)
    return _path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The snapshot cache: ``cache_dir``, else ``HF_HUB_CACHE`` (``HUGGINGFACE_HUB_CACHE``), else
    ``$HF_HOME/hub``, else the folder that all Hugging Face tools share."""
    if cache_dir is not None:
        return named_folder(cache_dir)
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return _path(named).absolute() if named else (_home() / "hub").absolute()


def token_path() -> Path:
    """The file that a login of the hub writes: ``HF_TOKEN_PATH``, else ``$HF_HOME/token``."""
    named = os.environ.get("HF_TOKEN_PATH")
    return _path(named) if named else _home() / "token"


def token() -> str | None:
    """``HF_TOKEN``, else what a login stored (``huggingface_hub`` refreshes it when it must); None:
    no token. Raises ``InvalidArgumentError`` for a text that no header can carry."""
    for name in _TOKEN_VARIABLES:
        text = os.environ.get(name, "")
        if text.strip():
            return _one_line(text, name)
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").lower() in ("1", "on", "yes", "true"):
        return None
    from huggingface_hub import constants, get_token

    path = token_path()
    if path == Path(constants.HF_TOKEN_PATH):
        return _one_line(get_token() or "", str(path))
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return _one_line(text, str(path))


def _one_line(text: str, where: str) -> str | None:
    text = text.replace("\r", "").replace("\n", "").strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidArgumentError(
            f"the token in {where} holds characters that no token has; set it again",
            "FAILED_PRECONDITION",
        )
    return text or None


def headers() -> dict[str, str]:
    """The headers of every request to the hub; the transport drops the token at another host."""
    sent = {"user-agent": USER_AGENT, "accept-encoding": "identity"}
    secret = token()
    if secret:
        sent["authorization"] = f"Bearer {secret}"
    return sent
