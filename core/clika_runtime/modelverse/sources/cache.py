"""Where fetched models live, and the lock that keeps two processes from writing one entry."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ...errors import InvalidArgumentError, UnavailableError

__all__ = ["cache_root", "check_space", "is_offline", "lock", "named_folder"]

_log = logging.getLogger("clika_runtime.modelverse")
_OFFLINE_VARIABLES = ("CLIKA_MODELVERSE_OFFLINE", "HF_HUB_OFFLINE")
_ON, _OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
_MARGIN = 64 << 20  # bytes left free on the disk


def named_folder(cache_dir: str | os.PathLike[str]) -> Path:
    """A folder that the user names, absolute; ``~`` is the home folder."""
    text = os.fsdecode(cache_dir)
    if not text.strip() or "\0" in text:
        raise InvalidArgumentError(f"the cache folder {text!r} is no name of a folder")
    return Path(os.path.expanduser(text)).absolute()


def cache_root(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder of fetched models: ``cache_dir``, else the user's cache folder of this system."""
    if cache_dir is not None:
        return named_folder(cache_dir)
    import platformdirs

    return Path(platformdirs.user_cache_dir("clika-runtime", appauthor=False))


def is_offline(flag: bool = False) -> str | None:
    """What forbids the network: ``--offline`` or the name of an environment variable; None:
    nothing."""
    if flag:
        return "--offline"
    for name in _OFFLINE_VARIABLES:
        word = os.environ.get(name, "").strip()
        if word.lower() in _ON:
            return f"{name}={word}"
        # What words the other variable takes is its owner's affair.
        if name == _OFFLINE_VARIABLES[0] and word.lower() not in _OFF:
            raise InvalidArgumentError(
                f"{name} is {word!r}; it takes {', '.join(_ON)}, or {', '.join(_OFF[1:])}"
            )
    return None


def check_space(folder: Path, nbytes: int, what: str) -> None:
    """Refuse before the first byte when the disk of ``folder`` cannot hold ``nbytes``."""
    free = shutil.disk_usage(folder).free
    if free < nbytes + _MARGIN:
        raise UnavailableError(
            f"{what} needs {nbytes + _MARGIN} bytes in {folder}, {free} are free; "
            f"make room there or name "
            "another folder with --cache-dir"
        )


@contextlib.contextmanager
def lock(path: Path, stop: threading.Event | None = None) -> Iterator[None]:
    """Hold the lock file ``path`` exclusively; the system lets go of it when the process ends.
    A waiter whose ``stop`` is set goes on without the lock: it is not to begin anything."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        tries = 0
        while not _try_lock(handle):
            if stop is not None and stop.is_set():
                break
            if tries == 10:
                _log.info("waiting for another process that fetches into %s", path.parent)
            time.sleep(0.1)
            tries += 1
        yield
    finally:
        os.close(handle)


if os.name == "nt":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
