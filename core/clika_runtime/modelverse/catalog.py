"""The catalog of model families, and which of them a checkpoint belongs to.

Everything here is read from plugin declarations and configuration files: no weights, no model code,
neither NumPy nor the native core.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import plugins
from .._version import __version__
from ..errors import InternalError, InvalidArgumentError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from .sources import ResolvedSource

__all__ = [
    "Identity",
    "catalog_document",
    "catalog_text",
    "checked",
    "identify",
    "is_verb",
    "match",
    "printable",
    "probe",
    "probe_folder",
    "probe_names",
    "read_keys",
    "served_verbs",
    "verbs",
]

#: Verbs that the command line of this release carries out: name -> (module, one line of help).
VERBS: dict[str, tuple[str, str]] = {
    "prompt": (
        "clika_runtime.modelverse.cli.prompt",
        "one templated generation of the positional user message",
    ),
    "bench": (
        "clika_runtime.modelverse.cli.bench",
        "the family-owned benchmark flow",
    ),
    "score": (
        "clika_runtime.modelverse.cli.score",
        "perplexity of a text, and what a byte of it costs the model",
    ),
    "embed": (
        "clika_runtime.modelverse.cli.embed",
        "vectors of the positional texts",
    ),
    "similar": (
        "clika_runtime.modelverse.cli.similar",
        "cosines of the positional texts with each other",
    ),
}
#: Commands of models of other kinds, and those that other programs have for a conversation: a model
#: may lack them, but whoever asks for one has not mistyped a word.
OTHER_VERBS = (
    *("chat", "serve", "run"),
    *("mm_bench", "transcribe", "speak", "translate", "rerank", "depth", "segment", "detect"),
)
_RULE = "-" * 42


@dataclass(frozen=True, slots=True)
class Identity:
    """What a checkpoint says it is, and the family that serves it.

    ``kind`` is the container (``gguf``, ``safetensors``). ``model_type`` and ``architecture`` come
    from config.json; a GGUF has an architecture alone. ``row`` is the family's row, None when no
    installed family claims the checkpoint; ``refusal`` is then the error.
    """

    kind: str
    model_type: str
    architecture: str
    row: plugins.Row | None
    refusal: UnsupportedError | None = None

    @property
    def family(self) -> str:
        """The family's name; empty without one."""
        return self.row.name if self.row is not None else ""

    @property
    def modalities(self) -> str:
        """The family's combinations as messages show them: ``text->text``."""
        return ", ".join(c.replace(" ", "") for c in self.row.spec.modalities) if self.row else ""


def probe(source: ResolvedSource) -> Identity:
    """Read what the checkpoint is; a checkpoint that no family claims is an `Identity` without a
    row.

    Raises ``InvalidArgumentError`` for a configuration that cannot be read and ``NotFoundError``
    for a safetensors folder without config.json that no family's ``probe_snapshot`` recognizes.
    """
    if source.kind == "gguf":
        from ..io.gguf import open_gguf

        return match(source.path, "gguf", "", open_gguf(source.path).architecture)
    return probe_folder(source.folder)


def probe_folder(folder: Path) -> Identity:
    """Read what the checkpoint of a folder is from its config.json alone, or, without one, from the
    names of its files; weights need not be there."""
    path = folder / "config.json"
    if not path.is_file():
        answered = probe_names(folder)
        if answered is None:
            raise NotFoundError(
                f"{path}: no such file; a safetensors checkpoint needs its config.json beside the "
                "weights"
            )
        return match(folder, "safetensors", answered, "")
    from ..io._files import read_json

    return match(folder, "safetensors", *read_keys(read_json(path), path))


def read_keys(config: Any, path: Path) -> tuple[str, str]:
    """(model type, first architecture) of a parsed config.json."""
    if not isinstance(config, dict):
        raise _malformed(path, f"expected a JSON object, found {type(config).__name__}")
    model_type = config.get("model_type", "")
    architectures = config.get("architectures") or []
    if not isinstance(model_type, str):
        raise _malformed(path, f"'model_type' must be a string, found {model_type!r:.80}")
    if not isinstance(architectures, list) or not all(isinstance(a, str) for a in architectures):
        raise _malformed(
            path, f"'architectures' must be a list of strings, found {architectures!r:.80}"
        )
    if not model_type and not architectures:
        raise _malformed(
            path, "neither 'model_type' nor 'architectures' says what the checkpoint is"
        )
    return model_type, architectures[0] if architectures else ""


