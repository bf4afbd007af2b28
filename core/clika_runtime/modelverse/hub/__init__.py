"""The model hub: repositories fetched into the cache that all Hugging Face tools share.

    from clika_runtime.modelverse import hub

    found = hub.snapshot("Qwen/Qwen2.5-0.5B-Instruct", cache_dir="models")
    print(found.local_dir)

``huggingface_hub`` is imported by the calls that touch the network, and by nothing else.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

__all__ = ["Snapshot", "snapshot", "snapshot_download"]

_log = logging.getLogger("clika_runtime.modelverse")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a model on this machine.

    ``local_dir`` is their folder, ``files`` are their paths and ``path`` is what ``fetch`` prints:
    the weight file of a GGUF, else the folder. ``repo`` and ``commit`` are None for a model that
    does not come from the hub.
    """

    local_dir: str
    path: str
    files: tuple[str, ...]
    repo: str | None = None
    commit: str | None = None


def snapshot(
    source: str | os.PathLike[str],
    *,
    revision: str | None = None,
    weights: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    verify: bool = False,
    quiet: bool = False,
) -> Snapshot:
    """Fetch what a model needs (configuration, tokenizer, one weight option) and say where it is.

    ``source``: a repository id, a URL of one, or any other source; a local directory passes through
    untouched. ``revision``: a branch, a tag or a commit (default: the default branch);
    ``weights``: the selector of a weight option. ``cache_dir``: a folder of your own in place of
    the shared cache; its snapshots hold real files, so that they can be copied to another machine.
    ``offline`` (default: ``CLIKA_MODELVERSE_OFFLINE`` and ``HF_HUB_OFFLINE``) takes what is cached.
    Files that are there already are checked by their size, and with ``verify`` by their checksum.

    Raises ``NotFoundError`` for a missing repository, revision or file, ``UnavailableError`` for a
    gated or private one, a failing network, a full disk or a fetch that is forbidden,
    ``UnsupportedError`` for weights that the loaders do not read, and ``InvalidArgumentError`` for
    an option that is not settled or content that is not what the hub states.
    """
    from ..sources import place, resolve

    where = place(source, revision=revision, weights=weights)
    if isinstance(where, tuple) and where[1] is None and where[0].is_dir():
        folder = where[0].absolute()
        _log.info("hub: '%s' already on disk; loading from %s", source, folder)
        files = sorted(str(path) for path in folder.iterdir() if path.is_file())
        return Snapshot(str(folder), str(folder), tuple(files))
    found = resolve(
        source,
        revision=revision,
        weights=weights,
        cache_dir=cache_dir,
        offline=offline,
        verify=verify,
        quiet=quiet,
    )
    return Snapshot(
        str(found.folder if found.snapshot is None else found.snapshot),
        str(found.path),
        tuple(str(path) for path in found.files),
        found.repo,
        found.commit,
    )


def snapshot_download(
    repo_id: str,
    *,
    revision: str | None = None,
    weights: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    quiet: bool = False,
) -> str:
    """Download a model without loading it and return the folder: ``snapshot(...).local_dir``."""
    found = snapshot(
        repo_id,
        revision=revision,
        weights=weights,
        cache_dir=cache_dir,
        offline=offline,
        quiet=quiet,
    )
    return found.local_dir
