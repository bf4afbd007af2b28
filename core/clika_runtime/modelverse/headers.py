"""A model source opened for its configuration and headers; of a repository no weights move."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .sources import ResolvedSource, place, resolve
from .sources.reference import Reference

__all__ = ["Source", "config_folder", "opened"]

#: What a user may name a model by.
Source = str | os.PathLike[str] | ResolvedSource


@contextlib.contextmanager
def opened(
    source: Source,
    *,
    weights: str | None = None,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> Iterator[ResolvedSource]:
    """The files of a source for readers of configuration and headers, for the time of the block.

    A repository of the hub that is not cached stands there in outline: small files and the headers
    of its weights are real, the rest are holes. Everything else is resolved, and raises, as by
    `sources.resolve`."""
    found = source if isinstance(source, ResolvedSource) else place(source, weights=weights)
    if isinstance(found, Reference):
        from .hub.outline import outline
        from .hub.repository import open_repository

        repository = open_repository(found, offline=offline, cache_dir=cache_dir, quiet=quiet)
        with outline(repository, repository.choose()) as outlined:
            yield outlined
        return
    yield resolve(source, weights=weights, offline=offline, cache_dir=cache_dir, quiet=quiet)


def config_folder(source: Source) -> Path | None:
    """The folder of a source that has a config.json, with weights or without; None for any other
    source."""
    if isinstance(source, ResolvedSource):
        return None
    try:
        path = Path(source)
        return path if (path / "config.json").is_file() else None
    except (OSError, ValueError, TypeError):
        return None
