"""Sources on this machine: a directory, or a file of weights."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import InvalidArgumentError, NotFoundError, UnsupportedError
from . import layout
from .layout import Option
from .options import choose, option_table
from .resolved import ResolvedSource

__all__ = ["exists", "is_folder", "resolve_local"]


def exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def resolve_local(spec: str, path: Path, selector: str | None) -> ResolvedSource:
    """The model in the directory or the file ``path``; ``selector`` picks one of several weight
    options of a directory."""
    path = path.absolute()
    if path.is_dir():
        return _directory(spec, path, selector)
    if not path.is_file():
        raise InvalidArgumentError(f"{path}: neither a file nor a directory", "MALFORMED_FILE")
    if selector is not None:
        raise InvalidArgumentError(f"{spec}: the source is one file, ':{selector}' selects nothing")
    names = _names(path.parent)
    if path.suffix.lower() == ".gguf":
        part = [o for o in layout.weight_options([*names, path.name]) if path.name in o.weights]
        option = part[0] if part else Option("gguf", path.stem, "", (path.name,))
        return _found(spec, path.parent, option, "file")
    if path.suffix.lower() == ".safetensors":
        options = layout.weight_options(names)
        mine = [o for o in options if path.name in o.weights]
        if not mine:  # a copy beside the folder's own checkpoint: alone it is the only option
            others = {n for n in names if n.endswith(".safetensors")}
            mine = layout.weight_options((set(names) - others) | {path.name})
        if mine:
            return _found(spec, path.parent, mine[0], "file")
    if layout.other_formats([path.name]):
        from .wheel import no_model

        raise no_model(f"'{path}'", [path.name])
    raise UnsupportedError(f"'{path}' is no model file. The loaders read safetensors and GGUF")


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if _is_file(entry))
    except OSError as error:
        raise InvalidArgumentError(
            f"{folder}: cannot be listed: {error}", "MALFORMED_FILE"
        ) from error


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself, or to where nothing may be looked at
        return False


def _directory(spec: str, folder: Path, selector: str | None) -> ResolvedSource:
    names = _names(folder)
    if "modules.json" in names:  # a sentence-transformers checkpoint: its modules have folders
        for entry in sorted(folder.iterdir()):
            if os.path.isdir(entry):
                names += [f"{entry.name}/{name}" for name in _names(entry)]
    options = layout.weight_options(names)
    if not options:
        from .wheel import no_model

        raise no_model(f"'{folder}'", names)
    if selector is not None:
        return _found(spec, folder, choose(spec, options, selector), "directory")
    chosen = options[0] if len(options) == 1 else layout.own_checkpoint(options, names)
    if chosen is None:
        sizes = {f: (folder / f).stat().st_size for o in options for f in o.weights}
        beside = layout.sidecars(names)
        raise InvalidArgumentError(option_table(spec, options, sizes, beside, str(folder)))
    return _found(spec, folder, chosen, "directory")


def _found(spec: str, folder: Path, option: Option, origin: str) -> ResolvedSource:
    weights = tuple(folder / name for name in option.weights)
    companions = tuple(folder / name for name in option.companions)
    if option.kind == "safetensors" and len(weights) > 1:
        if not any(name.endswith(".safetensors.index.json") for name in option.companions):
            raise NotFoundError(
                f"{folder / (option.name + '.safetensors.index.json')}: no such file; "
                f"a checkpoint in "
                f"{len(weights)} shards needs its index"
            )
    path = weights[0] if option.kind == "gguf" else folder
    return ResolvedSource(
        spec,
        option.kind,
        path,
        weights,
        companions,
        path.stem if option.kind == "gguf" else path.name,
        origin,
    )
