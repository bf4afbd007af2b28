"""``fetch SOURCE``: bring the files of a model here and print where they are."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any

from ...errors import ClikaRTError
from .. import catalog, description
from ..sources import ResolvedSource, human_size, place
from ..sources.reference import Reference
from . import EXIT_OK, resolve_source, usage_errors
from .info import license_lines, total_line

_log = logging.getLogger("clika_runtime.modelverse")
_NOTHING = "(dry; nothing downloaded)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="org/repo[@REVISION][:SELECTOR], a URL of one, or pkg:NAME[==VERSION]; what is on "
        "this machine passes through",
    )
    parser.add_argument(
        "--weights", metavar="SEL", help="the weight option: a tag, a glob, a file, latest"
    )
    parser.add_argument(
        "--revision", metavar="REV", help="a branch, a tag or a commit (default: main)"
    )
    parser.add_argument(
        "--dry", action="store_true", help="print the total of what a fetch takes; fetch nothing"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="check the checksums of files that are here already (default: their sizes)",
    )


def run(arguments: Any) -> int:
    with usage_errors():
        print(_payload(arguments))
    return EXIT_OK


def _payload(arguments: Any) -> str:
    given = vars(arguments)
    word, dry = given["source"], bool(given.get("dry"))
    where = place(word, revision=given.get("revision"), weights=given.get("weights"))
    if isinstance(where, Reference):
        return _from_hub(where, arguments)
    if dry and isinstance(where, str):
        waiting = package_waiting(where, arguments)
        if waiting:
            return "\n".join([*waiting, _NOTHING])
    found = resolve_source(word, arguments)
    if dry:
        return "\n".join([total_line(description.files_of(found)), _NOTHING])
    if given.get("verify") and found.origin == "package":
        from ..sources.digests import verify

        verify(found)
    return str(found.path)


def _from_hub(reference: Reference, arguments: Any) -> str:
    from ..hub.repository import open_repository

    given = vars(arguments)
    repository = open_repository(
        reference,
        offline=bool(given.get("offline")),
        cache_dir=given.get("cache_dir"),
        quiet=bool(given.get("quiet")),
    )
    if given.get("dry"):
        option = repository.choose()
        index = [name for name in option.companions if name.endswith(".safetensors.index.json")]
        repository.bring(index)
        files = description.remote_files(repository, repository.by_index(option))
        lacking = repository.lacking(option)
        if lacking < files.nbytes:
            here = human_size(files.nbytes - lacking)
            _log.info("%s of it are in the cache already", here)
        return "\n".join([total_line(files), _NOTHING])
    found = repository.fetch(verify=bool(given.get("verify")))
    for line in license_lines(repository, _row(found)):
        if line.startswith("license"):
            _log.info("%s", line)
    path = found.path if found.kind == "gguf" or found.snapshot is None else found.snapshot
    return _as_given(path, given.get("cache_dir"))


def _row(found: ResolvedSource) -> Any:
    """The family's row, for its license page; None for a checkpoint that says too little."""
    try:
        return catalog.probe(found).row
    except ClikaRTError as error:
        _log.warning("what the checkpoint is cannot be read: %s", error)
        return None


def _as_given(path: Path, cache_dir: str | None) -> str:
    """The path relative to a ``--cache-dir`` that was written relative."""
    if cache_dir is None or os.path.isabs(os.path.expanduser(cache_dir)):
        return str(path)
    return os.path.join(cache_dir, path.relative_to(Path(cache_dir).absolute()))


def package_waiting(text: str, arguments: Any) -> list[str]:
    """What ``--dry`` says of a package that is neither installed nor cached; nothing when it is
    here. The index knows its size alone, and pip does not tell it without fetching."""
    from ..sources import package

    given = vars(arguments)
    kept = {"offline": bool(given.get("offline")), "cache_dir": given.get("cache_dir")}
    try:
        package.resolve_package(text, **{**kept, "offline": True})
        return []
    except ClikaRTError as error:
        if error.code_name != "UNAVAILABLE":
            raise
    name, version = package.available(text, **kept)
    return [
        f"package {name} {version} is not here",
        "total: not known before the package is fetched",
    ]
