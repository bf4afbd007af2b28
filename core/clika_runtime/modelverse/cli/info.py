"""``info SOURCE...``: what a model source is, read from configuration and headers; no weights are
loaded, and of a repository of the hub none are fetched."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..._version import __version__
from ...errors import ClikaRTError
from .. import catalog, description
from ..console import json_text, show, without_secrets
from ..sources import human_size, place
from ..sources.reference import Reference, endpoint
from . import EXIT_FAILURE, EXIT_MODEL, EXIT_OK, resolve_source, usage_errors
from .arguments import UsageError
from .tables import csv_text

_log = logging.getLogger("clika_runtime.modelverse")
#: The version of the JSON document; its schema is ``schemas/info.json`` beside this module.
SCHEMA = 1
_MAX_LIST = 1 << 20
_LONGEST = 20_000
_NOTHING = "(dry; nothing downloaded)"
_COLUMNS = (
    "model", "source", "family", "model_type", "architecture", "commit", "parameters",
    "context_length", "license", "gated", "option", "tag", "format", "precision",
    "bits_per_weight", "bytes", "files", "requires", "served",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="*",
        help="org/repo[:SELECTOR], a URL of one, a directory, a weight file, "
        "pkg:NAME[==VERSION]; @FILE reads one per line",
    )
    parser.add_argument(
        "--weights", metavar="SEL", help="the weight option: a tag, a glob, a file, latest"
    )
    parser.add_argument(
        "--dry", action="store_true", help="list the files that a fetch takes, with their sizes"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document for all sources")
    form.add_argument("--csv", action="store_true", help="its table as CSV, a row per variant")
    form.add_argument("--schema", action="store_true", help="print the document's JSON Schema")


def run(arguments: Any) -> int:
    given = vars(arguments)
    if given.get("schema"):
        print(schema_text(), end="")
        return EXIT_OK
    sources = _expand(given.get("sources", []))
    if given.get("json") or given.get("csv"):
        if given.get("dry"):
            raise UsageError("--dry goes with the form for people, not with --json or --csv")
        return _document(sources, arguments)
    worst = EXIT_OK
    refused = False
    shown = False
    for word in sources:
        try:
            with usage_errors():
                lines, status = _lines(word, arguments)
        except (ClikaRTError, UsageError, OSError) as error:
            if len(sources) == 1:
                raise
            _log.warning("%s: %s", word, error)
            refused = True
            continue
        if shown:
            print()
        show("\n".join(lines))
        shown = True
        worst = max(worst, status)
    return EXIT_FAILURE if refused else worst


def schema_text() -> str:
    """The JSON Schema of the document."""
    return (Path(__file__).with_name("schemas") / "info.json").read_text(encoding="utf-8")


def _expand(words: list[str]) -> list[str]:
    from ...io._files import read_bytes

    found: list[str] = []
    for word in words:
        if not word.startswith("@"):
            found.append(word)
            continue
        try:
            lines = read_bytes(word[1:], _MAX_LIST).decode("utf-8-sig").splitlines()
        except (ClikaRTError, ValueError) as error:
            raise UsageError(f"{word}: cannot be read: {error}") from error
        found += [
            line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")
        ]
    if not found:
        raise UsageError("the following arguments are required: SOURCE")
    return found


# ---------------------------------------------------------------- documents


def _document(sources: list[str], arguments: Any) -> int:
    models: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for word in sources:
        try:
            with usage_errors():
                models.append(_facts(word, arguments))
        except (ClikaRTError, UsageError, OSError) as error:
            _log.warning("%s: %s", word, error)
            code = str(getattr(error, "code_name", "INVALID_ARGUMENT"))
            named = without_secrets(word)[:_LONGEST]
            refused.append({"source": named, "error": str(error)[:_LONGEST], "code": code})
    models = _by_base(models)
    if vars(arguments).get("csv"):
        rows = [_csv_row(model, variant) for model in models for variant in model["variants"]]
        sys.stdout.write(csv_text(_COLUMNS, rows))
    else:
        document = {
            "schema": SCHEMA,
            "runtime": __version__,
            "models": models,
            "refused": refused,
        }
        print(json_text(document))
    if refused:
        return EXIT_FAILURE
    return EXIT_MODEL if any(model["refusal"] for model in models) else EXIT_OK


def _facts(word: str, arguments: Any) -> dict[str, Any]:
    where = place(word, weights=vars(arguments).get("weights"))
    if isinstance(where, Reference):
        return description.hub_facts(_opened(where, arguments))
    resolved = resolve_source(word, arguments)
    return description.local_facts(resolved, catalog.probe(resolved))


def _by_base(models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry per base model: its own weights first, then its quantizations among the
    sources."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for model in models:
        groups.setdefault(model["model"], []).append(model)
    joined = []
    for base, group in groups.items():
        group.sort(key=lambda model: model["origin"]["repo"] != base)  # stable: the base first
        first = group[0]
        first["variants"] = [variant for model in group for variant in model["variants"]]
        joined.append(first)
    return joined


def _csv_row(model: Mapping[str, Any], variant: Mapping[str, Any]) -> list[Any]:
    values = {
        **model,
        "commit": model["origin"]["commit"],
        **variant,
        "files": " ".join(file["path"] for file in variant["files"]),
        "requires": " ".join(variant["requires"]),
        "served": "yes" if variant["served"] else "no",
        "gated": {None: "", False: "no"}.get(model["gated"], model["gated"]),
    }
    return [values[name] for name in _COLUMNS]


# ---------------------------------------------------------------- for people


def _opened(reference: Reference, arguments: Any) -> Any:
    from ..hub.repository import open_repository

    given = vars(arguments)
    return open_repository(
        reference,
        offline=bool(given.get("offline")),
        cache_dir=given.get("cache_dir"),
        quiet=True,
    )


def _lines(word: str, arguments: Any) -> tuple[list[str], int]:
    dry = bool(vars(arguments).get("dry"))
    where = place(word, weights=vars(arguments).get("weights"))
    if isinstance(where, Reference):
        return _hub_lines(_opened(where, arguments), dry)
    if dry and isinstance(where, str):
        from . import fetch

        waiting = fetch.package_waiting(where, arguments)
        if waiting:
            return [word, *waiting, _NOTHING], EXIT_OK
    resolved = resolve_source(word, arguments)
    facts = description.local_facts(resolved, catalog.probe(resolved), fit=False)
    lines = [text_of(facts)]
    if dry:
        files = description.files_of(resolved)
        lines += [*listing_lines(files), "(everything is here already)", _NOTHING]
    return lines, EXIT_MODEL if facts["refusal"] else EXIT_OK


def _hub_lines(repository: Any, dry: bool) -> tuple[list[str], int]:
    reference = repository.reference
    identity, shape, tokenizer, more = description.hub_identity(repository)
    row = identity.row
    inputs = row.spec.input_modalities if row else ()
    parts = {"tokenizer": tokenizer} | {n: n in inputs for n in ("image", "audio", "video")}
    keys = _keys(identity.model_type, identity.architecture)
    lines = [reference.spec]
    if identity.refusal is not None:
        lines += [keys, f"not served: {identity.refusal}"]
    else:
        lines += [f"family={identity.family} {keys}"]
        lines += [f"variant: {shape}{' + multimodal' if more else ''}"]
    lines.append(f"components: {_yes_no(parts.items())}")
    lines += license_lines(repository, row)
    if dry:
        lines += dry_lines(repository)
    return lines, EXIT_MODEL if identity.refusal else EXIT_OK


def license_lines(repository: Any, row: Any) -> list[str]:
    """The licensing report: the family's license page, the checkpoint's provider and source, its
    own license and whether the repository is gated."""
    repo = repository.reference.repo
    lines = []
    if row is not None and row.spec.license_page:
        lines.append(f"license page: {row.spec.license_page}")
    source = f"{endpoint()}/{repo}"
    lines.append(f"model: {repo} provider: {repo.split('/')[0]} source: {source}")
    listed = repository.listing
    if listed is None:
        lines.append(f"license: not known offline {source}")
        return lines
    stated = listed.license or "not stated"
    if listed.license_name and stated == "other":
        stated = listed.license_name
    gate = " (gated)" if listed.gated else " (private)" if listed.private else ""
    text = catalog.printable(stated, 200)
    lines.append(f"license: {text} {description.license_url(repository)}{gate}")
    return lines


def dry_lines(repository: Any) -> list[str]:
    """What a fetch would take, and what it leaves behind."""
    candidates = repository.candidates()
    if len(candidates) > 1:
        lines = [repository.table(candidates)]
        lines.append("total: nothing is fetched until one option is selected")
    else:
        option = candidates[0]
        index = [name for name in option.companions if name.endswith(".safetensors.index.json")]
        repository.bring(index)
        files = description.remote_files(repository, repository.by_index(option))
        lines = listing_lines(files)
    listed = repository.listing
    if listed is not None:
        count = len(listed.files)
        size = "not stated" if listed.size is None else human_size(listed.size)
        lines.append(
            f"repository: {size} in {count} file{'s' if count != 1 else ''}; "
            "the rest is not fetched (other weight formats, files the fetch never takes)"
        )
    return [*lines, _NOTHING]


def listing_lines(files: description.Files) -> list[str]:
    """The files with their sizes, companions first, and the total."""
    lines = []
    for title, rows in (("companions:", files.companions), ("weights:", files.weights)):
        if rows:
            lines += [title, *(f"{row['path']} {human_size(row['bytes'])}" for row in rows)]
    return [*lines, total_line(files)]


def total_line(files: description.Files) -> str:
    weights = human_size(files.weight_bytes)
    plural = "s" if files.count != 1 else ""
    return f"total: {human_size(files.nbytes)} (weights {weights}, {files.count} file{plural})"


def _keys(model_type: str, architecture: str) -> str:
    """What identifies a checkpoint, without what it does not state; of a GGUF the architecture."""
    fields = {"model_type": model_type, "architecture": architecture}
    return " ".join(f"{key}={catalog.printable(value)}" for key, value in fields.items() if value)


def _count(number: int) -> str:
    for limit, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= limit:
            return f"{number / limit:.1f} {unit}"
    return str(number)


def _yes_no(parts: Iterable[tuple[str, bool]]) -> str:
    return " ".join(f"{name}={'yes' if there else 'no'}" for name, there in parts)


def text_of(facts: Mapping[str, Any]) -> str:
    """The facts of a model that is here, for people."""
    weights = facts["variants"][0]
    origin = facts["origin"]
    where = weights["files"][0]["path"]
    if origin["package"]:
        where = f"package {origin['package']} {origin['version']} ({origin['found']})"
    identity = _keys(facts["model_type"], facts["architecture"])
    lines = [facts["source"]]
    if facts["refusal"]:
        lines += [identity, f"not served: {facts['refusal']}"]
    else:
        lines += [f"family={facts['family']} {identity}", f"variant: {facts['variant']}"]
    lines.append(f"components: {_yes_no(facts['components'].items())}")
    if facts["license_page"]:
        lines.append(f"license page: {facts['license_page']}")
    provider = facts["provider"] or facts["vendor"] or "not stated"
    lines.append(f"model: {facts['name']} provider: {provider} source: {where}")
    lines.append(f"license: {facts['license'] or 'not stated in the checkpoint'}")
    types = ", ".join(f"{count} {kind}" for kind, count in weights["tensor_types"].items())
    count = len(weights["files"])
    lines.append(
        f"weights: {_count(facts['parameters'])} parameters, {human_size(weights['bytes'])} in "
        f"{count} file{'s' if count > 1 else ''}, {weights['bits_per_weight']:.2f} "
        f"bits per weight ({types})"
    )
    if facts["context_length"]:
        lines.append(f"context: {facts['context_length']} tokens")
    lines.append(f"chat template: {'yes' if facts['chat_template'] else 'no'}")
    if facts["verbs"]:
        lines.append(f"commands: {', '.join(facts['verbs'])}")
    return "\n".join(lines)
