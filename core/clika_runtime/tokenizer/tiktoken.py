"""Byte-pair vocabularies that are published as ranks: ``.tiktoken`` files and ``tekken.json``.

A rank file has a line for every token: its bytes in base64, a space, its rank, which is also its
id. Two neighbours merge when their joint bytes have a rank, the lowest rank first. How a text is
cut beforehand, and which special tokens there are, stands elsewhere: in the code of the model
(``PRESETS``) or in the caller's words.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clika_runtime.io._files import invalid, shown

from ._library import add_tokens, guarded, library, set_byte_level
from .pre_tokenizers import PRE_TOKENIZERS
from .streaming import byte_alphabet

__all__ = ["PRESETS", "Preset", "build", "is_rank_file", "parse_ranks", "parse_tekken"]

_MAX_TOKENS = 1 << 24
_LONGEST = 512  # bytes of a token: every place to split it is looked at
_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]{1,9}\r?(?:\n|$)")
_LETTERS = {byte: letter for letter, byte in byte_alphabet().items()}


@dataclass(frozen=True)
class Preset:
    """What the code of a model says about its rank file: the pre-tokenizer's tag, the special
    tokens in the order of their ids, which follow the ranks, and whether texts are brought to NFC
    and begin with the first special token."""

    tag: str
    special: tuple[str, ...] = ()
    nfc: bool = False
    bos: bool = False


def _reserved(begin: int, end: int) -> tuple[str, ...]:
    return tuple(f"<|reserved_special_token_{index}|>" for index in range(begin, end))


# By the name of the file.
PRESETS = {
    "tokenizer.model": Preset(  # Llama 3
        "llama-bpe",
        (
            "<|begin_of_text|>",
            "<|end_of_text|>",
            *_reserved(0, 4),
            "<|start_header_id|>",
            "<|end_header_id|>",
            *_reserved(4, 5),
            "<|eot_id|>",
            *_reserved(5, 251),
        ),
        bos=True,
    ),
    "qwen.tiktoken": Preset(
        "qwen2",
        (
            "<|endoftext|>",
            "<|im_start|>",
            "<|im_end|>",
            *(f"<|extra_{index}|>" for index in range(205)),
        ),
        nfc=True,
    ),
    "tiktoken.model": Preset("kimi-k2"),
}
# Special tokens of a tekken.json that does not list its own, by id.
_TEKKEN_SPECIAL = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] "
    "[/TOOL_RESULTS] [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] "
    "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
).split()


def is_rank_file(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a rank file."""
    return _LINE.match(head) is not None


def parse_ranks(data: bytes, path: str) -> dict[bytes, int]:
    """The tokens of a rank file and their ranks. Errors: ``InvalidArgumentError`` naming the
    line."""
    ranks: dict[bytes, int] = {}
    seen: set[int] = set()
    for number, line in enumerate(data.splitlines(), 1):
        if not line:
            continue
        if _LINE.fullmatch(line) is None:
            raise invalid(
                path, f"line {number} must be base64, a space and a rank, found {shown(line)}"
            )
        spelled, _, rank = line.partition(b" ")
        token = _decoded(spelled, path, f"line {number}")
        index = int(rank)
        if token in ranks or index in seen:
            raise invalid(path, f"line {number} repeats a token or a rank: {shown(line)}")
        if index >= _MAX_TOKENS:
            raise invalid(path, f"line {number} has the rank {index}, the limit is {_MAX_TOKENS}")
        ranks[token] = index
        seen.add(index)
    if not ranks:
        raise invalid(path, "holds no ranks")
    return ranks


