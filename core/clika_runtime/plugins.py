"""Plugins: discovery by metadata, guarded loading, frozen tables.

Reading the entry points runs no plugin code. The first question that metadata cannot answer loads
the entry modules of one group, checks what they register, and freezes the rows. A plugin that fails
stands in `broken()` with its distribution, version and reason; nothing else is affected.

Switches, read once per process:

- ``CLIKA_RT_STRICT_PLUGINS=1``: a broken plugin raises instead;
- ``CLIKA_RT_DISABLE_PLUGINS=a,b``: leaves these out;
- ``CLIKA_RT_ALLOW_PLUGINS=a,b``: admits only these.

Names in a switch are entry-point names or distribution names.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, cast

from . import _known, pipeline_tags
from .errors import InternalError, InvalidArgumentError, UnsupportedError

_log = logging.getLogger("clika_runtime.plugins")

__all__ = [
    "CONTRACTS",
    "GROUPS",
    "BackendSpec",
    "Broken",
    "Entry",
    "FamilySpec",
    "ModelSpec",
    "OpsSpec",
    "ProcessorSpec",
    "Row",
    "Spec",
    "ToolParserSpec",
    "TransformSpec",
    "backend_for",
    "backends",
    "broken",
    "call",
    "device_kinds",
    "entries",
    "families",
    "family_for",
    "left_out",
    "load",
    "load_backend",
    "load_operator",
    "models",
    "operators",
    "probe",
    "processors",
    "register_family",
    "tool_parsers",
    "transforms",
]

#: Entry-point group -> the version of its contract. A plugin states the version it was written for.
CONTRACTS: Mapping[str, int] = MappingProxyType(
    {
        "clika_runtime.backends": 1,
        "clika_runtime.families": 1,
        "clika_runtime.models": 1,
        "clika_runtime.transforms": 1,
    }
)

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_LONGEST_NAME, _LONGEST_WORD, _LONGEST_TEXT = 100, 200, 4000
_MOST_WORDS = 1000
_NAME = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{_LONGEST_NAME - 1}}}")
_COMBO = re.compile(r"\w+( *\+ *\w+)* *-> *\w+( *\+ *\w+)*")
#: Stands for a distribution where the running program itself made a declaration.
PROGRAM = "this program"


# ---------------------------------------------------------------- what a plugin declares
@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every declaration has: a name and the contract version that its group had when it was
    written."""

    name: str
    contract: int

    hook: ClassVar[str] = ""
    needed: ClassVar[tuple[str, ...]] = ()
    targets: ClassVar[tuple[str, ...]] = ()

    def problem(self, contract: int) -> str | None:
        """Why this declaration cannot be taken, or None."""
        kind = type(self).__name__
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            return (
                f"{kind}: name {_shown(self.name)} must be lower-case letters, digits, '.', '_' or "
                f"'-', at most {_LONGEST_NAME}"
            )
        if type(self.contract) is not int or self.contract != contract:
            return (
                f"{kind} '{self.name}' is written for contract version {_shown(self.contract)}, "
                f"this core has version {contract}"
            )
        for field in self.needed:
            if not getattr(self, field):
                return f"{kind} '{self.name}' is incomplete: '{field}' is empty"
        for row in fields(self):
            value = getattr(self, row.name)
            wanted = _misfit(row.name, str(row.type), value)
            if wanted:
                return (
                    f"{kind} '{self.name}': '{row.name}' must be {wanted}, got {_shown(value, 200)}"
                )
        for field in self.targets:
            value = getattr(self, field)
            if value and not (isinstance(value, str) and _TARGET.fullmatch(value)):
                return f"{kind} '{self.name}': '{field}' must be 'module:attribute', got {value!r}"
        return None


def _misfit(name: str, kind: str, value: object) -> str:
    """What the field of a declaration must be, where ``value`` is not; empty where it is. Texts are
    shown in terminals and listings, so they are short and without control characters."""
    if kind == "bool" and not isinstance(value, bool):
        return "True or False"
    if kind == "str":
        running = name in ("description", "summary")  # may have several lines
        text = " ".join(value.split()) if running and isinstance(value, str) else value
        if not _is_text(text, _LONGEST_TEXT):
            return f"printable text of at most {_LONGEST_TEXT} characters"
    if kind == "tuple[str, ...]":
        many = isinstance(value, tuple) and len(value) <= _MOST_WORDS
        if not many or not all(_is_text(item, _LONGEST_WORD) for item in cast(Any, value)):
            return (
                f"a tuple of strings: at most {_MOST_WORDS}, printable, of at most {_LONGEST_WORD} "
                "characters each"
            )
    return ""


