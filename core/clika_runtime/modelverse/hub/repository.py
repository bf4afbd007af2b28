"""A repository of the hub as a model source: which of its files make the model, and their fetch.

Online the hub's listing says what there is; offline, and where the hub cannot be reached, the
cached snapshot does.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import (
    ClikaRTError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from ..sources import cache, layout
from ..sources.layout import Option
from ..sources.options import at_path, choose, human_size, option_table
from ..sources.reference import Reference
from ..sources.resolved import ResolvedSource
from ..sources.wheel import no_model
from . import settings
from .client import Transient
from .fetching import fetch_files, missing_bytes
from .listing import Listing, RemoteFile, complete, listing
from .progress import Progress
from .storage import Storage

__all__ = ["Plan", "Repository", "open_repository"]

_log = logging.getLogger("clika_runtime.modelverse")
_INDEX = ".safetensors.index.json"
_MAX_CONFIG = 64 << 20  # what the readers of configurations take
_MAX_COMPANION = 256 << 20  # the largest tokenizers and indices stay far below
_PART = re.compile(r"-\d{5}-of-(?P<parts>\d{5})\.\w+$")


@dataclass(frozen=True, slots=True)
class Plan:
    """The files that a fetch brings, in order."""

    companions: tuple[RemoteFile, ...]
    weights: tuple[RemoteFile, ...]

    @property
    def files(self) -> tuple[RemoteFile, ...]:
        return self.companions + self.weights

    @property
    def weight_bytes(self) -> int:
        return sum(file.size for file in self.weights)

    @property
    def nbytes(self) -> int:
        return sum(file.size for file in self.files)


class Repository:
    """One repository at one commit. ``listing`` is None when only the cache was looked at;
    ``forbidden`` then says what forbids the network."""

    def __init__(
        self,
        reference: Reference,
        storage: Storage,
        commit: str,
        listed: Listing | None,
        forbidden: str | None,
        quiet: bool,
    ) -> None:
        self.reference = reference
        self.storage = storage
        self.commit = commit
        self.listing = listed
        self.forbidden = forbidden
        self.quiet = quiet
        self.names: Sequence[str] = sorted(listed.files) if listed else storage.names(commit)
        self.options = layout.weight_options(self.names)
        self._known: dict[str, RemoteFile] = {}

    @property
    def folder(self) -> Path:
        return self.storage.snapshot(self.commit)

    # ------------------------------------------------------------ choosing

    def candidates(self) -> list[Option]:
        """The options that the source leaves: one when it is settled."""
        reference = self.reference
        if not self.options:
            if self.listing is None:
                raise self._not_cached("its weights are not in the cache")
            raise no_model(f"'{reference.shown}'", list(self.names))
        try:
            left = self.options
            if reference.path:
                left = at_path(reference.spec, left, reference.path)
            if reference.selector:
                return [choose(reference.spec, left, reference.selector)]
        except (NotFoundError, InvalidArgumentError) as error:
            if self.listing is None:
                raise self._not_cached(str(error)) from error
            raise
        if len(left) > 1 and "model_index.json" in self.names and not reference.path:
            parts = ", ".join(sorted({option.root for option in left if option.root}))
            raise UnsupportedError(
                f"'{reference.shown}' is a pipeline of several models ({parts}), and no loader "
                "reads pipelines yet; name one part as "
                f"{reference.shown}/{left[0].root or left[0].weights[0]}"
            )
        if len(left) > 1 and not reference.path:
            own = layout.own_checkpoint(left, self.names)
            return [own] if own is not None else list(left)
        return list(left)

    def choose(self) -> Option:
        """The one weight option that the source stands for; ``InvalidArgumentError`` with the
        table of options when it is not settled."""
        left = self.candidates()
        if len(left) > 1:
            raise InvalidArgumentError(self.table(left))
        return left[0]

    def table(self, options: Sequence[Option]) -> str:
        """The table of options with their sizes, for a source that is not settled."""
        files = (file for option in options for file in self._remote(option.weights))
        sizes = {file.name: file.size for file in files}
        left_out = layout.sidecars(self.names)
        return option_table(self.reference.shown, options, sizes, left_out)

    # ------------------------------------------------------------ files

    def plan(self, option: Option) -> Plan:
        """The files of ``option``, sizes and checksums known. Asks nothing about the index."""
        return Plan(self._remote(option.companions), self._remote(option.weights))

    def _remote(self, names: Sequence[str]) -> tuple[RemoteFile, ...]:
        if self.listing is None:
            return tuple(RemoteFile(n, (self.folder / n).stat().st_size, "") for n in names)
        for name in names:
            if name not in self._known:
                file = self.listing.files[name]
                self._known[name] = complete(self.reference, self.commit, file)
        return tuple(self._known[name] for name in names)

    def bring(self, names: Sequence[str]) -> None:
        """Fetch small files of the repository, without a progress bar."""
        if not names:
            return
        if self.listing is None:
            lacking = [name for name in names if name not in self.names]
            if lacking:
                raise self._not_cached(f"{', '.join(lacking)} is not in the cache")
            return
        files = self._remote(names)
        self._refuse_absurd(files)
        with Progress(quiet=True) as progress:
            fetch_files(self.reference, self.commit, files, self.storage, progress)
        self.storage.remember(self.reference.revision, self.commit)

    def by_index(self, option: Option) -> Option:
        """The option with the weights that its index names; the index has been fetched.

        Raises ``InvalidArgumentError`` for an index that names files outside of the model and
        ``NotFoundError`` for one that names files which the repository lacks.
        """
        if option.kind != "safetensors":
            return self._whole(option)
        index = posixpath.join(option.root, posixpath.basename(option.name) + _INDEX)
        if index not in option.companions:
            if len(option.weights) > 1:
                raise NotFoundError(
                    f"'{self.reference.shown}' has no {index}; a checkpoint in "
                    f"{len(option.weights)} shards needs its index"
                )
            return option
        from ...io._files import check_inside, invalid, read_json

        path = self.folder / index
        content = read_json(path, _MAX_COMPANION)
        table = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(table, dict) or not table:
            raise invalid(path, "'weight_map' must be an object that names a file for each tensor")
        named = sorted({posixpath.join(option.root, check_inside(n, path)) for n in table.values()})
        there = set(self.names)
        lacking = [name for name in named if name not in there]
        if lacking and self.listing is None:
            raise self._not_cached(f"{len(lacking)} of {len(named)} shards are not in the cache")
        if lacking:
            raise NotFoundError(
                f"'{self.reference.shown}': {index} names {len(lacking)} files that the "
                f"repository lacks ({', '.join(lacking[:3])})"
            )
        return replace(option, weights=tuple(named))

    def _whole(self, option: Option) -> Option:
        part = _PART.search(option.weights[0])
        parts = int(part["parts"]) if part else 1
        if len(option.weights) == parts:
            return option
        what = f"{len(option.weights)} of {parts} parts of {option.name}"
        if self.listing is None:
            raise self._not_cached(f"only {what} are in the cache")
        raise NotFoundError(f"'{self.reference.shown}' has only {what}")

    # ------------------------------------------------------------ fetching

    def fetch(self, *, verify: bool = False) -> ResolvedSource:
        """Bring the files of the chosen option into the cache: companions first, then the weights
        that the index names. What is there already is checked and kept."""
        option = self.choose()
        if self.listing is None:
            return self.resolved(self.by_index(option))
        plan = self.plan(option)
        self._refuse_absurd(plan.companions)
        lacking, nbytes = missing_bytes(self.storage, self.commit, plan.files, verify)
        if nbytes:
            self._check_space(nbytes)
            _log.info(
                "fetching '%s': %d %s, %s",
                self.reference.shown,
                len(lacking),
                "file" if len(lacking) == 1 else "files",
                human_size(nbytes),
            )
        with Progress(self.quiet) as progress:
            self._bring(plan.companions, progress, verify)
            option = self.by_index(option)
            self._bring(self._remote(option.weights), progress, verify)
        self.storage.remember(self.reference.revision, self.commit)
        return self.resolved(option)

    def _bring(self, files: Sequence[RemoteFile], progress: Progress, verify: bool) -> None:
        fetch_files(self.reference, self.commit, files, self.storage, progress, verify=verify)

    def _check_space(self, nbytes: int) -> None:
        """The space of the disk, asked at the nearest folder that exists."""
        folder = self.storage.folder
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        cache.check_space(folder, nbytes, f"'{self.reference.shown}'")

    def _refuse_absurd(self, files: Sequence[RemoteFile]) -> None:
        for file in files:
            if file.name.endswith(".safetensors"):  # weights of a module
                continue
            limit = (
                _MAX_CONFIG if posixpath.basename(file.name) == "config.json" else _MAX_COMPANION
            )
            if file.size > limit:
                raise InvalidArgumentError(
                    f"'{self.reference.shown}': {file.name} has {file.size} bytes, more than the "
                    f"limit of {limit}; nothing was fetched",
                    "MALFORMED_FILE",
                )

    def lacking(self, option: Option) -> int:
        """How many bytes a fetch of the option would still move."""
        if self.listing is None:
            return 0
        return missing_bytes(self.storage, self.commit, self.plan(option).files)[1]

    def cached(self, option: Option) -> ResolvedSource | None:
        """The option when all of it is here already; None otherwise."""
        try:
            if self.listing is None:
                return self.resolved(self.by_index(option))
            plan = self.plan(option)
            if all(self.storage.holds(self.commit, file) for file in plan.files):
                return self.resolved(self.by_index(option))
        except UnavailableError:
            pass
        return None

    def resolved(self, option: Option, folder: Path | None = None) -> ResolvedSource:
        """The source for readers; ``folder`` stands in for the snapshot."""
        top = self.folder if folder is None else folder
        weights = tuple(top / name for name in option.weights)
        gguf = option.kind == "gguf"
        path = weights[0] if gguf else top / option.root
        return ResolvedSource(
            self.reference.spec,
            option.kind,
            path,
            weights,
            tuple(top / name for name in option.companions),
            path.stem if gguf else self.reference.repo.split("/")[1],
            "hub",
            license=self.listing.license if self.listing else "",
            repo=self.reference.repo,
            commit=self.commit,
            snapshot=top,
        )

    def _not_cached(self, what: str) -> UnavailableError:
        return _not_cached(self.reference, self.storage, self.forbidden, what)


def _not_cached(
    reference: Reference, storage: Storage, forbidden: str | None, what: str
) -> UnavailableError:
    if forbidden is None:
        return UnavailableError(f"'{reference.shown}': {what}, and the hub cannot be reached")
    return UnavailableError(
        f"'{reference.shown}': {what} ({storage.root}), and {forbidden} forbids to fetch it; run "
        f"once without {forbidden.partition('=')[0]}, or name a directory that has the files"
    )


def open_repository(
    reference: Reference,
    *,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> Repository:
    """Ask the hub what the repository holds; offline, look what the cache has of it.

    A hub that cannot be reached is asked once, and not for minutes, when the cache has the
    revision; its copy is then used, with a warning.
    """
    storage = Storage(settings.cache_folder(cache_dir), reference.repo, cache_dir is not None)
    forbidden = cache.is_offline(offline)
    commit = storage.commit(reference.revision)
    if forbidden is not None:
        if commit is None:
            raise _not_cached(reference, storage, forbidden, "it is not in the cache")
        return Repository(reference, storage, commit, None, forbidden, quiet)
    try:
        listed = listing(reference, patient=commit is None)
    except ClikaRTError as error:
        if commit is None or not isinstance(error.__cause__, Transient):
            raise
        _log.warning("'%s': %s; the cached copy is used", reference.shown, error.__cause__)
        return Repository(reference, storage, commit, None, None, quiet)
    return Repository(reference, storage, listed.commit, listed, None, quiet)
