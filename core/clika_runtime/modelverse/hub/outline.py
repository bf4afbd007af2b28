"""A repository in outline: what readers of configuration and headers need, and no weights.

In a temporary folder the small files are real, and every other file is a hole of the right size
that begins with the header of the original. So one reader serves a model that is here and one that
is not; the bytes of tensors, and of vocabularies beside the weights, are zeros.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ...errors import InvalidArgumentError, UnavailableError
from ..sources.layout import Option
from ..sources.resolved import ResolvedSource
from .fetching import in_threads
from .listing import RemoteFile
from .repository import Repository
from .transfer import read_range

__all__ = ["outline"]

_FIRST = 256 << 10  # holds the header of most safetensors files
_MAX_HEADER = 256 << 20
# Vocabularies: large, and no fact about the model is read from them.
_HOLES = (
    "added_tokens.json",
    "merges.txt",
    "spiece.model",
    "tekken.json",
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
)


@contextlib.contextmanager
def outline(
    repository: Repository, option: Option, *, headers: bool = True
) -> Iterator[ResolvedSource]:
    """The option as a source for readers of configuration and headers. An option that is cached
    whole is given as it is; of another one the small files are fetched into the cache and the
    headers are read. Without ``headers`` the weights are holes alone.

    Raises what ``Repository.fetch`` raises, and ``InvalidArgumentError`` for a header that is
    larger than 256 MiB.
    """
    whole = repository.cached(option)
    if whole is not None:
        yield whole
        return
    small = [n for n in option.companions if not _is_hole(n)]
    repository.bring(small)
    option = repository.by_index(option)
    plan = repository.plan(option)
    # A map of a file may outlive the block, and some systems do not remove such a file.
    with tempfile.TemporaryDirectory(prefix="clika-outline-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            for file in plan.files:
                path = folder / file.name
                path.parent.mkdir(parents=True, exist_ok=True)
                if file.name in small:
                    path.write_bytes((repository.folder / file.name).read_bytes())
                else:
                    with open(path, "wb") as hole:
                        hole.truncate(file.size)
        except OSError as error:
            raise UnavailableError(
                f"'{repository.reference.shown}': {folder} cannot be written: {error}"
            ) from error
        if headers:
            in_threads([partial(_header, repository, file, folder) for file in plan.weights])
        yield repository.resolved(option, folder)


def _is_hole(name: str) -> bool:
    base = posixpath.basename(name)
    return base in _HOLES or base.endswith(".safetensors")


def _header(repository: Repository, file: RemoteFile, folder: Path, stop: threading.Event) -> None:
    path = folder / file.name
    if file.name.endswith(".gguf"):
        _gguf_header(repository, file, path, stop)
        return
    held = _grow(repository, file, path, 0, _FIRST, stop)
    with open(path, "rb") as source:
        length = int.from_bytes(source.read(8), "little")
    if length > min(_MAX_HEADER, file.size):  # the reader says what is wrong with the latter
        if file.size > _MAX_HEADER:
            raise _too_large(repository, file, length)
        return
    _grow(repository, file, path, held, 8 + length - held, stop)


def _gguf_header(
    repository: Repository, file: RemoteFile, path: Path, stop: threading.Event
) -> None:
    """Read more and more of the file until a reader finds the header whole."""
    from ...io.gguf import MAGIC, check_header

    held, count = 0, _FIRST
    while True:
        os.truncate(path, held)
        held += _grow(repository, file, path, held, count, stop)
        try:
            check_header(path, file.size)
            break
        except InvalidArgumentError:
            with open(path, "rb") as source:
                foreign = source.read(len(MAGIC)) != MAGIC
            if foreign or held >= file.size:
                break  # whoever opens it says what is wrong
        if held >= _MAX_HEADER:
            raise _too_large(repository, file, held)
        count = 3 * held  # in all: 256 KiB, 1 MiB, 4 MiB, 16 MiB, 64 MiB, 256 MiB
    os.truncate(path, file.size)


def _grow(
    repository: Repository,
    file: RemoteFile,
    path: Path,
    start: int,
    count: int,
    stop: threading.Event,
) -> int:
    if count <= 0:
        return 0
    data = read_range(repository.reference, repository.commit, file, start, count, stop)
    with open(path, "r+b") as sink:
        sink.seek(start)
        sink.write(data)
        sink.flush()
    return len(data)


def _too_large(repository: Repository, file: RemoteFile, nbytes: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"'{repository.reference.shown}': the header of {file.name} takes {nbytes} bytes or more, "
        f"the limit is {_MAX_HEADER}",
        "MALFORMED_FILE",
    )