def _is_text(value: object, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and value.isprintable()


def _shown(value: object, limit: int = 80) -> str:
    """A plugin's value in a message: one printable line, cut."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= limit else text[:limit] + "..."


def _said(error: BaseException) -> str:
    """What a plugin's failure says: its type and its text as one printable line, cut. Ctrl-C is the
    user's and goes on."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    try:
        text = str(error)
    except BaseException:  # the text is the plugin's code as well
        text = "(its text fails too)"
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return f"{type(error).__name__}: {line if len(line) <= 1000 else line[:1000] + '...'}"


@dataclass(frozen=True, kw_only=True)
class BackendSpec(Spec):
    """A backend. ``kinds`` are the device kinds it drives (``"cpu"``). ``load`` names a PyCapsule
    of ``plugin.h``, a pure-Python backend object, or a function without arguments that returns one
    of them. ``probe``, where given, names a function without arguments that returns None when the
    backend can work here, else the reason; it must not load the backend's own code. It may raise
    `InternalError` with the reason and a code of backends (``BACKEND_DRIVER_ABSENT``) instead."""

    kinds: tuple[str, ...]
    load: str
    probe: str = ""
    summary: str = ""

    hook: ClassVar[str] = "clika_register_backends"
    needed: ClassVar[tuple[str, ...]] = ("kinds", "load")
    targets: ClassVar[tuple[str, ...]] = ("load", "probe")


@dataclass(frozen=True, kw_only=True)
class OpsSpec(Spec):
    """Operators that a plugin adds: their names, and the module that declares their records when
    imported."""

    operators: tuple[str, ...]
    module: str

    hook: ClassVar[str] = "clika_register_ops"
    needed: ClassVar[tuple[str, ...]] = ("operators", "module")

    def problem(self, contract: int) -> str | None:
        found = super().problem(contract)
        if found is None and not (isinstance(self.module, str) and _MODULE.fullmatch(self.module)):
            return f"OpsSpec '{self.name}': 'module' must be a module's name, got {self.module!r}"
        return found


@dataclass(frozen=True, kw_only=True)
class FamilySpec(Spec):
    """A model family. What it recognizes: ``model_types`` and ``architectures`` of a config.json,
    ``gguf_architectures`` of a GGUF file. What it offers: ``tasks`` (of `pipeline_tags`),
    ``modalities`` (``"text -> text"``), ``verbs`` of the command line. ``load`` names the family
    object; a family without it is identity-only: recognized, not runnable. ``probe_snapshot`` names
    a function for checkpoints without a config.json: from the names of a folder's files to the
    ``model_type`` that the checkpoint is to be treated as, or None. ``tool_parsers`` names the
    formats in which its models write tool calls: of these, the first that the chat template writes
    is read."""

    vendor: str
    tasks: tuple[str, ...]
    modalities: tuple[str, ...]
    verbs: tuple[str, ...] = ()
    model_types: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    gguf_architectures: tuple[str, ...] = ()
    license_page: str = ""
    description: str = ""
    hidden: bool = False
    tool_parsers: tuple[str, ...] = ()
    load: str = ""
    probe_snapshot: str = ""

    hook: ClassVar[str] = "clika_register_families"
    needed: ClassVar[tuple[str, ...]] = ("vendor", "tasks", "modalities")
    targets: ClassVar[tuple[str, ...]] = ("load", "probe_snapshot")

    def problem(self, contract: int) -> str | None:
        found = super().problem(contract)
        if found is not None:
            return found
        if not (self.model_types or self.architectures or self.gguf_architectures):
            return (
                f"FamilySpec '{self.name}' is incomplete: it recognizes nothing "
                "(model_types, architectures, gguf_architectures)"
            )
        for tag in self.tasks:
            if tag not in pipeline_tags.TAGS:
                import difflib

                near = difflib.get_close_matches(tag, pipeline_tags.TAGS, 1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                return f"FamilySpec '{self.name}': '{tag}' is no pipeline tag{hint}"
        for combo in self.modalities:
            if not _COMBO.fullmatch(combo):
                return (
                    f"FamilySpec '{self.name}': the modalities {combo!r} are not written as "
                    "'text -> text' or 'text+image -> text'"
                )
        return None

    @property
    def runnable(self) -> bool:
        return bool(self.load)

    @property
    def input_modalities(self) -> tuple[str, ...]:
        return _sides(self.modalities, 0)

    @property
    def output_modalities(self) -> tuple[str, ...]:
        return _sides(self.modalities, 1)


def _sides(combos: tuple[str, ...], side: int) -> tuple[str, ...]:
    """The distinct modalities on one side of combinations such as ``"text+image -> text"``, in
    order."""
    seen: dict[str, None] = {}
    for combo in combos:
        parts = combo.split("->")
        if side < len(parts):
            seen.update(dict.fromkeys(word.strip() for word in parts[side].split("+")))
    return tuple(seen)


@dataclass(frozen=True, kw_only=True)
class ToolParserSpec(Spec):
    """A format in which models write tool calls and reasoning. ``load`` names a subclass of
    `clika_runtime.modelverse.tools.ToolFormat`."""

    load: str

    hook: ClassVar[str] = "clika_register_tool_parsers"
    needed: ClassVar[tuple[str, ...]] = ("load",)
    targets: ClassVar[tuple[str, ...]] = ("load",)


@dataclass(frozen=True, kw_only=True)
class ProcessorSpec(Spec):
    """A processor of ``modality`` ``"image"``, ``"audio"`` or ``"video"``. ``load`` names its
    class."""

    modality: str
    load: str

    hook: ClassVar[str] = "clika_register_processors"
    needed: ClassVar[tuple[str, ...]] = ("modality", "load")
    targets: ClassVar[tuple[str, ...]] = ("load",)


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Spec):
    """A model that the distribution carries: ``files`` are paths as its RECORD lists them."""

    files: tuple[str, ...]
    family: str = ""
    license: str = ""
    summary: str = ""

    hook: ClassVar[str] = "clika_register_models"
    needed: ClassVar[tuple[str, ...]] = ("files",)

    def problem(self, contract: int) -> str | None:
        found = super().problem(contract)
        if found is None:
            for path in self.files:
                if path.startswith(("/", "\\")) or ".." in path.split("/") or ":" in path:
                    return f"ModelSpec '{self.name}': {path!r} leaves the distribution"
        return found


@dataclass(frozen=True, kw_only=True)
class TransformSpec(Spec):
    """A graph transform. ``load`` names the transform class or function."""

    load: str
    summary: str = ""

    hook: ClassVar[str] = "clika_register_transforms"
    needed: ClassVar[tuple[str, ...]] = ("load",)
    targets: ClassVar[tuple[str, ...]] = ("load",)


#: Entry-point group -> the declarations that its hooks take.
GROUPS: Mapping[str, tuple[type[Spec], ...]] = MappingProxyType(
    {
        "clika_runtime.backends": (BackendSpec, OpsSpec),
        "clika_runtime.families": (FamilySpec, ToolParserSpec, ProcessorSpec),
        "clika_runtime.models": (ModelSpec,),
        "clika_runtime.transforms": (TransformSpec,),
    }
)


# ---------------------------------------------------------------- what the core keeps
@dataclass(frozen=True)
class Entry:
    """An installed entry point, read from metadata alone."""

    group: str
    name: str
    value: str
    distribution: str
    version: str

    @property
    def label(self) -> str:
        return f"plugin '{self.name}' of {self.distribution} {self.version}".rstrip()


@dataclass(frozen=True)
class Row:
    """A declaration that passed the checks, and the entry it came from."""

    spec: Any
    entry: Entry

    @property
    def name(self) -> str:
        return str(self.spec.name)

    @property
    def distribution(self) -> str:
        return self.entry.distribution

    @property
    def version(self) -> str:
        return self.entry.version


@dataclass(frozen=True)
class Broken:
    """A plugin that was refused or failed, and why."""

    entry: Entry
    reason: str
    error: BaseException | None = None

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def distribution(self) -> str:
        return self.entry.distribution

    @property
    def version(self) -> str:
        return self.entry.version

    def __str__(self) -> str:
        return f"{self.entry.label}: {self.reason}"


class _Refused(Exception):
    """A check failed; the text is the reason that the plugin is listed with."""


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _names(environ: Mapping[str, str], variable: str) -> frozenset[str] | None:
    text = environ.get(variable)
    if text is None:
        return None
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if not _NAME.fullmatch(name.lower()):
            raise InvalidArgumentError(
                f"{variable} has {name!r}; it takes names of plugins or distributions, separated "
                "by commas"
            )
    return frozenset(map(_normalize, names))


def _switch(environ: Mapping[str, str], variable: str) -> bool:
    text = environ.get(variable, "")
    if text not in ("", "0", "1"):
        raise InvalidArgumentError(f"{variable} is {text!r}; it takes 0 or 1")
    return text == "1"


def _read_metadata() -> list[Entry]:
    """Every entry point of the plugin groups, from the metadata of the installed distributions."""
    return [
        Entry(point.group, point.name, point.value, *_named(point.dist))
        for point in _entry_points()
    ]


def _named(dist: Any) -> tuple[str, str]:
    if dist is None:
        return "an unknown distribution", "?"
    return _metadata(dist, "Name"), _metadata(dist, "Version")


def _metadata(dist: Any, key: str) -> str:
    """One word of a distribution's metadata; ``?`` where it has none, or is no text."""
    try:
        return str(dist.metadata[key] or "?")
    except Exception:
        return "?"


def _entry_points() -> list[Any]:
    from importlib import metadata

    try:
        everything = metadata.entry_points()
        return [point for group in CONTRACTS for point in everything.select(group=group)]
    except Exception:  # one distribution with damaged metadata must not hide all others
        points: list[Any] = []
        seen: set[str] = set()
        for dist in metadata.distributions():
            name = _normalize(_metadata(dist, "Name"))
            try:
                if name not in seen or name == "?":
                    points += [point for point in dist.entry_points if point.group in CONTRACTS]
            except Exception as error:
                where = dist.locate_file("")
                _log.warning("the entry points of %s in %s cannot be read: %s", name, where, error)
            seen.add(name)
        return points


class _Collector:
    """The ``register`` object that a hook receives. Takes a declaration, or its fields as
    keywords."""

    def __init__(self, kind: type[Spec], into: list[Spec]) -> None:
        self._kind = kind
        self._into = into

    def __call__(self, spec: Spec | None = None, /, **values: Any) -> None:
        kind = self._kind
        if spec is None:
            known = {row.name for row in fields(kind)}
            unknown = sorted(set(values) - known)
            if unknown:
                raise _Refused(
                    f"{kind.hook}: unknown argument '{unknown[0]}' for {kind.__name__}; "
                    f"it has {', '.join(sorted(known))}"
                )
            try:
                spec = kind(**values)
            except TypeError as error:
                raise _Refused(f"{kind.hook}: incomplete declaration: {error}") from error
        elif values:
            raise _Refused(f"{kind.hook}: register takes a {kind.__name__} or its fields, not both")
        if not isinstance(spec, kind):
            raise _Refused(
                f"{kind.hook}: register takes a {kind.__name__}, got {type(spec).__name__}"
            )
        self._into.append(spec)


class _Group:
    """The frozen tables of one group."""

    def __init__(self) -> None:
        self.rows: dict[type[Spec], dict[str, Row]] = {}
        self.broken: list[Broken] = []


class Registry:
    """Everything that is installed. One per process (`registry()`); tests make their own."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        installed: Iterable[Entry] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self._strict = _switch(environ, "CLIKA_RT_STRICT_PLUGINS")
        self._disabled = _names(environ, "CLIKA_RT_DISABLE_PLUGINS") or frozenset()
        self._allowed = _names(environ, "CLIKA_RT_ALLOW_PLUGINS")
        self._installed = None if installed is None else list(installed)
        self._lock = threading.RLock()
        self._entries: tuple[Entry, ...] | None = None
        self._left_out: tuple[Broken, ...] = ()
        self._groups: dict[str, _Group] = {}
        self._loaded: dict[str, Any] = {}

    # -- metadata only
    def _read(self) -> tuple[Entry, ...]:
        with self._lock:
            if self._entries is None:
                found = _read_metadata() if self._installed is None else self._installed
                first_party = _known.distributions() | {"clika-runtime"}
                # Where two plugins claim one name, the first in this order keeps it: ours, then by
                # name.
                found = sorted(
                    set(found),
                    key=lambda e: (
                        _normalize(e.distribution) not in first_party,
                        _normalize(e.distribution),
                        e.group,
                        e.name,
                        e.value,
                    ),
                )
                admitted = []
                left_out = []
                for entry in found:
                    reason = self._exclusion(entry)
                    if reason is None:
                        admitted.append(entry)
                    else:
                        left_out.append(Broken(entry, reason))
                self._left_out = tuple(left_out)
                self._entries = tuple(admitted)
            return self._entries

    def _exclusion(self, entry: Entry) -> str | None:
        names = {_normalize(entry.name), _normalize(entry.distribution)}
        if names & self._disabled:
            return "left out by CLIKA_RT_DISABLE_PLUGINS"
        if self._allowed is not None and not names & self._allowed:
            return "not admitted by CLIKA_RT_ALLOW_PLUGINS"
        return None

    def entries(self, group: str | None = None) -> tuple[Entry, ...]:
        return tuple(e for e in self._read() if group is None or e.group == group)

    def left_out(self) -> tuple[Broken, ...]:
        self._read()
        return self._left_out

    # -- loading a group
    def table(self, kind: type[Spec]) -> Mapping[str, Row]:
        for group, kinds in GROUPS.items():
            if kind in kinds:
                return MappingProxyType(self._group(group).rows[kind])
        raise InvalidArgumentError(f"plugins: {kind!r} is no declaration of a group")

    def broken(self, group: str | None = None) -> tuple[Broken, ...]:
        chosen = tuple(GROUPS) if group is None else (group,)
        return tuple(item for name in chosen for item in self._group(name).broken)

    def _group(self, group: str) -> _Group:
        done = self._groups.get(group)
        if done is not None:
            return done
        with self._lock:
            done = self._groups.get(group)
            if done is None:
                done = self._load_group(group)
                self._groups[group] = done
            return done

    def _load_group(self, group: str) -> _Group:
        result = _Group()
        for kind in GROUPS[group]:
            result.rows[kind] = {}
        owners: dict[str, Row] = {}  # what only one may have: "device kind 'cpu'" -> its row
        for entry in self.entries(group):
            try:
                rows = self._load_entry(entry, result, owners)
            except _Refused as refusal:
                self._fail(result, entry, str(refusal), refusal.__cause__)
            except BaseException as error:
                reason = f"failed to load: {_said(error)}"
                self._fail(result, entry, reason, error)
            else:
                for row in rows:
                    result.rows[type(row.spec)][row.name] = row
                    owners.update(dict.fromkeys(_claims(row.spec), row))
        return result

    def _fail(self, result: _Group, entry: Entry, reason: str, error: BaseException | None) -> None:
        item = Broken(entry, reason, error)
        if self._strict:
            raise InternalError(
                f"{item} (CLIKA_RT_STRICT_PLUGINS is set)", "PLUGIN_FAILED"
            ) from error
        result.broken.append(item)

    def _load_entry(self, entry: Entry, result: _Group, owners: Mapping[str, Row]) -> list[Row]:
        module = _import_entry(entry)
        rows = []
        taken: set[tuple[type[Spec], str]] = set()
        for spec in _collect(entry, module):
            kind = type(spec)
            reason = spec.problem(CONTRACTS[entry.group])
            if reason is not None:
                raise _Refused(reason)
            first = result.rows[kind].get(spec.name)
            if first is not None or (kind, spec.name) in taken:
                owner = entry if first is None else first.entry
                raise _Refused(f"duplicate name '{spec.name}': already registered by {owner.label}")
            for claim in _claims(spec):
                if claim in owners:
                    raise _Refused(f"duplicate {claim}: it belongs to {owners[claim].entry.label}")
            taken.add((kind, spec.name))
            rows.append(Row(spec, entry))
        return rows

    # -- declared by the running program
    def register(self, spec: FamilySpec, family: Any = None) -> Row:
        """Adds a family that no entry point carries, under the checks that entry points pass.

        ``family`` is the object that ``load`` would name, for a declaration whose ``load`` is
        empty."""
        group = "clika_runtime.families"
        reason = spec.problem(CONTRACTS[group])
        if reason is None and family is not None and spec.load:
            reason = f"FamilySpec '{spec.name}' names its code in 'load' and is given code as well"
        if reason is not None:
            raise InvalidArgumentError(f"register: {reason}")
        target = f"{PROGRAM}:{spec.name}"
        if family is not None:
            spec = replace(spec, load=target)
        row = Row(spec, Entry(group, spec.name, "", PROGRAM, ""))
        loaded = self._group(group)
        with self._lock:
            rows = loaded.rows[FamilySpec]
            if spec.name in rows:
                raise InvalidArgumentError(
                    f"register: duplicate name '{spec.name}': already registered by "
                    f"{rows[spec.name].entry.label}",
                    "FAILED_PRECONDITION",
                )
            if family is not None:
                self._loaded[target] = family
            # Tables that were handed out stay as they are.
            loaded.rows[FamilySpec] = {**rows, spec.name: row}
        return row

    # -- code of a plugin
    def load(self, row: Row) -> Any:
        target = row.spec.load
        if not target:
            raise UnsupportedError(
                f"'{row.name}' of {row.distribution} is identity-only: it has no code"
            )
        with self._lock:
            if target in self._loaded:
                return self._loaded[target]
        try:
            value = _resolve(target)
        except BaseException as error:
            raise InternalError(
                f"{row.entry.label} could not load {target}: {_said(error)}",
                "PLUGIN_FAILED",
            ) from error
        with self._lock:
            return self._loaded.setdefault(target, value)


def _claims(spec: Spec) -> list[str]:
    """What a declaration takes for itself besides its name."""
    if isinstance(spec, BackendSpec):
        return [f"device kind '{kind}'" for kind in spec.kinds]
    if isinstance(spec, OpsSpec):
        return [f"operator '{name}'" for name in spec.operators]
    return []


def _resolve(target: str) -> Any:
    module, _, attribute = target.partition(":")
    value: Any = importlib.import_module(module)
    for part in attribute.split("."):
        value = getattr(value, part)
    return value


def _import_entry(entry: Entry) -> Any:
    target = entry.value.partition("[")[0].strip()
    try:
        return _resolve(target) if ":" in target else importlib.import_module(target)
    except ModuleNotFoundError as error:
        # Only the asked module itself counts as missing; any other import error is shown as it is.
        if error.name == target.partition(":")[0]:
            raise _Refused(f"its entry module {error.name} is not installed") from error
        raise


def _collect(entry: Entry, module: Any) -> list[Spec]:
    """Runs the hooks of the entry's group, each plugin in a manager of its own so that blame is
    certain."""
    import pluggy

    from . import hooks

    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    for name in dir(module):
        if name.startswith("clika_register_"):
            candidate = getattr(module, name)
            if not hasattr(candidate, f"{hooks.PROJECT}_impl") and not hasattr(
                candidate, f"{hooks.PROJECT}_spec"
            ):
                raise _Refused(f"{name} is not marked with clika_runtime.hooks.hookimpl")
    try:
        manager.register(module, entry.name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise _Refused(_explain(manager, module, error)) from error
    collected: list[Spec] = []
    implemented = 0
    for kind in GROUPS[entry.group]:
        caller = getattr(manager.hook, kind.hook)
        implemented += len(caller.get_hookimpls())
        caller(register=_Collector(kind, collected))
    if not implemented:
        wanted = " or ".join(kind.hook for kind in GROUPS[entry.group])
        raise _Refused(f"incomplete: {entry.value} implements no hook of {entry.group} ({wanted})")
    if not collected:
        raise _Refused(f"incomplete: {entry.value} registers nothing")
    return collected


def _explain(manager: Any, module: Any, error: Exception) -> str:
    known = {kind.hook for kinds in GROUPS.values() for kind in kinds}
    for name in dir(module):
        if manager.parse_hookimpl_opts(module, name) is not None and name not in known:
            return f"unknown hook '{name}'; the hooks are {', '.join(sorted(known))}"
    return "wrong hook: " + _said(error)


# ---------------------------------------------------------------- questions
_registry: Registry | None = None
_registry_lock = threading.Lock()


def registry() -> Registry:
    """The registry of this process; the switches are read when it is made."""
    global _registry
    if _registry is None:
        with _registry_lock:
            if _registry is None:
                _registry = Registry()
    return _registry


def entries(group: str | None = None) -> tuple[Entry, ...]:
    """Installed and admitted entry points, from metadata alone."""
    return registry().entries(group)


def left_out() -> tuple[Broken, ...]:
    """Entry points that a switch left out."""
    return registry().left_out()


def register_family(spec: FamilySpec, family: Any = None) -> Row:
    """Adds a family to this process, beside those of the installed distributions; ``family`` is its
    code where ``spec.load`` names none. `InvalidArgumentError` says what is incomplete or doubled.
    """
    if not isinstance(spec, FamilySpec):
        raise InvalidArgumentError(
            f"register_family: a FamilySpec is expected, got {type(spec).__name__}"
        )
    return registry().register(spec, family)


def broken(group: str | None = None) -> tuple[Broken, ...]:
    """Plugins that were refused or failed; loads the group (or all of them) when that was not done
    yet."""
    return registry().broken(group)


def backends() -> Mapping[str, Row]:
    """Backends by name; each row's ``spec`` is a `BackendSpec`."""
    return registry().table(BackendSpec)


def operators() -> Mapping[str, Row]:
    """Operator packages of plugins by name (`OpsSpec`)."""
    return registry().table(OpsSpec)


def families() -> Mapping[str, Row]:
    """Model families by name (`FamilySpec`)."""
    return registry().table(FamilySpec)


def tool_parsers() -> Mapping[str, Row]:
    """Tool-call formats by name (`ToolParserSpec`)."""
    return registry().table(ToolParserSpec)


def processors() -> Mapping[str, Row]:
    """Processors by name (`ProcessorSpec`)."""
    return registry().table(ProcessorSpec)


def models() -> Mapping[str, Row]:
    """Models carried by installed distributions, by name (`ModelSpec`)."""
    return registry().table(ModelSpec)


def transforms() -> Mapping[str, Row]:
    """Graph transforms by name (`TransformSpec`)."""
    return registry().table(TransformSpec)


def load(row: Row) -> Any:
    """The object that the row's ``load`` names, imported on first use. `InternalError` with the
    code ``PLUGIN_FAILED`` names the plugin when that fails."""
    return registry().load(row)


def call(row: Row, field: str, *arguments: Any) -> Any:
    """What the function that the row's ``field`` names gives for the arguments. `InternalError`
    with the code ``PLUGIN_FAILED`` names the plugin when that fails."""
    target = getattr(row.spec, field)
    try:
        return _resolve(target)(*arguments)
    except BaseException as error:
        raise InternalError(
            f"{row.entry.label}: {target} failed: {_said(error)}",
            "PLUGIN_FAILED",
        ) from error


def load_operator(name: str) -> bool:
    """Imports the module that declares an operator of a plugin; False when no plugin announces it.
    `InternalError` with ``PLUGIN_FAILED`` names the plugin whose module fails."""
    for row in operators().values():
        if name in row.spec.operators:
            try:
                importlib.import_module(row.spec.module)
            except BaseException as error:
                raise InternalError(
                    f"{row.entry.label} could not declare the operator '{name}': {_said(error)}",
                    "PLUGIN_FAILED",
                ) from error
            return True
    return False


def device_kinds() -> tuple[str, ...]:
    """The device kinds that installed backends drive."""
    return tuple(kind for row in backends().values() for kind in row.spec.kinds)


def backend_for(kind: str) -> Row:
    """The backend that drives a device kind. Without one: `InternalError`, code
    ``BACKEND_NOT_LOADED``, with the reason it is absent and the line that installs it."""
    for row in backends().values():
        if kind in row.spec.kinds:
            return row
    suspects = (*broken("clika_runtime.backends"), *left_out())
    distribution = _known.BACKENDS.get(kind, "")
    for item in suspects:
        if item.entry.group != "clika_runtime.backends":
            continue
        if item.name == kind or _normalize(item.distribution) == distribution:
            raise InternalError(
                f"The {kind} backend could not load: {item.entry.label}: {item.reason}",
                "BACKEND_NOT_LOADED",
            ) from item.error
    if distribution:
        raise InternalError(
            f"The {kind} backend could not load: not installed. Install it with: "
            f"pip install {_known.EXTRAS.get(kind, distribution)}",
            "BACKEND_NOT_LOADED",
        )
    installed = ", ".join(device_kinds()) or "none"
    raise InternalError(
        f"No backend drives the device kind '{kind}'; the kinds installed here: {installed}",
        "BACKEND_NOT_LOADED",
    )


def probe(kind: str) -> str | None:
    """None when the backend of that device kind is installed and can work here, else the reason."""
    return _probed(kind)[0]


def _probed(kind: str) -> tuple[str | None, str]:
    """A probe's reason and its code: that of the `InternalError` it raised, or
    ``BACKEND_UNAVAILABLE``."""
    try:
        row = backend_for(kind)
    except InternalError as error:
        return str(error), error.code_name
    code = "BACKEND_UNAVAILABLE"
    if not row.spec.probe:
        return None, ""
    try:
        reason = _resolve(row.spec.probe)()
    except InternalError as error:
        if error.code_name.startswith("BACKEND_"):
            return str(error), error.code_name
        return f"{row.entry.label}: its probe failed: {_said(error)}", code
    except BaseException as error:
        return f"{row.entry.label}: its probe failed: {_said(error)}", code
    return reason if reason is None or isinstance(reason, str) else _shown(reason, 400), code


def load_backend(kind: str) -> Any:
    """The backend of that device kind: a PyCapsule ``clika_runtime.backend`` or a pure-Python
    backend object. The probe is asked first; `InternalError` carries its reason, with the code
    that it raised (``BACKEND_DRIVER_ABSENT``) or ``BACKEND_UNAVAILABLE``."""
    row = backend_for(kind)
    reason, code = _probed(kind)
    if reason is not None:
        raise InternalError(f"The {kind} backend cannot work here: {reason}", code)
    value = load(row)
    if type(value).__name__ != "PyCapsule" and callable(value):
        return _made_once(row, value)
    return value


_made: dict[str, Any] = {}


def _made_once(row: Row, factory: Any) -> Any:
    with _registry_lock:
        if row.name in _made:
            return _made[row.name]
    try:
        value = factory()
    except BaseException as error:
        raise InternalError(
            f"{row.entry.label} could not start: {_said(error)}",
            "BACKEND_NOT_LOADED",
        ) from error
    with _registry_lock:
        return _made.setdefault(row.name, value)


def family_for(
    *,
    name: str = "",
    model_type: str = "",
    architecture: str = "",
    gguf_architecture: str = "",
) -> Row:
    """The installed family of a checkpoint. An architecture is more telling than a model type, so
    it is asked first. Without one: `UnsupportedError`, code ``FAMILY_NOT_INSTALLED`` with the line
    to run for a family of this project, else ``FAMILY_UNKNOWN``."""
    rows = families()
    if name and name in rows:
        return rows[name]
    questions = (
        ("gguf_architectures", gguf_architecture),
        ("architectures", architecture),
        ("model_types", model_type),
    )
    for field, wanted in questions:
        if not wanted:
            continue
        for row in rows.values():
            if wanted in cast("tuple[str, ...]", getattr(row.spec, field)):
                return row
    asked = [f"family '{name}'"] if name else []
    for label, wanted in (
        ("model type", model_type),
        ("architecture", architecture),
        ("GGUF architecture", gguf_architecture),
    ):
        if wanted:
            asked.append(f"{label} '{wanted}'")
    what = ", ".join(asked) or "nothing"
    known = _known.find_family(name, model_type, architecture, gguf_architecture)
    if known is None:
        raise UnsupportedError(
            f"No installed family serves {what}; installed: {', '.join(sorted(rows)) or 'none'}",
            "FAMILY_UNKNOWN",
        )
    distribution = _known.FAMILIES[known].distribution
    for item in (*broken("clika_runtime.families"), *left_out()):
        if item.name == known or _normalize(item.distribution) == distribution:
            raise UnsupportedError(
                f"{what} is served by the family '{known}', which could not load: {item}",
                "FAMILY_NOT_INSTALLED",
            ) from item.error
    raise UnsupportedError(
        f"{what} is served by the family '{known}', which is not installed. Install it with: "
        f"pip install {distribution}",
        "FAMILY_NOT_INSTALLED",
    )
