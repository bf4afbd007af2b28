"""Sessions: a text with what was computed of it, in a file.

    model.chat(turns)
    model.save_session("talk.safetensors", turns)
    ...
    session = other.load_session("talk.safetensors")  # the same model, another process
    other.chat([*session.messages, question])  # only what is new is computed

A safetensors file: ``tokens`` int32 ``[T]``, and ``layers.N.keys`` and ``layers.N.values`` of every
layer, ``[T, heads, width]`` as the cache holds them. The metadata has a JSON document with a
version, the messages, the SHA-256 of all tensors, and the fingerprint of the model: what the bits
of a row depend on. A file of another model, or of another way to compute, is refused with what
differs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.io import make_tensor, open_safetensors, write_safetensors
from clika_runtime.io._files import parse_json

from .prefixes import LEAST, Prefix
from .rope_scaling import RopeScaling

if TYPE_CHECKING:
    from .adapters import Adapter
    from .generation import GenerativeModel

__all__ = ["FORMAT", "Session", "fingerprint", "load_session", "save_session"]

FORMAT = "clika_runtime.session"
VERSION = 1
# Facts of a model that options of its load decide.
_OPTIONS = {"dtype": "dtype", "mode": "mode", "cache": "kv_dtype"}
# Of a tensor: bytes of its beginning, and of windows spread over the rest.
_HEAD, _WINDOW, _WINDOWS = 4096, 256, 16


@dataclass(frozen=True)
class Session:
    """A text that a cache holds: its ``tokens``, and the ``messages`` that it was made of, where
    they were given."""

    tokens: tuple[int, ...]
    messages: list[dict[str, Any]] | None = None


def save_session(
    model: GenerativeModel,
    path: str | os.PathLike[str],
    messages: Any = None,
    tokens: Sequence[int] | None = None,
) -> Session:
    """Writes the text that the model used last, or the one that begins most like ``tokens``:
    `GenerativeModel.save_session`."""
    import numpy as np

    told = None
    if messages is not None:
        told = _messages(
            list(messages) if isinstance(messages, tuple) else messages, "save_session"
        )
    if tokens is not None:
        model.check_ids(tokens)
    store = _store(model, "save_session")
    with model.engine.lock:
        latest = store.latest
        if tokens is not None:
            latest = store.find(np.asarray(tokens, np.int32))[1]
        if latest is None:
            raise InvalidArgumentError(
                f"save_session: the cache holds no such text of {LEAST} tokens or more; generate "
                "it first",
                "FAILED_PRECONDITION",
            )
        cache = model.engine.cache
        length = len(latest.tokens)
        rows: dict[str, tuple[str, tuple[int, ...], Any]] = {
            "tokens": ("int32", (length,), latest.tokens.astype("<i4"))
        }
        for name, pool in _pools(model):

            def held(pool: Any = pool) -> bytes:
                return b"".join(part.cpu().bytes() for part in cache.rows_of(latest.snapshot, pool))

            rows[name] = (pool.dtype.name, (length, *pool.shape[2:]), held)
        digest = hashlib.sha256()
        for _, _, data in rows.values():
            digest.update(data() if callable(data) else data.tobytes())
        document = {
            "version": VERSION,
            "model": fingerprint(model),
            "messages": told,
            "sha256": digest.hexdigest(),
        }
        try:
            text = json.dumps(document)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"save_session: messages are no JSON: {error}") from error
        write_safetensors(path, rows, {FORMAT: text})
        return Session(tuple(latest.tokens.tolist()), told)


def load_session(model: GenerativeModel, path: str | os.PathLike[str]) -> Session:
    """Reads a session into the model's cache: `GenerativeModel.load_session`."""
    store = _store(model, "load_session")
    where = os.fsdecode(path)
    if os.path.isdir(where) or where.endswith(".json"):
        raise _malformed(where, "is no file of a session")
    file = open_safetensors(path)
    document = _document(where, file.metadata.get(FORMAT))
    _check_model(where, document.get("model"), fingerprint(model))
    messages = document.get("messages")
    if messages is not None:
        messages = _messages(messages, where, "MALFORMED_FILE")
    tokens = _tokens(model, where, file)
    expected = {
        name: (pool.dtype.name, (len(tokens), *pool.shape[2:])) for name, pool in _pools(model)
    }
    found = {
        name: (info.dtype, tuple(info.shape))
        for name, info in file.tensors.items()
        if name != "tokens"
    }
    if found != expected:
        wrong = sorted(
            name for name in {*found, *expected} if found.get(name) != expected.get(name)
        )
        raise _malformed(
            where,
            f"tensor '{wrong[0]:.80}' is {found.get(wrong[0], 'missing')}, the cache of this model "
            f"has {expected.get(wrong[0], 'none of that name')}",
        )
    digest = hashlib.sha256()
    for name in ("tokens", *expected):
        digest.update(file.view(name))
    if document.get("sha256") != digest.hexdigest():
        raise _malformed(where, "the session is damaged: its checksum is another one")
    for name in expected:
        if not model.engine.cache.rows.is_finite(make_tensor(file, name)):
            raise _malformed(where, f"tensor '{name}' holds rows that are no numbers")
    with model.engine.lock:
        cache = model.engine.cache
        snapshot = cache.hold(len(tokens))
        try:
            for name, pool in _pools(model):
                start = 0
                stored = make_tensor(file, name, cache.config.device)
                for part in cache.rows_of(snapshot, pool):
                    crt.copy_(part, stored[start : start + part.shape[0]])
                    start += part.shape[0]
                crt.synchronize(cache.config.device)
        except BaseException:
            cache.release(snapshot)
            raise
        store.add(Prefix(tokens, snapshot))
    return Session(tuple(tokens.tolist()), messages)