def _malformed(path: Path, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{path}: {problem}", "MALFORMED_FILE")


def probe_names(folder: Path) -> str | None:
    """The model type that a family's ``probe_snapshot`` gives to a folder, from the names of its
    files; None where no family recognizes it."""
    names: tuple[str, ...] | None = None
    for row in plugins.families().values():
        if not row.spec.probe_snapshot:
            continue
        if names is None:
            names = tuple(sorted(entry.name for entry in os.scandir(folder) if entry.is_file()))
        answer = plugins.call(row, "probe_snapshot", names)
        if answer is None:
            continue
        if not isinstance(answer, str) or not answer:
            raise InternalError(
                f"{row.entry.label}: {row.spec.probe_snapshot} gives {answer!r:.80}, a model type "
                "or None is expected",
                "PLUGIN_FAILED",
            )
        return answer
    return None


def identify(source: ResolvedSource) -> Identity:
    """Like `probe`, but a checkpoint that no installed family serves is refused.

    Raises ``UnsupportedError`` with the code ``FAMILY_NOT_INSTALLED`` (the message has the pip
    line) or ``FAMILY_UNKNOWN`` (it has what was read).
    """
    return checked(probe(source))


def checked(identity: Identity) -> Identity:
    """The identity, or its refusal raised."""
    if identity.refusal is not None:
        raise identity.refusal
    return identity


def match(path: object, kind: str, model_type: str, architecture: str) -> Identity:
    """The identity of a checkpoint by its keys; ``path`` names it in the refusal."""
    keys = {"model_type": model_type}
    keys["gguf_architecture" if kind == "gguf" else "architecture"] = architecture
    try:
        row = plugins.family_for(**keys)
    except UnsupportedError as error:
        refusal = error
        if error.code_name == "FAMILY_UNKNOWN":
            installed = ", ".join(sorted(plugins.families())) or "none"
            refusal = UnsupportedError(
                f"{path}: no model template "
                f"registered for model_type='{printable(model_type)}' / "
                f"architecture='{printable(architecture)}'; installed families: {installed}",
                "FAMILY_UNKNOWN",
            )
            refusal.__cause__ = error
        return Identity(kind, model_type, architecture, None, refusal)
    return Identity(kind, model_type, architecture, row)


def printable(text: str, limit: int = 80) -> str:
    """A checkpoint's own word as one line that a terminal shows harmlessly, cut to ``limit``
    characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


# ---------------------------------------------------------------- verbs


def verbs(row: plugins.Row) -> tuple[str, ...]:
    """The commands that the family offers and this release carries out; none when it is
    identity-only."""
    if not row.spec.runnable:
        return ()
    return tuple(verb for verb in row.spec.verbs if verb in VERBS)


def is_verb(word: str) -> bool:
    """Whether the word is a command that some model has: of this release, of an installed family,
    or one that is known elsewhere."""
    declared = (verb for row in plugins.families().values() for verb in row.spec.verbs)
    return word in VERBS or word in OTHER_VERBS or word in declared


def served_verbs(identity: Identity) -> tuple[str, ...]:
    return verbs(identity.row) if identity.row is not None else ()


# ---------------------------------------------------------------- list


def _rows(hidden: bool) -> tuple[list[plugins.Row], int]:
    rows = sorted(plugins.families().values(), key=lambda row: row.name)
    shown = [row for row in rows if hidden or not row.spec.hidden]
    return shown, len(rows) - len(shown)


def _broken() -> Sequence[plugins.Broken]:
    out = [item for item in plugins.left_out() if item.entry.group == "clika_runtime.families"]
    return [*plugins.broken("clika_runtime.families"), *out]


def catalog_text(*, hidden: bool = False, full: bool = False) -> str:
    """The catalog for people: ``hidden`` adds the hidden families, ``full`` the descriptions
    and every key that a family claims."""
    rows, left = _rows(hidden)
    runnable = sum(bool(verbs(row)) for row in rows)
    more = f"; {left} hidden, --all shows all" if left else ""
    blocks = []
    for row in rows:
        spec = row.spec
        commands = ", ".join(verbs(row)) or "none (identity-only)"
        lines = [
            f"{row.name} {'runnable' if verbs(row) else 'identity-only'}",
            f"  * Input Modalities: {', '.join(spec.input_modalities)}",
            f"  * Output Modalities: {', '.join(spec.output_modalities)}",
            f"  * Valid Combos: {', '.join(spec.modalities)}",
        ]
        if spec.model_types:
            lines.append(f"  * Model Types: {', '.join(spec.model_types)}")
        lines.append(f"  * Commands: {commands}")
        lines.append(f"  * Vendor: {spec.vendor}")
        if spec.license_page:
            lines.append(f"  * License page: {spec.license_page}")
        if full:
            keys = {
                "Architectures": ", ".join(spec.architectures),
                "GGUF Architectures": ", ".join(spec.gguf_architectures),
                "Description": " ".join(spec.description.split()),
            }
            lines += [f"  * {name}: {text}" for name, text in keys.items() if text]
        lines.append(f"  * Plugin: {row.distribution} {row.version}".rstrip())
        blocks.append("\n".join(lines))
    for item in _broken():
        blocks.append(
            f"{item.name} not loaded\n  * Plugin: {item.distribution} {item.version}\n"
            f"  * Reason: {item.reason}"
        )
    head = f"registered model families ({runnable} runnable{more})"
    if not blocks:
        blocks.append("none; install one, for example: pip install clika-family-llama")
    return "\n".join([head, f"\n{_RULE}\n".join(blocks)])


def catalog_document() -> dict[str, Any]:
    """The catalog as one JSON document; hidden families are in it, marked."""
    rows, _ = _rows(True)
    return {
        "schema": 1,
        "runtime": __version__,
        "families": [
            {
                "family": row.name,
                "runnable": bool(verbs(row)),
                "hidden": row.spec.hidden,
                "vendor": row.spec.vendor,
                "description": " ".join(row.spec.description.split()),
                "pipeline_tags": list(row.spec.tasks),
                "input_modalities": list(row.spec.input_modalities),
                "output_modalities": list(row.spec.output_modalities),
                "combos": list(row.spec.modalities),
                "model_types": {"served": list(row.spec.model_types), "refused": []},
                "architectures": list(row.spec.architectures),
                "gguf_architectures": {"served": list(row.spec.gguf_architectures), "refused": []},
                "verbs": list(verbs(row)),
                "license_page": row.spec.license_page or None,
                "distribution": row.distribution,
                "version": row.version,
            }
            for row in rows
        ],
        "broken": [
            {
                "plugin": item.name,
                "distribution": item.distribution,
                "version": item.version,
                "reason": item.reason,
            }
            for item in _broken()
        ],
    }
