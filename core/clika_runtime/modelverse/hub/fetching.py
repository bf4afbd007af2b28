"""Fetching the files of a model: the space is checked first, then several come at a time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ...errors import ClikaRTError, UnavailableError
from ..sources import cache
from ..sources.reference import Reference
from .client import Stopped
from .listing import RemoteFile
from .progress import Progress
from .storage import Storage
from .transfer import fetch_file

__all__ = ["fetch_files", "in_threads", "missing_bytes"]

WORKERS = 8
_GRACE_S = 2.0  # for the transfers under way to see that they are to stop


def missing_bytes(
    storage: Storage, commit: str, files: Sequence[RemoteFile], verify: bool = False
) -> tuple[list[RemoteFile], int]:
    """The files that the snapshot lacks, and how many bytes they still take on the disk."""
    lacking = [file for file in files if not storage.holds(commit, file, verify=verify)]
    total = 0
    seen: set[str] = set()
    for file in lacking:
        if file.etag in seen or _size(storage.blob(file)) == file.size:
            continue
        seen.add(file.etag)
        total += max(file.size - _size(storage.partial(file)), 0)
    return lacking, total


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def fetch_files(
    reference: Reference,
    commit: str,
    files: Sequence[RemoteFile],
    storage: Storage,
    progress: Progress,
    *,
    verify: bool = False,
) -> None:
    """Bring ``files`` into the snapshot, those that it holds already excepted. When one fails the
    others stop, and what has arrived of them is kept for the next call."""
    lacking, nbytes = missing_bytes(storage, commit, files, verify)
    present = {file.name for file in files} - {file.name for file in lacking}
    try:
        for file in files:
            if file.name in present:
                storage.make_real(commit, file)
        if not lacking:
            return
        storage.folder.mkdir(parents=True, exist_ok=True)
        if nbytes:
            cache.check_space(storage.folder, nbytes, f"'{reference.shown}'")
    except ClikaRTError:  # some of ours are OSErrors too
        raise
    except OSError as error:
        raise UnavailableError(
            f"'{reference.shown}': the cache cannot be written: {error}; name another folder with "
            "--cache-dir"
        ) from error
    # Equal contents are fetched once and placed twice, so they follow each other in one thread.
    groups: dict[str, list[RemoteFile]] = {}
    for file in lacking:
        groups.setdefault(file.etag, []).append(file)

    def bring(group: list[RemoteFile], stop: threading.Event) -> None:
        for file in group:
            moved = progress.file(file.name, file.size)
            try:
                fetch_file(reference, commit, file, storage, stop, moved)
            except ClikaRTError:
                raise
            except OSError as error:
                raise UnavailableError(
                    f"'{reference.shown}': {file.name} cannot be written: {error}"
                ) from error
            progress.done(file.name, file.size)

    in_threads([partial(bring, group) for group in groups.values()])


def in_threads(jobs: Sequence[Callable[[threading.Event], None]]) -> None:
    """Run the jobs, eight at a time. When one fails, or Ctrl-C is pressed, the event that each was
    given is set, and the others have two seconds to end."""
    stop = threading.Event()
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    work: queue.SimpleQueue[Callable[[threading.Event], None]] = queue.SimpleQueue()
    for job in jobs:
        work.put(job)

    def labour() -> None:
        failure: BaseException | None = None
        try:
            while not stop.is_set():
                try:
                    job = work.get_nowait()
                except queue.Empty:
                    break
                job(stop)
        except Stopped:
            pass
        except BaseException as error:
            failure = error
        ended.put(failure)

    # Daemons: a transfer that hangs in a dead connection does not keep the process alive.
    threads = [
        threading.Thread(target=labour, name=f"fetch-{i}", daemon=True)
        for i in range(min(WORKERS, len(jobs)))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            failure = _next(ended)
            if failure is not None:
                raise failure
    except BaseException:
        stop.set()
        limit = time.monotonic() + _GRACE_S
        for thread in threads:
            thread.join(max(limit - time.monotonic(), 0))
        raise


def _next(ended: queue.SimpleQueue[BaseException | None]) -> BaseException | None:
    while True:  # short waits, so that Ctrl-C is seen on every system
        try:
            return ended.get(timeout=0.2)
        except queue.Empty:
            continue