# ---- the model
def fingerprint(model: GenerativeModel) -> dict[str, str]:
    """What the bits of a cache's rows depend on, by name: config and weights (samples of every
    tensor's bytes), adapters, dtypes, device, and the window where rotary frequencies follow it."""
    loaded = model.loaded
    device = crt.Device(loaded.options.device)
    properties = crt.get_device_properties(device)
    cache = model.engine.cache.config
    facts = {
        "family": loaded.family.name,
        "config": _digest(repr(loaded.config).encode()),
        "weights": _weights(loaded.checkpoint.file),
        "adapters": _adapters(loaded.adapters, loaded.options.merge_adapters),
        "dtype": loaded.dtype.name,
        "mode": str(loaded.options.mode),
        "cache": cache.rows.name,
        "device": f"{device.type} {properties.isa or properties.compute_capability or ''}".strip(),
    }
    if _follows_window(loaded.config):
        facts["window"] = str(cache.max_tokens)
    return facts


def _weights(file: Any) -> str:
    digest = hashlib.sha256()
    for name in sorted(file.tensors):
        info = file.tensors[name]
        view = memoryview(file.view(name)).cast("B")
        digest.update(f"{name} {info.type} {tuple(info.shape)} {len(view)}\n".encode())
        digest.update(view[:_HEAD])
        step = max(1, (len(view) - _WINDOW) // _WINDOWS)
        for start in range(_HEAD, len(view), max(step, _WINDOW)):
            digest.update(view[start : start + _WINDOW])
    return digest.hexdigest()


def _adapters(adapters: Sequence[Adapter], merged: bool) -> str:
    parts = []
    for adapter in adapters:
        scales = repr([(name, pair.scale) for name, pair in sorted(adapter.targets.items())])
        text = f"{_weights(adapter.file.file)} {scales} {'merged' if merged else 'beside'}"
        parts.append(f"{_digest(text.encode())} x{adapter.spec.scale!r}")
    return ", ".join(parts)


def _follows_window(config: Any) -> bool:
    held = [getattr(config, item.name) for item in fields(config)] if is_dataclass(config) else []
    return any(isinstance(item, RopeScaling) and item.follows_window for item in held)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _pools(model: GenerativeModel) -> list[tuple[str, Any]]:
    return [
        (f"layers.{layer}.{kind}", pool)
        for layer, pair in enumerate(model.engine.cache.pools)
        for kind, pool in zip(("keys", "values"), pair, strict=True)
    ]


def _store(model: GenerativeModel, what: str) -> Any:
    if model.prefixes is None:
        raise InvalidArgumentError(
            f"{what}: the model was loaded without prefix_cache, which holds sessions",
            "FAILED_PRECONDITION",
        )
    return model.prefixes


# ---- the file
def _malformed(where: str, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{where}: {problem}", "MALFORMED_FILE")


def _document(where: str, text: str | None) -> Mapping[str, Any]:
    if text is None:
        raise _malformed(where, f"is no session: its metadata has no '{FORMAT}'")
    document = parse_json(text.encode(), where, "the document of the session")
    version = document.get("version") if isinstance(document, dict) else None
    if isinstance(version, bool) or not isinstance(version, int):
        raise _malformed(where, "the document of the session has no version")
    if version != VERSION:
        raise UnsupportedError(
            f"{where}: a session of version {version}, this release reads {VERSION}"
        )
    found: Mapping[str, Any] = document
    return found


def _check_model(where: str, found: Any, ours: Mapping[str, str]) -> None:
    if not isinstance(found, dict):
        raise _malformed(where, "the session names no model")
    for name in {**ours, **found}:
        if found.get(name) != ours.get(name):
            fix = ""
            if name in _OPTIONS and isinstance(found.get(name), str):
                fix = f"; load the model with {_OPTIONS[name]}={found[name]!r:.80}"
            raise InvalidArgumentError(
                f"{where}: the session is of another model: its {name!r:.40} is "
                f"{found.get(name)!r:.80}, here it is {ours.get(name)!r:.80}{fix}",
                "FAILED_PRECONDITION",
            )


def _messages(found: Any, where: str, code: str = "INVALID_ARGUMENT") -> list[dict[str, Any]]:
    good = isinstance(found, list) and all(
        isinstance(item, dict)
        and isinstance(item.get("role"), str)
        and isinstance(item.get("content"), str)
        for item in found
    )
    if not good:
        raise InvalidArgumentError(
            f"{where}: messages are a list of dicts with the texts role and content", code
        )
    messages: list[dict[str, Any]] = found
    return messages


def _tokens(model: GenerativeModel, where: str, file: Any) -> Any:
    import numpy as np

    info = file.tensors.get("tokens")
    if info is None or info.dtype != "int32" or len(info.shape) != 1:
        raise _malformed(where, "has no tensor 'tokens' of int32 [T]")
    length = info.shape[0]
    if not LEAST <= length <= model.window:
        raise InvalidArgumentError(
            f"{where}: the session has {length} tokens, {LEAST} .. {model.window} (the context "
            "window) can be restored",
            "FAILED_PRECONDITION" if length > model.window else "MALFORMED_FILE",
        )
    tokens = np.frombuffer(bytes(file.view("tokens")), "<i4").astype(np.int32)
    vocabulary = model.loaded.model.vocab_size
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        raise _malformed(where, f"has tokens outside the vocabulary of {vocabulary}")
    return tokens