def _decoded(spelled: bytes | str, path: str, where: str) -> bytes:
    try:
        return base64.b64decode(spelled, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(path, f"{where} is not base64: {shown(spelled)}") from error


def build(
    ranks: Mapping[bytes, int],
    pattern: str | tuple[str, ...],
    special: Mapping[str, int],
    where: str,
    *,
    offset: int = 0,
    nfc: bool = False,
) -> Any:
    """A ``tokenizers.Tokenizer`` over ranks; a token's id is its rank plus ``offset``.

    ``pattern`` cuts a text beforehand. ``special`` are special tokens and their ids, which must
    fill the places that the ranks leave. Errors: ``InvalidArgumentError`` for a vocabulary that
    lacks single bytes, or whose ids clash or leave gaps.
    """
    absent = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if absent:
        raise invalid(where, f"lacks {len(absent)} single bytes of 256, {absent[0]:#04x} first")
    longest = max(ranks, key=len)
    if len(longest) > _LONGEST:
        raise invalid(
            where,
            f"the token of rank {ranks[longest]} has {len(longest)} bytes, the limit is {_LONGEST}",
        )
    spelled = {token: token.decode("latin-1").translate(_LETTERS) for token in ranks}
    vocabulary = {spelled[token]: rank + offset for token, rank in ranks.items()}
    taken = set(vocabulary.values())
    clash = {name: index for name, index in special.items() if index in taken or name in vocabulary}
    if clash:
        raise invalid(where, f"special tokens clash with the ranks: {shown(clash)}")
    # Only one of a token's splits can come up, so their order among each other is free.
    merges = [
        (spelled[token[:at]], spelled[token[at:]])
        for token in sorted(ranks, key=ranks.__getitem__)
        for at in range(1, len(token))
        if token[:at] in ranks and token[at:] in ranks
    ]
    vocabulary.update(special)
    last = max(vocabulary.values())
    if len(set(vocabulary.values())) != len(vocabulary) or last >= len(vocabulary):
        raise invalid(
            where, f"{len(vocabulary)} tokens have ids up to {last}, with gaps or repeats"
        )
    lib = library()
    with guarded(f"{where}: tokenizer", "MALFORMED_FILE"):
        tokenizer = lib.Tokenizer(
            lib.models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True)
        )
        if nfc:
            tokenizer.normalizer = lib.normalizers.NFC()
        set_byte_level(tokenizer, (pattern,) if isinstance(pattern, str) else pattern)
        add_tokens(tokenizer, special)
    return tokenizer


def preset_special(preset: Preset, ranks: Mapping[bytes, int]) -> dict[str, int]:
    """The special tokens of a preset with their ids."""
    first = max(ranks.values()) + 1
    return {name: first + index for index, name in enumerate(preset.special)}


def preset_patterns(preset: Preset) -> tuple[str, ...]:
    """The patterns of a preset."""
    return PRE_TOKENIZERS[preset.tag].patterns


def parse_tekken(value: Any, path: str) -> tuple[dict[bytes, int], str, dict[str, int]]:
    """The ranks, the pattern and the special tokens of a ``tekken.json``; ids are ranks after the
    special tokens. Errors: ``InvalidArgumentError`` naming the field."""
    if not isinstance(value, dict):
        raise invalid(path, f"expected an object, found {shown(value)}")
    config, rows = _member(value, "config", dict, path), _member(value, "vocab", list, path)
    pattern = _member(config, "pattern", str, path)
    size = _member(config, "default_vocab_size", int, path)
    reserved = _member(config, "default_num_special_tokens", int, path)
    if not 0 <= reserved < size <= _MAX_TOKENS or size - reserved > len(rows):
        raise invalid(
            path,
            f"default_vocab_size {size} with default_num_special_tokens {reserved} does not fit "
            f"{len(rows)} items of 'vocab'",
        )
    ranks: dict[bytes, int] = {}
    for place, row in enumerate(rows[: size - reserved]):
        where = f"vocab[{place}]"
        if not isinstance(row, dict) or row.get("rank") != place:
            raise invalid(path, f"{where} must be an object of rank {place}, found {shown(row)}")
        token = _decoded(_member(row, "token_bytes", str, path), path, f"{where}.token_bytes")
        if token in ranks:
            raise invalid(path, f"{where} repeats the bytes of vocab[{ranks[token]}]")
        ranks[token] = place
    names = [f"<SPECIAL_{index}>" for index in range(reserved)]
    listed = value.get("special_tokens")
    if listed is None:
        names[: len(_TEKKEN_SPECIAL)] = _TEKKEN_SPECIAL[:reserved]
    elif not isinstance(listed, list):
        raise invalid(path, f"'special_tokens' must be a list, found {shown(listed)}")
    for row in listed or ():
        index = _member(row, "rank", int, path)
        if not 0 <= index < reserved:
            raise invalid(path, f"a special token has the rank {index}, expected below {reserved}")
        names[index] = _member(row, "token_str", str, path)
    special = {name: index for index, name in enumerate(names)}
    if len(special) != reserved or "" in special:
        raise invalid(path, "'special_tokens' holds a name twice or an empty one")
    return ranks, pattern, special


def _member(value: Any, key: str, kind: type, path: str) -> Any:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise invalid(path, f"'{key}' must be of type {kind.__name__}, found {shown(found)}")
    return found
