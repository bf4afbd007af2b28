"""``info SOURCE...``: what a model source is, read from configuration and headers; no weights are
loaded."""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._version import __version__
from ...errors import ClikaRTError
from .. import catalog
from ..sources import ResolvedSource, human_size
from . import EXIT_FAILURE, EXIT_MODEL, EXIT_OK, resolve_source
from .arguments import UsageError

_log = logging.getLogger("clika_runtime.modelverse")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="+",
        help="a directory, a weight file, pkg:NAME[==VERSION]; @FILE reads one per line",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document for all sources")


def run(arguments: Any) -> int:
    sources = _expand(arguments.sources)
    as_json = bool(vars(arguments).get("json"))
    models: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for index, word in enumerate(sources):
        try:
            resolved = resolve_source(word, arguments)
            facts = describe(resolved, catalog.probe(resolved))
        except (ClikaRTError, UsageError, OSError) as error:
            if len(sources) == 1 and not as_json:
                raise
            _log.warning("%s: %s", word, error)
            refused.append({"source": word, "error": str(error), "code": _code(error)})
            continue
        models.append(facts)
        if not as_json:
            if index:
                print()
            print(text_of(facts))
    if as_json:
        document = {"schema": 1, "runtime": __version__, "models": models, "refused": refused}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    if refused:
        return EXIT_FAILURE
    return EXIT_MODEL if any(facts["refusal"] for facts in models) else EXIT_OK


def _code(error: Exception) -> str:
    return str(getattr(error, "code_name", "INVALID_ARGUMENT"))


def _expand(words: list[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        if not word.startswith("@"):
            found.append(word)
            continue
        try:
            lines = Path(word[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise UsageError(f"{word}: cannot be read: {error}") from error
        found += [
            line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")
        ]
    if not found:
        raise UsageError("no source is named")
    return found


def describe(source: ResolvedSource, identity: catalog.Identity) -> dict[str, Any]:
    """The facts of one model, as ``info --json`` prints them."""
    metadata: Mapping[str, Any]
    if source.kind == "gguf":
        from ...io.gguf import open_gguf

        file = open_gguf(source.path)
        metadata = file.metadata
        tensors = list(file.tensors.values())
        architecture = identity.architecture
        context = metadata.get(f"{architecture}.context_length")
        tokenizer = "tokenizer.ggml.model" in metadata
        template = "tokenizer.chat_template" in metadata
        precision = None
        experts = metadata.get(f"{architecture}.expert_count")
    else:
        from ...io._files import read_json
        from ...io.safetensors import open_safetensors

        metadata = read_json(source.folder / "config.json")
        tensors = list(open_safetensors(source.entry).tensors.values())
        context = metadata.get("max_position_embeddings")
        names = {path.name for path in source.companions}
        tokenizer = any(name in names for name in _TOKENIZERS)
        template = _has_template(source)
        precision = metadata.get("torch_dtype") or metadata.get("dtype")
        experts = metadata.get("num_local_experts") or metadata.get("num_experts")
    parameters = sum(tensor.numel for tensor in tensors)
    bits = 8 * sum(tensor.nbytes for tensor in tensors) / max(parameters, 1)
    row = identity.row
    inputs = row.spec.input_modalities if row else ()
    return {
        "source": source.spec,
        "name": _text(metadata.get("general.name")) or source.name,
        "family": identity.family or None,
        "model_type": identity.model_type,
        "architecture": identity.architecture,
        "refusal": str(identity.refusal) if identity.refusal else None,
        "refusal_code": identity.refusal.code_name if identity.refusal else None,
        "modalities": list(row.spec.modalities) if row else [],
        "verbs": list(catalog.served_verbs(identity)),
        "variant": "mixture of experts" if isinstance(experts, int) and experts > 1 else "dense",
        "components": {
            "tokenizer": tokenizer,
            "image": "image" in inputs,
            "audio": "audio" in inputs,
            "video": "video" in inputs,
        },
        "chat_template": template,
        "context_length": context if isinstance(context, int) else None,
        "parameters": parameters,
        "parameters_from": "tensor shapes",
        "provider": _text(metadata.get("general.organization") or metadata.get("general.author")),
        "vendor": row.spec.vendor if row else None,
        "license": _text(metadata.get("general.license") or source.license),
        "license_page": (row.spec.license_page or None) if row else None,
        "origin": {
            "kind": source.origin,
            "package": source.package,
            "version": source.version,
            "found": source.found,
        },
        "variants": [
            {
                "option": source.name,
                "format": source.kind,
                "precision": precision if isinstance(precision, str) else None,
                "tensor_types": dict(Counter(tensor.type for tensor in tensors).most_common()),
                "bits_per_weight": round(bits, 3),
                "bytes": source.weight_bytes,
                "files": [{"path": str(p), "bytes": p.stat().st_size} for p in source.weights],
                "companions": [
                    {"path": str(p), "bytes": p.stat().st_size} for p in source.companions
                ],
                "served": bool(catalog.served_verbs(identity)),
            }
        ],
    }


def _has_template(source: ResolvedSource) -> bool:
    from ...io._files import read_json

    for path in source.companions:
        if path.name in ("chat_template.jinja", "chat_template.json"):
            return True
        if path.name == "tokenizer_config.json":
            config = read_json(path)
            if isinstance(config, dict) and config.get("chat_template"):
                return True
    return False


def _text(value: object) -> str | None:
    """A checkpoint's own text as one printable line; None when it states none."""
    return (catalog.printable(value, 200) or None) if isinstance(value, str) else None


def _count(number: int) -> str:
    for limit, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= limit:
            return f"{number / limit:.1f} {unit}"
    return str(number)


def text_of(facts: Mapping[str, Any]) -> str:
    """The facts for people."""
    parts = facts["components"]
    components = " ".join(f"{name}={'yes' if there else 'no'}" for name, there in parts.items())
    weights = facts["variants"][0]
    origin = facts["origin"]
    where = weights["files"][0]["path"]
    if origin["package"]:
        where = f"package {origin['package']} {origin['version']} ({origin['found']})"
    model_type, architecture = map(catalog.printable, (facts["model_type"], facts["architecture"]))
    identity = f"model_type={model_type} architecture={architecture}"
    lines = [facts["source"]]
    if facts["refusal"]:
        lines += [identity, f"not served: {facts['refusal']}"]
    else:
        lines += [f"family={facts['family']} {identity}", f"variant: {facts['variant']}"]
    lines.append(f"components: {components}")
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
