"""A tokenizer out of the metadata of a GGUF checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from clika_runtime._native._strings import split_pairs
from clika_runtime.io._files import invalid, shown, unsupported

from ._library import add_tokens, guarded, library, set_byte_level, surround
from .pre_tokenizers import PRE_TOKENIZERS
from .spm import (
    BYTE,
    BYTE_NAMES,
    CONTROL,
    NORMAL,
    SPACE,
    UNKNOWN,
    USER_DEFINED,
    SpmModel,
    piece_spelling,
)
from .spm import build as build_spm
from .streaming import Spelling

__all__ = ["MODELS", "build", "end_ids", "special_ids"]

# `tokenizer.ggml.model` values: what they are. Those with a builder below are served.
MODELS = {
    "gpt2": "byte-level BPE",
    "llama": "SentencePiece BPE",
    "t5": "SentencePiece unigram",
    "bert": "WordPiece",
    "gemma4": "BPE with byte fallback",
    "rwkv": "RWKV",
    "plamo2": "PLaMo",
    "hybriddna": "BPE with k-mers",
    "whitespace": "words",
    "no_vocab": "no vocabulary",
    "none": "no vocabulary",
}

_PREFIX = "tokenizer.ggml."
_IDS = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "eot": "eot_token_id",
    "eom": "eom_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",  # the format's own spelling
    "pad": "padding_token_id",
    "mask": "mask_token_id",
    "cls": "cls_token_id",
}
# What a file means that does not name the token.
_DEFAULT_IDS = {
    "llama": {"bos": 1, "eos": 2, "unk": 0},
    "t5": {"eos": 1, "unk": 2, "pad": 0},
    "bert": {"bos": 101, "sep": 102, "unk": 100, "pad": 0, "mask": 103},
}
# 2**32 - 1 is how some writers say "none".
_NO_TOKEN = 0xFFFFFFFF
# Tokens that end a turn or a text: few files name all of theirs in the metadata, and some give them
# a type that is not theirs.
_END_NAMES = (
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<turn|>",
    "<EOT>",
    "[EOT]",
    "[EOS]",
    "<｜end▁of▁sentence｜>",
)


def special_ids(metadata: Mapping[str, Any], size: int, where: str) -> dict[str, int]:
    """The special token ids that the metadata names (``bos``, ``eos``, ``eot``, ...), checked
    against ``size``."""
    model = metadata.get(_PREFIX + "model")
    defaults = _DEFAULT_IDS.get(model, {}) if isinstance(model, str) else {}
    result = {name: index for name, index in defaults.items() if index < size}
    for name, short in _IDS.items():
        value = metadata.get(_PREFIX + short)
        if value is None:
            continue
        if value == _NO_TOKEN or value == -1:
            result.pop(name, None)
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
            raise invalid(
                where,
                f"metadata '{_PREFIX}{short}' must be a token id below {size}, found "
                f"{shown(value)}",
            )
        result[name] = value
    return result


def end_ids(backend: Any) -> frozenset[int]:
    """The ids of tokens that are known by name to end a turn or a text."""
    found = {name: backend.token_to_id(name) for name in _END_NAMES}
    known = {name: index for name, index in found.items() if index is not None}
    if {"<|return|>", "<|call|>"} <= known.keys():
        known.pop("<|end|>", None)  # there it ends a message inside a turn
    return frozenset(known.values())


class _Vocabulary:
    """The arrays of the metadata, checked against each other."""

    def __init__(self, metadata: Mapping[str, Any], where: str) -> None:
        self.metadata = metadata
        self.where = where
        tokens = self.array("tokens", "string", required=True)
        if not tokens:
            raise invalid(where, f"metadata '{_PREFIX}tokens' is empty")
        # An empty name is a placeholder of an unused row.
        self.tokens = (
            [token or f"[EMPTY_{index}]" for index, token in enumerate(tokens)]
            if "" in tokens
            else tokens
        )
        self.ids = dict(zip(self.tokens, range(len(self.tokens))))  # noqa: B905
        if len(self.ids) != len(tokens):
            first = next(i for i, token in enumerate(self.tokens) if self.ids[token] != i)
            token = self.tokens[first]
            raise invalid(
                where,
                f"metadata '{_PREFIX}tokens' holds {shown(token)} twice, at {first} and "
                f"{self.ids[token]}",
            )
        self.types = self.array("token_type", "int32", length=len(tokens)) or [NORMAL] * len(tokens)
        for name in _END_NAMES:
            if name in self.ids:
                self.types[self.ids[name]] = CONTROL
        begin, end = self.ids.get("<s>"), self.ids.get("</s>")
        # Where "<s>" is a mark of strikethrough (Gemma), so is "</s>".
        if begin is not None and end is not None and self.types[begin] == CONTROL:
            self.types[end] = CONTROL
        self.special = special_ids(metadata, len(tokens), where)

    def array(
        self, key: str, kind: str, *, required: bool = False, length: int | None = None
    ) -> list[Any]:
        """An array of strings (``kind`` "string"), of ints or floats; empty when it is absent."""
        value = self.metadata.get(_PREFIX + key)
        name = f"metadata '{_PREFIX}{key}'"
        if value is None:
            if required:
                raise invalid(self.where, f"{name} is missing; the file carries no tokenizer")
            return []
        items = value.tolist() if hasattr(value, "tolist") else value
        items = list(items) if isinstance(items, (list, tuple)) else items
        wanted: dict[str, tuple[type, ...]] = {"string": (str,), "int32": (int,)}
        good = wanted.get(kind, (float, int))
        # The items of an array of the format are of one type.
        if not isinstance(items, list) or (items and not isinstance(items[0], good)):
            what = {"string": "strings", "int32": "whole numbers", "float32": "numbers"}[kind]
            raise invalid(self.where, f"{name} must be an array of {what}, found {shown(value)}")
        if length is not None and len(items) != length:
            raise invalid(
                self.where,
                f"{name} has {len(items)} items, '{_PREFIX}tokens' has {length}",
            )
        return items

    def flag(self, key: str, default: bool) -> bool:
        value = self.metadata.get(_PREFIX + key, default)
        if not isinstance(value, bool):
            raise invalid(
                self.where, f"metadata '{_PREFIX}{key}' must be a bool, found {shown(value)}"
            )
        return value

    def strips(self) -> dict[str, str]:
        """Tokens that take spaces along: the format has no place for it, models are known by
        name."""
        name = str(self.metadata.get("general.name", "")).lower()
        family = str(self.metadata.get("general.architecture", ""))
        tag = str(self.metadata.get(_PREFIX + "pre", ""))
        if tag in ("jina-v2-de", "jina-v2-es", "jina-v2-code"):
            return {"<mask>": "lstrip"}
        if "nomic-bert-moe" in family or "jina-bert-v3" in family:
            return {"<mask>": "lstrip"}
        if "phi-3" in name or "phi3" in name:
            kept = ("<unk>", "<s>", "<|endoftext|>")
            tokens = self.of_kind(CONTROL, UNKNOWN, USER_DEFINED)
            return {token: "rstrip" for token in tokens if token not in kept}
        return {"[MASK]": "lstrip"} if "modern-bert" in name else {}

    def of_kind(self, *kinds: int) -> list[str]:
        return [t for t, kind in zip(self.tokens, self.types) if kind in kinds]  # noqa: B905


def build(metadata: Mapping[str, Any], where: str) -> tuple[Any, Spelling | None]:
    """A ``tokenizers.Tokenizer`` with the ids of the checkpoint, and how its tokens become text
    where that is not the library's business.

    ``metadata`` is the mapping of a ``GgufFile`` and ``where`` the path that messages name. Errors:
    ``UnsupportedError`` for a kind of tokenizer that is not served, ``InvalidArgumentError`` for
    metadata that does not fit together.
    """
    model = metadata.get(_PREFIX + "model")
    if model is None:
        raise invalid(where, f"metadata '{_PREFIX}model' is missing; the file carries no tokenizer")
    maker = _BUILDERS.get(model) if isinstance(model, str) else None
    if maker is None:
        name = MODELS.get(model) if isinstance(model, str) else None
        raise unsupported(
            where,
            f"metadata '{_PREFIX}model' is {shown(model)}{f' ({name})' if name else ''}; served "
            f"are {', '.join(f'{key!r} ({MODELS[key]})' for key in _BUILDERS)}",
        )
    return maker(metadata, where)


def _bpe(metadata: Mapping[str, Any], where: str) -> tuple[Any, Spelling | None]:
    tag = metadata.get(_PREFIX + "pre", "default")
    if metadata[_PREFIX + "model"] == "gemma4":
        tag = "gemma4"
    pre = PRE_TOKENIZERS.get(tag) if isinstance(tag, str) else None
    if pre is None:
        raise unsupported(
            where,
            f"metadata '{_PREFIX}pre' is {shown(tag)}; served are "
            f"{', '.join(sorted(PRE_TOKENIZERS))}",
        )
    vocabulary = _Vocabulary(metadata, where)
    pairs = _pairs(vocabulary.array("merges", "string", required=True), where)
    lib = library()
    with guarded(f"{where}: tokenizer", "MALFORMED_FILE"):
        tokenizer = lib.Tokenizer(
            lib.models.BPE(
                vocab=vocabulary.ids,
                merges=pairs,
                ignore_merges=pre.ignore_merges,
                byte_fallback=pre.spaces,
            )
        )
        set_byte_level(tokenizer, pre.patterns)
        spelling = None
        if pre.spaces:
            absent = [name for name in BYTE_NAMES if name not in vocabulary.ids]
            if absent:
                raise invalid(
                    where, f"metadata '{_PREFIX}tokens' lacks {len(absent)} byte tokens of 256"
                )
            tokenizer.normalizer = lib.normalizers.Replace(" ", SPACE)
            (pattern,) = pre.patterns
            tokenizer.pre_tokenizer = lib.pre_tokenizers.Split(lib.Regex(pattern), "isolated")
            tokenizer.decoder = lib.decoders.ByteFallback()
            spelling = piece_spelling(vocabulary.tokens, vocabulary.types, tokenizer.id_to_token)
        _add(tokenizer, vocabulary)
        _frame(tokenizer, vocabulary, bos=pre.bos, eos=False)
    return tokenizer, spelling


def _pairs(merges: list[str], where: str) -> list[tuple[str, str]]:
    # A piece never holds a space (byte-level text spells it as a letter), but may begin with one in
    # odd files.
    pairs = split_pairs(merges)
    if None in pairs:
        index = pairs.index(None)
        raise invalid(
            where,
            f"metadata '{_PREFIX}merges' item {index} must be two pieces with a space between, "
            f"found {shown(merges[index])}",
        )
    return pairs  # type: ignore[return-value]


def _sentencepiece(metadata: Mapping[str, Any], where: str) -> tuple[Any, Spelling | None]:
    vocabulary = _Vocabulary(metadata, where)
    tokens, types = vocabulary.tokens, vocabulary.types
    scores = vocabulary.array("scores", "float32", required=True, length=len(tokens))
    bpe = metadata[_PREFIX + "model"] == "llama"
    with np.errstate(over="ignore"):
        values = np.asarray(scores).astype(np.float32)
    if not np.isfinite(values).all():
        index = int(np.flatnonzero(~np.isfinite(values))[0])
        raise invalid(where, f"metadata '{_PREFIX}scores' item {index} is {scores[index]}")
    charsmap = vocabulary.array("precompiled_charsmap", "int32")
    model = SpmModel(
        kind="bpe" if bpe else "unigram",
        tokens=tokens,
        scores=values.tolist(),
        types=types,
        unknown=vocabulary.special.get("unk"),
        byte_fallback=bpe and (BYTE in types or all(n in vocabulary.ids for n in BYTE_NAMES)),
        charsmap=b"" if bpe else bytes(value & 0xFF for value in charsmap),
        prefix=vocabulary.flag("add_space_prefix", bpe),
        remove_extra=vocabulary.flag("remove_extra_whitespaces", False) and not bpe,
        strips=vocabulary.strips(),
        ids=vocabulary.ids,
        llama_cpp=True,
    )
    tokenizer, spelling = build_spm(model, where)
    with guarded(f"{where}: tokenizer", "MALFORMED_FILE"):
        _frame(tokenizer, vocabulary, bos=bpe, eos=not bpe)
    return tokenizer, spelling


def _word_piece(metadata: Mapping[str, Any], where: str) -> tuple[Any, Spelling | None]:
    # The format marks what begins a word; the library what goes on.
    vocabulary = _Vocabulary(metadata, where)
    named = {CONTROL, UNKNOWN, USER_DEFINED}
    words = {}
    for token, index in vocabulary.ids.items():
        if vocabulary.types[index] not in named and not (token[0] == "[" and token[-1] == "]"):
            token = token[1:] if token.startswith(SPACE) else "##" + token
        words[token] = index
    if len(words) != len(vocabulary.ids):
        raise invalid(where, f"metadata '{_PREFIX}tokens' spells a word in two ways")
    special = vocabulary.special
    if "unk" not in special:
        raise invalid(where, f"metadata '{_PREFIX}unknown_token_id' names no token")
    lower = vocabulary.flag("normalizer.lowercase", True)
    lib = library()
    with guarded(f"{where}: tokenizer", "MALFORMED_FILE"):
        tokenizer = lib.Tokenizer(
            lib.models.WordPiece(
                vocab=words,
                unk_token=vocabulary.tokens[special["unk"]],
                max_input_chars_per_word=100,  # as BERT has it; a word costs its length squared
            )
        )
        tokenizer.normalizer = lib.normalizers.BertNormalizer(
            lowercase=lower, strip_accents=vocabulary.flag("normalizer.strip_accents", lower)
        )
        tokenizer.pre_tokenizer = lib.pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = lib.decoders.WordPiece()
        _add(tokenizer, vocabulary)
        surround(tokenizer, special.get("cls", special.get("bos")), special.get("sep"))
    return tokenizer, None


_BUILDERS: dict[str, Callable[[Mapping[str, Any], str], tuple[Any, Spelling | None]]] = {
    "gpt2": _bpe,
    "llama": _sentencepiece,
    "t5": _sentencepiece,
    "bert": _word_piece,
    "gemma4": _bpe,
}


def _add(tokenizer: Any, vocabulary: _Vocabulary) -> None:
    add_tokens(
        tokenizer,
        vocabulary.of_kind(CONTROL, UNKNOWN),
        vocabulary.of_kind(USER_DEFINED),
        vocabulary.strips(),
    )


def _frame(tokenizer: Any, vocabulary: _Vocabulary, *, bos: bool, eos: bool) -> None:
    """Puts bos before a text and eos behind it, as the flags of the file say; ``bos`` and ``eos``
    are for a file without them."""
    before = vocabulary.flag("add_bos_token", bos)
    after = vocabulary.flag("add_eos_token", eos)
    surround(
        tokenizer,
        vocabulary.special.get("bos") if before else None,
        vocabulary.special.get("eos") if after else None,
    )
