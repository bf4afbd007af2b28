"""Tokenizers out of files: which kinds there are, and what the files beside them say."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clika_runtime.io._files import (
    invalid,
    missing,
    read_bytes,
    read_head,
    read_json,
    shown,
    unsupported,
)

from . import spm, spm_file, tiktoken
from ._library import guarded, library, set_byte_level, surround
from .pre_tokenizers import PRE_TOKENIZERS
from .streaming import Spelling

__all__ = ["FILE_LIMIT", "Loaded", "load_directory", "load_file", "load_tiktoken"]

FILE_LIMIT = 512 << 20  # bytes of a tokenizer file
CONFIG_LIMIT = 32 << 20
MAX_ID = (1 << 32) - 1
MAX_ADDED = 1 << 16  # tokens that a configuration adds

_SPECIAL_NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# What tokenizer classes put around the text of a SentencePiece model: bos, eos.
_FRAMES = {
    "LlamaTokenizer": (True, False),
    "CodeLlamaTokenizer": (True, False),
    "GemmaTokenizer": (True, False),
    "T5Tokenizer": (False, True),
}
# How tokenizer classes cut a text for their vocab.json and merges.txt, and whether they bring it to
# NFC.
_BYTE_LEVEL = {
    "GPT2Tokenizer": ("gpt-2", False),
    "CodeGenTokenizer": ("gpt-2", False),
    "WhisperTokenizer": ("gpt-2", False),
    "Qwen2Tokenizer": ("qwen2", True),
}


@dataclass
class Loaded:
    """The parts of a tokenizer: the arguments of ``Tokenizer``."""

    backend: Any
    where: str
    spelling: Spelling | None = None
    special_ids: dict[str, int] = field(default_factory=dict)
    chat_template: str | None = None
    tool_template: str | None = None


def load_directory(folder: str) -> Loaded:
    """The tokenizer of a model directory: the first of ``_FILES`` that is there."""
    if not os.path.isdir(folder):
        if os.path.exists(folder):
            raise invalid(folder, "expected a model directory, found a file")
        raise missing(folder, "no such directory")
    for name, load in _FILES.items():
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return load(path)
    raise missing(folder, f"no tokenizer in this directory: none of {', '.join(_FILES)}")


def load_file(path: str) -> Loaded:
    """The tokenizer of one file, by its name and its first bytes."""
    load = _FILES.get(os.path.basename(path))
    if load is None and path.endswith(".model"):
        load = _load_model
    if load is None and path.endswith(".tiktoken"):
        load = load_tiktoken
    return (load or _load_json)(path)


# ------------------------------------------------------------ what stands beside a file
def _config(path: str) -> tuple[dict[str, Any], str]:
    """What the configurations in the folder of ``path`` say, and the name of the last."""
    folder = os.path.dirname(path) or "."
    config: dict[str, Any] = {}
    where = os.path.join(folder, "tokenizer_config.json")
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        config_path = os.path.join(folder, name)
        if os.path.exists(config_path):
            found = read_json(config_path, CONFIG_LIMIT)
            if not isinstance(found, dict):
                raise invalid(config_path, f"expected an object, found {shown(found)}")
            config.update(found)
    return config, where


def _finish(loaded: Loaded, config: Mapping[str, Any], where: str) -> Loaded:
    """Sets special ids and chat template as the configuration asks."""
    for name in _SPECIAL_NAMES:
        token = _token_text(config.get(f"{name}_token"), f"{name}_token", where)
        if token is not None:
            with guarded(loaded.where, "MALFORMED_FILE"):
                index = loaded.backend.token_to_id(token)
            if index is not None:
                loaded.special_ids[name] = index
    loaded.chat_template, loaded.tool_template = _chat_templates(config.get("chat_template"), where)
    jinja = os.path.join(os.path.dirname(loaded.where) or ".", "chat_template.jinja")
    if os.path.exists(jinja):
        loaded.chat_template, loaded.tool_template = _text(jinja, CONFIG_LIMIT), None
    return loaded


def _text(path: str, limit: int) -> str:
    try:
        return str(read_bytes(path, limit), "utf-8")
    except UnicodeDecodeError as error:
        raise invalid(path, f"is not UTF-8: {error.reason}") from error


def _token_text(value: Any, name: str, where: str) -> str | None:
    """A special token of a configuration: a string, or an object with its ``content``."""
    if value is None:
        return None
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise invalid(
            where, f"{name} must be a string or an object with content, found {shown(value)}"
        )
    return text


def _flag(config: Mapping[str, Any], name: str, default: bool, where: str) -> bool:
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid(where, f"{name} must be true or false, found {shown(value)}")
    return value


def _class_name(config: Mapping[str, Any], where: str) -> str | None:
    """The tokenizer class that a configuration names, that of the slow tokenizer."""
    name = config.get("tokenizer_class")
    if name is not None and not isinstance(name, str):
        raise invalid(where, f"tokenizer_class must be a string, found {shown(name)}")
    return None if name is None else name.removesuffix("Fast")


def _added_tokens(config: Mapping[str, Any], where: str) -> dict[int, Mapping[str, Any]]:
    """The tokens that a configuration adds, in the order of ids: ``added_tokens_decoder``, else
    the older ``added_tokens.json``."""
    value = config.get("added_tokens_decoder")
    if value is None:
        return _older_added_tokens(config, os.path.dirname(where))
    if not isinstance(value, dict) or len(value) > MAX_ADDED:
        raise invalid(
            where, f"added_tokens_decoder must be an object of tokens by id, found {shown(value)}"
        )
    result = {}
    for key, token in value.items():
        if not (key.isascii() and key.isdigit() and len(key) < 10) or not isinstance(token, dict):
            raise invalid(where, f"added_tokens_decoder has an item {shown({key: token})}")
        if not _token_text(token, "added_tokens_decoder", where):
            raise invalid(where, f"added_tokens_decoder item {key} has no content")
        result[int(key)] = token
    return dict(sorted(result.items()))


def _older_added_tokens(config: Mapping[str, Any], folder: str) -> dict[int, Mapping[str, Any]]:
    path = os.path.join(folder, "added_tokens.json")
    if not os.path.exists(path):
        return {}
    value = read_json(path, CONFIG_LIMIT)
    if not isinstance(value, dict) or len(value) > MAX_ADDED:
        raise invalid(path, f"expected an object of tokens and their ids, found {shown(value)}")
    named = [config.get(f"{name}_token") for name in _SPECIAL_NAMES]
    named += config.get("additional_special_tokens") or []
    special = {_token_text(token, "a special token", path) for token in named}
    result = {}
    for token, index in value.items():
        if not token or type(index) is not int or not 0 <= index <= MAX_ID:
            raise invalid(path, f"has an item {shown({token: index})}")
        result[index] = {"content": token, "special": token in special}
    return dict(sorted(result.items()))


def _add_tokens(backend: Any, added: Mapping[int, Mapping[str, Any]], where: str) -> None:
    """Adds the tokens to a vocabulary, each at its id."""
    token_class = library().AddedToken
    with guarded(where, "MALFORMED_FILE"):
        for index, token in added.items():
            content, special = token["content"], bool(token.get("special"))
            if not special and backend.token_to_id(content) == index:
                continue  # a piece of the vocabulary, which cuts it as it does
            flags = {name: bool(token.get(name)) for name in ("single_word", "lstrip", "rstrip")}
            backend.add_tokens([token_class(content, special=special, normalized=False, **flags)])
            found = backend.token_to_id(content)
            if found != index:
                raise invalid(
                    where,
                    f"added_tokens_decoder places {shown(content)} at {index}, the vocabulary "
                    f"at {found}",
                )


def _chat_templates(value: Any, where: str) -> tuple[str | None, str | None]:
    """The template of a configuration and the one for tools: a string, or a list of named ones, of
    which "default" and "tool_use" count."""
    if value is None or isinstance(value, str):
        return value, None
    named: dict[str, str] = {}
    if isinstance(value, list):
        for item in value:
            if (
                not isinstance(item, dict)
                or not isinstance(item.get("name"), str)
                or not isinstance(item.get("template"), str)
            ):
                raise invalid(
                    where, f"chat_template items need a name and a template, found {shown(item)}"
                )
            named[item["name"]] = item["template"]
    elif isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        named = value
    else:
        raise invalid(
            where, f"chat_template must be a string or named templates, found {shown(value)}"
        )
    default = named.get("default", next(iter(named.values()), None))
    return default, named.get("tool_use")


# ------------------------------------------------------------ kinds of files
def _load_json(path: str) -> Loaded:
    """A ``tokenizer.json``."""
    data = read_bytes(path, FILE_LIMIT)
    lib = library()
    with guarded(path, "MALFORMED_FILE"):
        backend = lib.Tokenizer.from_buffer(data)
    return _finish(Loaded(backend, path), *_config(path))


def _load_vocabulary(path: str) -> Loaded:
    """A byte-level BPE of the GPT-2 kind from its two files."""
    merges_path = os.path.join(os.path.dirname(path) or ".", "merges.txt")
    if not os.path.exists(merges_path):
        raise missing(merges_path, "vocab.json needs its merges.txt beside it")
    config, where = _config(path)
    name = _class_name(config, where)
    tag, nfc = _BYTE_LEVEL.get(name or "GPT2Tokenizer", (None, False))
    if tag is None:
        raise unsupported(
            where,
            f"tokenizer_class {shown(name)} cuts a text for its vocab.json in its own way; provide "
            f"a tokenizer.json (served without one: {', '.join(_BYTE_LEVEL)})",
        )
    vocabulary = read_json(path, FILE_LIMIT)
    good = isinstance(vocabulary, dict) and all(
        isinstance(value, int) and 0 <= value <= MAX_ID for value in vocabulary.values()
    )
    if not good:
        raise invalid(path, "expected an object of tokens and their ids")
    pairs = []
    for number, line in enumerate(_text(merges_path, FILE_LIMIT).split("\n"), 1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = line.split(" ")
        if len(pair) != 2:
            raise invalid(
                merges_path,
                f"line {number} must be two pieces with a space between, found {shown(line)}",
            )
        pairs.append((pair[0], pair[1]))
    lib = library()
    with guarded(path, "MALFORMED_FILE"):
        backend = lib.Tokenizer(lib.models.BPE(vocab=vocabulary, merges=pairs))
        if nfc:
            backend.normalizer = lib.normalizers.NFC()
        set_byte_level(backend, PRE_TOKENIZERS[tag].patterns)
    _add_tokens(backend, _added_tokens(config, where), where)
    return _finish(Loaded(backend, path), config, where)


def _load_model(path: str) -> Loaded:
    """A ``.model``: SentencePiece, or ranks in the manner of tiktoken under the same name."""
    if tiktoken.is_rank_file(read_head(path, 4096)):
        return load_tiktoken(path)
    config, where = _config(path)
    name = _class_name(config, where)
    frame = (False, False) if name is None else _FRAMES.get(name)
    if frame is None:
        raise unsupported(
            where,
            f"tokenizer_class {shown(name)} changes the ids of its SentencePiece model in its own "
            f"way; provide a tokenizer.json (served without one: {', '.join(_FRAMES)})",
        )
    model = spm_file.parse_model(read_bytes(path, FILE_LIMIT), path)
    backend, spelling = spm.build(model, path)
    loaded = Loaded(backend, path, spelling)
    for role, token in model.names.items():
        index = backend.token_to_id(token)
        if index is not None and model.types[index] in (spm.CONTROL, spm.UNKNOWN):
            loaded.special_ids[role] = index
    added = _added_tokens(config, where)
    extra = config.get("extra_ids", 100 if name == "T5Tokenizer" else 0)
    if not added and isinstance(extra, int) and 0 < extra <= MAX_ADDED:
        size = len(model.tokens)
        added = {
            size + place: {"content": f"<extra_id_{extra - 1 - place}>", "special": True}
            for place in range(extra)
        }
    _add_tokens(backend, added, where)
    _finish(loaded, config, where)
    roles = [
        role if _flag(config, f"add_{role}_token", default, where) else ""
        for role, default in zip(("bos", "eos"), frame, strict=True)
    ]
    surround(backend, *(loaded.special_ids.get(role) for role in roles))
    return loaded


def load_tiktoken(
    path: str,
    pattern: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
) -> Loaded:
    """A rank file. What it does not say comes from the arguments, from the configuration beside it
    (special tokens), or from the model that publishes under this name."""
    preset = tiktoken.PRESETS.get(os.path.basename(path))
    if pattern is None and preset is None:
        raise unsupported(
            path,
            "a rank file does not say how to cut a text; give its pattern to "
            f"Tokenizer.from_tiktoken (known by name: {', '.join(tiktoken.PRESETS)})",
        )
    ranks = tiktoken.parse_ranks(read_bytes(path, FILE_LIMIT), path)
    config, where = _config(path)
    special: Mapping[str, int]
    if special_tokens is not None:
        special = special_tokens
    elif added := _added_tokens(config, where):
        special = {token["content"]: index for index, token in added.items()}
    else:
        special = tiktoken.preset_special(preset, ranks) if preset is not None else {}
    backend = tiktoken.build(
        ranks,
        tiktoken.preset_patterns(preset)
        if pattern is None and preset is not None
        else pattern or "",
        special,
        path,
        nfc=pattern is None and preset is not None and preset.nfc,
    )
    loaded = _finish(Loaded(backend, path), config, where)
    if pattern is None and preset is not None and preset.bos and special_tokens is None:
        loaded.special_ids.setdefault("bos", special.get(preset.special[0], len(ranks)))
        surround(backend, loaded.special_ids["bos"], None)
    return loaded


def _load_tekken(path: str) -> Loaded:
    """A ``tekken.json``."""
    ranks, pattern, special = tiktoken.parse_tekken(read_json(path, FILE_LIMIT), path)
    backend = tiktoken.build(ranks, pattern, special, path, offset=len(special))
    named = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
    found = {role: special[token] for role, token in named.items() if token in special}
    surround(backend, found.get("bos"), None)
    return _finish(Loaded(backend, path, special_ids=found), *_config(path))


# By name, in the order in which a directory is searched.
_FILES: dict[str, Callable[[str], Loaded]] = {
    "tokenizer.json": _load_json,
    "tokenizer.model": _load_model,
    "spiece.model": _load_model,
    "sentencepiece.bpe.model": _load_model,
    "spm.model": _load_model,
    "tekken.json": _load_tekken,
    "vocab.json": _load_vocabulary,
    "qwen.tiktoken": load_tiktoken,
    "tiktoken.model": load_tiktoken,
}
