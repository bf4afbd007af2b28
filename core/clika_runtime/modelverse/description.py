"""What a model source is: the facts behind ``info``.

Everything comes from configuration files and the headers of weights; no weights are read, and of a
repository of the hub nothing but small files and headers moves.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ClikaRTError, UnsupportedError
from . import catalog
from .sources import ResolvedSource, resolve
from .sources.options import quant_tag
from .sources.reference import Reference, endpoint

if TYPE_CHECKING:
    from .hub.listing import RemoteFile
    from .hub.repository import Repository
    from .sources.layout import Option

__all__ = [
    "Files",
    "describe",
    "files_of",
    "hub_facts",
    "hub_identity",
    "license_url",
    "local_facts",
    "remote_files",
]

_log = logging.getLogger("clika_runtime.modelverse")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json")
_TERMS = ("weights", "cache_per_token", "cache_dtype", "context", "activations", "workspace")
_OTHER_INPUTS = ("vision_config", "audio_config", "video_config")


def describe(
    source: str | Path | Reference,
    *,
    revision: str | None = None,
    weights: str | None = None,
    offline: bool = False,
    cache_dir: str | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """The facts of one model with all its weight variants, as ``info --json`` prints them.

    Raises what `sources.resolve` raises; of a repository no weights are fetched.
    """
    from .sources import place

    where = source
    if not isinstance(source, Reference):
        found = place(source, revision=revision, weights=weights)
        where = found if isinstance(found, Reference) else source
    if isinstance(where, Reference):
        from .hub.repository import open_repository

        repository = open_repository(where, offline=offline, cache_dir=cache_dir, quiet=quiet)
        return hub_facts(repository)
    resolved = resolve(where, weights=weights, offline=offline, cache_dir=cache_dir, quiet=quiet)
    return local_facts(resolved, catalog.probe(resolved))


# ---------------------------------------------------------------- one checkpoint


@dataclass(frozen=True, slots=True)
class _Read:
    """What configuration and headers say."""

    metadata: Mapping[str, Any]
    tensors: Sequence[Any]
    context: Any
    tokenizer: bool
    template: bool
    precision: Any
    experts: Any
    inputs: bool


def _read(source: ResolvedSource, architecture: str) -> _Read:
    if source.kind == "gguf":
        from ..io.gguf import open_gguf

        file = open_gguf(source.path)
        held = file.metadata
        return _Read(
            held,
            list(file.tensors.values()),
            held.get(f"{architecture}.context_length"),
            "tokenizer.ggml.model" in held,
            "tokenizer.chat_template" in held,
            None,
            held.get(f"{architecture}.expert_count"),
            False,
        )
    from ..io._files import read_json
    from ..io.safetensors import open_safetensors

    path = source.folder / "config.json"
    config = read_json(path) if path.is_file() else {}
    text = config.get("text_config")
    inner = text if isinstance(text, dict) else config
    names = {path.name for path in source.companions}
    return _Read(
        config,
        list(open_safetensors(source.entry).tensors.values()),
        config.get("max_position_embeddings") or inner.get("max_position_embeddings"),
        any(name in names for name in _TOKENIZERS),
        _has_template(source),
        config.get("torch_dtype") or config.get("dtype") or inner.get("torch_dtype"),
        inner.get("num_local_experts") or inner.get("num_experts"),
        any(isinstance(config.get(key), dict) for key in _OTHER_INPUTS),
    )


def _has_template(source: ResolvedSource) -> bool:
    from ..io._files import read_json

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


def _facts(
    source: ResolvedSource, identity: catalog.Identity, read: _Read, variants: list[dict[str, Any]]
) -> dict[str, Any]:
    row = identity.row
    inputs = row.spec.input_modalities if row else ()
    mixed = isinstance(read.experts, int) and read.experts > 1
    shape = "mixture of experts" if mixed else "dense"
    parameters = sum(tensor.numel for tensor in read.tensors)
    stated = _text(read.metadata.get("general.organization") or read.metadata.get("general.author"))
    return {
        "model": source.repo or source.spec,
        "source": source.spec,
        "name": _text(read.metadata.get("general.name")) or source.name,
        "family": identity.family or None,
        "model_type": catalog.printable(identity.model_type, 200),
        "architecture": catalog.printable(identity.architecture, 200),
        "refusal": str(identity.refusal) if identity.refusal else None,
        "refusal_code": identity.refusal.code_name if identity.refusal else None,
        "modalities": list(row.spec.modalities) if row else [],
        "verbs": list(catalog.served_verbs(identity)),
        "variant": shape + (" + multimodal" if read.inputs else ""),
        "components": {
            "tokenizer": read.tokenizer,
            "image": "image" in inputs,
            "audio": "audio" in inputs,
            "video": "video" in inputs,
        },
        "chat_template": read.template,
        "context_length": read.context if isinstance(read.context, int) else None,
        "parameters": parameters,
        "parameters_from": "tensor shapes",
        "provider": source.repo.split("/")[0] if source.repo else stated,
        "vendor": row.spec.vendor if row else None,
        "license": _text(read.metadata.get("general.license") or source.license),
        "license_url": None,
        "license_page": (row.spec.license_page or None) if row else None,
        "gated": None,
        "origin": {
            "kind": source.origin,
            "package": source.package,
            "version": source.version,
            "found": source.found,
            "repo": source.repo,
            "commit": source.commit,
            "url": f"{endpoint()}/{source.repo}" if source.repo else None,
        },
        "variants": variants,
    }


def _variant(
    source: ResolvedSource,
    identity: catalog.Identity,
    read: _Read,
    files: Files,
    option: str,
    fit: bool,
) -> dict[str, Any]:
    parameters = sum(tensor.numel for tensor in read.tensors)
    bits = 8 * sum(tensor.nbytes for tensor in read.tensors) / max(parameters, 1)
    types = Counter(tensor.type for tensor in read.tensors)
    served = bool(catalog.served_verbs(identity))
    return {
        "source": source.spec,
        "option": option,
        "tag": quant_tag(option) or None,
        "format": source.kind,
        "precision": _text(read.precision),
        "parameters": parameters,
        "tensor_types": dict(types.most_common()),
        "requires": sorted(types),
        "bits_per_weight": round(bits, 3),
        "bytes": files.weight_bytes,
        "files": files.weights,
        "companions": files.companions,
        "fit": fit_terms(source) if served and fit else None,
        "served": served and all(tensor.loadable for tensor in read.tensors),
        "problem": None,
    }


def fit_terms(source: ResolvedSource) -> dict[str, Any] | None:
    """The terms of the memory law for the checkpoint's whole window on the host, as ``check``
    prices them; None for a model that cannot be judged here."""
    from .fit import check

    try:
        terms = check(source)[0].terms()
    except (ClikaRTError, ValueError, ArithmeticError) as error:
        _log.debug("%s: no fit terms: %s", source.spec, error)
        return None
    return {name: terms[name] for name in _TERMS}


def local_facts(
    source: ResolvedSource, identity: catalog.Identity, *, fit: bool = True
) -> dict[str, Any]:
    """The facts of a model whose files are here; without ``fit`` neither NumPy nor the native core
    is loaded for them."""
    read = _read(source, identity.architecture)
    variant = _variant(source, identity, read, files_of(source), source.name, fit)
    return _facts(source, identity, read, [variant])


# ---------------------------------------------------------------- files


@dataclass(frozen=True, slots=True)
class Files:
    """The files of an option as documents list them: path, bytes, and the checksums that are
    stated."""

    companions: list[dict[str, Any]]
    weights: list[dict[str, Any]]

    @property
    def weight_bytes(self) -> int:
        return sum(int(file["bytes"]) for file in self.weights)

    @property
    def nbytes(self) -> int:
        return self.weight_bytes + sum(int(file["bytes"]) for file in self.companions)

    @property
    def count(self) -> int:
        return len(self.weights) + len(self.companions)


def _row(path: str, nbytes: int, etag: str = "") -> dict[str, Any]:
    return {
        "path": path,
        "bytes": nbytes,
        "sha256": etag if len(etag) == 64 else None,
        "git_sha1": etag if len(etag) == 40 else None,
    }


def files_of(source: ResolvedSource) -> Files:
    """The files of a source that is here."""
    return Files(
        [_row(str(path), path.stat().st_size) for path in source.companions],
        [_row(str(path), path.stat().st_size) for path in source.weights],
    )


def remote_files(repository: Repository, option: Option) -> Files:
    """The files that a fetch of ``option`` takes, by the listing."""
    plan = repository.plan(option)

    def rows(files: Sequence[RemoteFile]) -> list[dict[str, Any]]:
        return [_row(file.name, file.size, file.etag) for file in files]

    return Files(rows(plan.companions), rows(plan.weights))


# ---------------------------------------------------------------- repositories


def hub_identity(repository: Repository) -> tuple[catalog.Identity, str, bool, bool]:
    """(what the repository is, its shape, whether a tokenizer stands beside the weights, whether it
    reads more than text): from config.json, or from the architecture that the hub states of a GGUF
    repository, else from the header of one of its files."""
    option = repository.candidates()[0]
    tokenizer = any(name.rpartition("/")[2] in _TOKENIZERS for name in option.companions)
    listed = repository.listing
    stated = listed.gguf.get("architecture") if listed is not None else None
    if option.kind == "gguf" and isinstance(stated, str) and stated:
        path = repository.folder / option.weights[0]
        return catalog.match(path, "gguf", "", stated), "dense", tokenizer, False
    with _outlined(repository, option, headers=option.kind == "gguf") as source:
        identity = catalog.probe(source)
        if option.kind == "gguf":
            read = _read(source, identity.architecture)
            mixed = isinstance(read.experts, int) and read.experts > 1
            return identity, "mixture of experts" if mixed else "dense", tokenizer, False
        from ..io._files import read_json

        path = source.folder / "config.json"
        config = read_json(path) if path.is_file() else {}
        inner = config.get("text_config")
        inner = inner if isinstance(inner, dict) else config
        experts = inner.get("num_local_experts") or inner.get("num_experts")
        mixed = isinstance(experts, int) and experts > 1
        more = any(isinstance(config.get(key), dict) for key in _OTHER_INPUTS)
        return identity, "mixture of experts" if mixed else "dense", tokenizer, more


@contextlib.contextmanager
def _outlined(
    repository: Repository, option: Option, *, headers: bool = True
) -> Iterator[ResolvedSource]:
    from .hub.outline import outline

    with outline(repository, option, headers=headers) as source:
        yield source


def hub_facts(repository: Repository) -> dict[str, Any]:
    """The facts of a repository with one variant per weight option: every option, or the one that
    the source selects. A variant whose header cannot be read is listed with its problem."""
    reference = repository.reference
    chosen = repository.candidates()
    options = chosen if reference.selector or reference.path else repository.options
    options = chosen + [option for option in options if option not in chosen]
    facts: dict[str, Any] | None = None
    problem: ClikaRTError | None = None
    variants: list[dict[str, Any]] = []
    for option in options:
        try:
            with _outlined(repository, option) as source:
                identity = catalog.probe(source)
                read = _read(source, identity.architecture)
                option = repository.by_index(option)
                files = remote_files(repository, option)
                variant = _variant(source, identity, read, files, option.name, True)
                variants.append(variant)
                if facts is None:
                    facts = _facts(source, identity, read, variants)
        except ClikaRTError as error:
            problem = problem or error
            variants.append(_broken(repository, option, error))
    if facts is None:
        raise problem or UnsupportedError(f"'{reference.shown}' has no weight option")
    listed = repository.listing
    if listed is not None:
        facts["model"] = listed.base_model or reference.repo
        facts["license"] = listed.license or facts["license"]
        facts["gated"] = listed.gated or ("private" if listed.private else False)
        facts["license_url"] = license_url(repository)
    return facts


def _broken(repository: Repository, option: Option, error: ClikaRTError) -> dict[str, Any]:
    files = remote_files(repository, option)
    return {
        "source": repository.reference.spec,
        "option": option.name,
        "tag": quant_tag(option.name) or None,
        "format": option.kind,
        "precision": None,
        "parameters": None,
        "tensor_types": {},
        "requires": [],
        "bits_per_weight": None,
        "bytes": files.weight_bytes,
        "files": files.weights,
        "companions": files.companions,
        "fit": None,
        "served": False,
        "problem": str(error),
    }


def license_url(repository: Repository) -> str:
    """Where the repository's license can be read: its license file, else its page."""
    base = f"{endpoint()}/{repository.reference.repo}"
    revision = repository.reference.revision or "main"
    for name in ("LICENSE", "LICENSE.md", "LICENSE.txt", "license"):
        if name in repository.names:
            return f"{base}/blob/{revision}/{name}"
    return base
