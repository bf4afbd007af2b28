"""What ``doctor`` looks at: each part is tried, and a failure is a finding."""

from __future__ import annotations

import importlib
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from ... import _known, plugins
from ..._version import __version__
from ...errors import ClikaRTError
from .. import catalog

__all__ = ["Finding", "examine"]

_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*([^;]*)(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_DISTRIBUTION = "clika-runtime"
#: Extras for people who use the runtime; the others are for its own tests.
_EXTRAS = ("torch", "onnx", "vision", "audio", "serve", "constrain")
_NATIVE = ("_core", "_graph", "_pytree")
_MEND_CORE = f"pip install --force-reinstall --no-deps {_DISTRIBUTION}=={__version__}"


@dataclass(frozen=True)
class Finding:
    """One part: ``status`` is ``ok``, ``absent`` (not installed, and nothing here needs it) or
    ``broken``; ``fix`` is the line that mends it, empty where there is none."""

    area: str
    name: str
    status: str
    detail: str
    fix: str = ""

    def document(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        return {**asdict(self), "fix": self.fix or None}


def examine(cache_dir: str | None = None) -> list[Finding]:
    """Every part of this installation, in the order in which they build on each other."""
    found: list[Finding] = []
    parts: tuple[Callable[[], Iterator[Finding]], ...] = (
        _runtime,
        _libraries,
        _switches,
        _backends,
        _families,
        _packages,
        _extras,
        lambda: _storage(cache_dir),
    )
    for part in parts:
        try:
            found += part()
        except BaseException as error:
            name = getattr(part, "__name__", "part").strip("_")
            found.append(Finding(name, name, "broken", _text(error)))
    return found


def _text(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        raise error
    try:
        line = catalog.printable(str(error), 400)
    except Exception:  # the text of a plugin's error is its code as well
        line = "(its text fails too)"
    return line if isinstance(error, ClikaRTError) else f"{type(error).__name__}: {line}"


# ---------------------------------------------------------------- the runtime itself
def _runtime() -> Iterator[Finding]:
    area = "runtime"
    folder = str(Path(__file__).resolve().parents[2])
    yield Finding(area, _DISTRIBUTION, "ok", f"{__version__} in {folder}")
    yield Finding(
        area,
        "python",
        "ok",
        f"{platform.python_implementation()} {platform.python_version()} on "
        f"{sys.platform} {platform.machine()}",
    )
    for name in _NATIVE:
        try:
            importlib.import_module(f"clika_runtime._native.{name}")
        except BaseException as error:
            yield Finding(area, f"native {name}", "broken", _text(error), _MEND_CORE)
        else:
            yield Finding(area, f"native {name}", "ok", "loads")


def _requirements() -> Iterator[tuple[str, str, str]]:
    """(distribution, version wanted, extra) of the core's metadata; nothing where it runs from a
    folder."""
    try:
        lines = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        match = _REQUIREMENT.fullmatch(line.strip())
        if match is not None:
            extra = _EXTRA.search(match[3] or "")
            yield match[1], match[2].strip(" ()"), extra[1] if extra else ""


def _libraries() -> Iterator[Finding]:
    for name, wanted, extra in _requirements():
        if extra or name in _known.distributions():
            continue
        fix = f'pip install "{name}{wanted}"'
        try:
            version = metadata.version(name)
            importlib.import_module(name.replace("-", "_"))
        except metadata.PackageNotFoundError:
            yield Finding("libraries", name, "broken", "not installed", fix)
        except BaseException as error:
            yield Finding("libraries", name, "broken", _text(error), fix)
        else:
            yield Finding("libraries", name, "ok", version)


def _switches() -> Iterator[Finding]:
    area = "environment"
    for name in sorted(os.environ):
        if name.startswith("CLIKA_") and "LICENSE" not in name and "TOKEN" not in name:
            yield Finding(area, name, "ok", catalog.printable(os.environ[name]) or "empty")
    try:
        plugins.entries()
    except ClikaRTError as error:
        yield Finding(area, "plugins", "broken", _text(error), "unset the variable or correct it")
    for item in plugins.left_out():
        yield Finding(area, item.name, "absent", f"{item.entry.label}: {item.reason}")


# ---------------------------------------------------------------- plugins
def _broken(group: str, area: str) -> Iterator[Finding]:
    for item in plugins.broken(group):
        fix = f"pip install --upgrade {item.distribution}, or pip uninstall {item.distribution}"
        detail = f"{item.entry.label}: {catalog.printable(item.reason, 400)}"
        yield Finding(area, item.name, "broken", detail, fix)


def _backends() -> Iterator[Finding]:
    from ... import device

    area = "backends"
    rows = plugins.backends()
    for row in rows.values():
        label = f"{row.distribution} {row.version}"
        for kind in row.spec.kinds:
            try:
                plugins.load_backend(kind)
                count = len(device.enumerate_devices(kind))
            except BaseException as error:
                # A backend whose hardware is not here is installed for nothing, not broken.
                without = ("BACKEND_UNAVAILABLE", "BACKEND_DRIVER_ABSENT")
                unavailable = getattr(error, "code_name", "") in without
                status = "absent" if unavailable and kind != "cpu" else "broken"
                fix = f"pip install --force-reinstall --no-deps {row.distribution}=={row.version}"
                yield Finding(area, kind, status, f"{label}: {_text(error)}", fix)
            else:
                yield Finding(area, kind, "ok", f"{label}, {count} device(s)")
    yield from _broken("clika_runtime.backends", area)
    present = {kind for row in rows.values() for kind in row.spec.kinds}
    for kind, distribution in _known.BACKENDS.items():
        if kind not in present:
            status = "broken" if kind == "cpu" else "absent"
            fix = f"pip install {_known.EXTRAS.get(kind, distribution)}"
            yield Finding(area, kind, status, "not installed", fix)


def _families() -> Iterator[Finding]:
    from ..family import Family

    area = "families"
    rows = plugins.families()
    for name, row in sorted(rows.items()):
        label = f"{row.distribution} {row.version}"
        if not row.spec.runnable:
            yield Finding(area, name, "ok", f"{label}, identity-only")
            continue
        fix = f"pip install --upgrade {row.distribution}"
        try:
            value = plugins.load(row)
        except BaseException as error:
            yield Finding(area, name, "broken", f"{label}: {_text(error)}", fix)
            continue
        if isinstance(value, Family):
            commands = ", ".join(catalog.verbs(row)) or "none of this release"
            yield Finding(area, name, "ok", f"{label}, commands: {commands}")
        else:
            kind = type(value).__name__
            detail = f"{label}: {row.spec.load} is a {kind}, a Family is expected"
            yield Finding(area, name, "broken", detail, fix)
    yield from _broken("clika_runtime.families", area)
    for name, known in sorted(_known.FAMILIES.items()):
        if name not in rows:
            fix = f"pip install {known.distribution}"
            yield Finding(area, name, "absent", "not installed", fix)


def _packages() -> Iterator[Finding]:
    """Models and transforms that distributions carry."""
    for name, row in sorted(plugins.models().items()):
        label = f"{row.distribution} {row.version}"
        base = metadata.distribution(row.distribution)
        lost = [file for file in row.spec.files if not Path(str(base.locate_file(file))).is_file()]
        fix = f"pip install --force-reinstall --no-deps {row.distribution}=={row.version}"
        if lost:
            yield Finding("models", name, "broken", f"{label}: no such file: {lost[0]}", fix)
        else:
            yield Finding("models", name, "ok", label)
    yield from _broken("clika_runtime.models", "models")
    for name, row in sorted(plugins.transforms().items()):
        label = f"{row.distribution} {row.version}"
        try:
            plugins.load(row)
        except ClikaRTError as error:
            fix = f"pip install --upgrade {row.distribution}"
            yield Finding("transforms", name, "broken", _text(error), fix)
        else:
            yield Finding("transforms", name, "ok", label)
    yield from _broken("clika_runtime.transforms", "transforms")


def _extras() -> Iterator[Finding]:
    wanted: dict[str, list[str]] = {}
    for name, _, extra in _requirements():
        if extra in _EXTRAS:
            wanted.setdefault(extra, []).append(name)
    for extra, names in wanted.items():
        lacking = []
        for name in names:
            try:
                metadata.version(name)
            except metadata.PackageNotFoundError:
                lacking.append(name)
        if lacking:
            fix = f'pip install "{_DISTRIBUTION}[{extra}]"'
            yield Finding("extras", extra, "absent", f"without {', '.join(lacking)}", fix)
        else:
            yield Finding("extras", extra, "ok", ", ".join(names))


# ---------------------------------------------------------------- where models are kept
def _storage(cache_dir: str | None) -> Iterator[Finding]:
    from ..hub import settings
    from ..sources.cache import cache_root, is_offline

    yield _folder("repositories", settings.cache_folder(cache_dir))
    yield _folder("packages", cache_root(cache_dir))
    switch = is_offline()
    if switch is not None:
        yield Finding("hub", "network", "absent", f"{switch} forbids it", "unset the variable")
    if settings.token() is None:
        fix = "hf auth login, or set HF_TOKEN"
        yield Finding("hub", "token", "absent", "none; gated repositories need one", fix)
    else:
        yield Finding("hub", "token", "ok", "found")


def _folder(name: str, root: Path) -> Finding:
    """A folder of fetched models; it need not be there yet."""
    import shutil

    from ..sources import human_size

    there = next(folder for folder in (root, *root.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        fix = "name a folder that can be written to with --cache-dir"
        return Finding("storage", name, "broken", f"{root}: {there} cannot be written to", fix)
    free = human_size(shutil.disk_usage(there).free)
    return Finding("storage", name, "ok", f"{root}, {free} free")
