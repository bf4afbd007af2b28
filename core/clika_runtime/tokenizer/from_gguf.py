"""A byte-level BPE tokenizer out of the metadata of a GGUF checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clika_runtime.errors import InvalidArgumentError, UnsupportedError

from ._library import guarded, library

__all__ = ["MODELS", "PRE_TOKENIZERS", "build", "special_ids"]

# Token types of the format.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

# `tokenizer.ggml.model` values: what they are, and whether this build reads them.
MODELS = {
    "gpt2": "byte-level BPE",
    "llama": "SentencePiece BPE",
    "t5": "SentencePiece unigram",
    "bert": "WordPiece",
    "rwkv": "RWKV",
    "plamo2": "PLaMo",
    "gemma4": "SentencePiece BPE",
}

_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_GPT2_OLD = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CASELESS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CASELESS}|{_WORD}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_CASELESS}|{_WORD}|\p{{N}}|{_REST}"
_QWEN35 = (
    rf"{_CASELESS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| "
    rf"?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_REST_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    rf"|\p{{N}}|{_REST_SLASH}"
)
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CASELESS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CASELESS}?|\p{{N}}{{1,3}}|{_REST_SLASH}"
)
_DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_DIGITS_THEN_GPT2 = (r"\p{N}", _GPT2)
# `tokenizer.ggml.pre` -> the patterns that cut the text, one after the other, each on the pieces of
# the one before; a match and what lies between two matches are pieces.
PRE_TOKENIZERS: dict[str, tuple[str, ...]] = {
    # The format's meaning of a file without a tag.
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2_OLD, r"\p{N}+", r"[0-9][0-9][0-9]"),
    **dict.fromkeys(
        ("gpt-2", "phi-2", "mpt", "olmo", "jina-es", "jina-de", "jina-v2-code", "roberta-bpe"),
        (_GPT2,),
    ),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
        _DIGITS_THEN_GPT2,
    ),
    **dict.fromkeys(
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "dbrx", "smaug-bpe", "chatglm-bpe"),
        (_LLAMA3,),
    ),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"), (_QWEN2,)),
    "qwen35": (_QWEN35,),
    "tekken": (_TEKKEN,),
    "gpt-4o": (_O200K,),
    "llama4": (_O200K,),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2_OLD, r"[0-9][0-9][0-9]"),
    "deepseek-v3": (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK3),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"),
}
# A whole piece that is a token is taken as it is, merges aside.
_IGNORE_MERGES = frozenset(
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "tekken", "gpt-4o", "llama4", "deepseek-v3")
)
# A file of these kinds that does not say so begins with the bos token.
_BOS_BY_DEFAULT = frozenset(("llama3", "llama-v3", "llama-bpe", "falcon3", "tekken"))

_IDS = {
    "bos": "tokenizer.ggml.bos_token_id",
    "eos": "tokenizer.ggml.eos_token_id",
    "eot": "tokenizer.ggml.eot_token_id",
    "eom": "tokenizer.ggml.eom_token_id",
    "unk": "tokenizer.ggml.unknown_token_id",
    "sep": "tokenizer.ggml.seperator_token_id",  # the format's own spelling
    "pad": "tokenizer.ggml.padding_token_id",
    "mask": "tokenizer.ggml.mask_token_id",
}
# 2**32 - 1 is how some writers say "none".
_NO_TOKEN = 0xFFFFFFFF


def special_ids(metadata: Mapping[str, Any], size: int, where: str) -> dict[str, int]:
    """The special token ids that the metadata names (``bos``, ``eos``, ``eot``, ...), checked
    against ``size``."""
    result = {}
    for name, key in _IDS.items():
        value = metadata.get(key)
        if value is None or value == _NO_TOKEN or value == -1:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
            raise InvalidArgumentError(
                f"{where}: metadata '{key}' must be a token id below {size}, found {value!r}",
                "MALFORMED_FILE",
            )
        result[name] = value
    return result


def _texts(metadata: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = metadata.get(key)
    if value is None:
        raise InvalidArgumentError(
            f"{where}: metadata '{key}' is missing; the file carries no tokenizer", "MALFORMED_FILE"
        )
    items = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(items, list) or (items and not isinstance(items[0], str)):
        raise InvalidArgumentError(
            f"{where}: metadata '{key}' must be an array of strings, found {value!r}",
            "MALFORMED_FILE",
        )
    return items


def _flag(metadata: Mapping[str, Any], key: str, default: bool, where: str) -> bool:
    value = metadata.get(key, default)
    if not isinstance(value, bool):
        raise InvalidArgumentError(
            f"{where}: metadata '{key}' must be a bool, found {value!r}", "MALFORMED_FILE"
        )
    return value


def _kind(metadata: Mapping[str, Any], where: str) -> str:
    model = metadata.get("tokenizer.ggml.model")
    if model == "gpt2":
        pre = metadata.get("tokenizer.ggml.pre", "default")
        if not isinstance(pre, str) or pre not in PRE_TOKENIZERS:
            raise UnsupportedError(
                f"{where}: metadata 'tokenizer.ggml.pre' is {pre!r}; served are "
                f"{', '.join(sorted(PRE_TOKENIZERS))}"
            )
        return pre
    if model is None:
        raise InvalidArgumentError(
            f"{where}: metadata 'tokenizer.ggml.model' is missing; the file carries no tokenizer",
            "MALFORMED_FILE",
        )
    name = MODELS.get(model) if isinstance(model, str) else None
    what = f"{model!r} ({name})" if name else repr(model)
    raise UnsupportedError(
        f"{where}: metadata 'tokenizer.ggml.model' is {what}; served is 'gpt2' (byte-level BPE)"
    )


def _vocabulary(tokens: list[str], where: str) -> dict[str, int]:
    vocabulary = {
        token if token else f"[EMPTY_{index}]": index for index, token in enumerate(tokens)
    }
    if len(vocabulary) != len(tokens):
        seen: dict[str, int] = {}
        for index, token in enumerate(tokens):
            if token in seen:
                raise InvalidArgumentError(
                    f"{where}: metadata 'tokenizer.ggml.tokens' holds {token!r} twice, at "
                    f"{seen[token]} "
                    f"and {index}",
                    "MALFORMED_FILE",
                )
            seen[token] = index
    return vocabulary


def _pairs(merges: list[str], where: str) -> list[tuple[str, str]]:
    # A piece never holds a space (byte-level text spells it as a letter), but may begin with one in
    # odd files.
    pairs = [tuple(merge.split(" ")) for merge in merges]
    for index, pair in enumerate(pairs):
        if len(pair) != 2:
            left, space, right = merges[index][1:].partition(" ")
            if not space or not right:
                raise InvalidArgumentError(
                    f"{where}: metadata 'tokenizer.ggml.merges' item {index} must be two pieces "
                    "with a "
                    f"space between, found {merges[index]!r}",
                    "MALFORMED_FILE",
                )
            pairs[index] = (merges[index][0] + left, right)
    return pairs  # type: ignore[return-value]


def build(metadata: Mapping[str, Any], where: str) -> Any:
    """A ``tokenizers.Tokenizer`` with the ids of the checkpoint.

    ``metadata`` is the mapping of a ``GgufFile`` and ``where`` the path that messages name. Errors:
    ``UnsupportedError`` for a kind of tokenizer that is not served, ``InvalidArgumentError`` for
    metadata that does not fit together.
    """
    pre = _kind(metadata, where)
    tokens = _texts(metadata, "tokenizer.ggml.tokens", where)
    if not tokens:
        raise InvalidArgumentError(
            f"{where}: metadata 'tokenizer.ggml.tokens' is empty", "MALFORMED_FILE"
        )
    vocabulary = _vocabulary(tokens, where)
    pairs = _pairs(_texts(metadata, "tokenizer.ggml.merges", where), where)
    kinds = metadata.get("tokenizer.ggml.token_type")
    types = [NORMAL] * len(tokens) if kinds is None else list(kinds)
    if len(types) != len(tokens):
        raise InvalidArgumentError(
            f"{where}: metadata 'tokenizer.ggml.token_type' has {len(types)} items, "
            f"'tokenizer.ggml.tokens' has {len(tokens)}",
            "MALFORMED_FILE",
        )
    ids = special_ids(metadata, len(tokens), where)
    lib = library()
    with guarded(f"{where}: tokenizer", "MALFORMED_FILE"):
        tokenizer = lib.Tokenizer(
            lib.models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=pre in _IGNORE_MERGES)
        )
        cuts = [
            lib.pre_tokenizers.Split(lib.Regex(pattern), behavior="isolated")
            for pattern in PRE_TOKENIZERS[pre]
        ]
        byte_level = lib.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = lib.pre_tokenizers.Sequence([*cuts, byte_level])
        tokenizer.decoder = lib.decoders.ByteLevel()
        special = [tokens[i] for i, kind in enumerate(types) if kind in (CONTROL, UNKNOWN)]
        plain = [tokens[i] for i, kind in enumerate(types) if kind == USER_DEFINED]
        # Empty names are placeholders of unused rows.
        added = lib.AddedToken
        tokenizer.add_special_tokens(
            [added(text, special=True, normalized=False) for text in special if text]
        )
        tokenizer.add_tokens([added(text, normalized=False) for text in plain if text])
        tokenizer.post_processor = _framing(metadata, tokens, ids, pre, where)
    return tokenizer


def _framing(
    metadata: Mapping[str, Any], tokens: list[str], ids: dict[str, int], pre: str, where: str
) -> Any:
    """The post-processor that puts bos before a text and eos behind it, as the flags say."""
    lib = library()
    bos = _flag(metadata, "tokenizer.ggml.add_bos_token", pre in _BOS_BY_DEFAULT, where)
    eos = _flag(metadata, "tokenizer.ggml.add_eos_token", False, where)
    before = [ids["bos"]] if bos and "bos" in ids else []
    after = [ids["eos"]] if eos and "eos" in ids else []
    if not before and not after:
        return lib.processors.ByteLevel(trim_offsets=False)
    # Names are the ids, since a token may hold characters that the template syntax gives a meaning.
    names = {index: f"T{index}" for index in (*before, *after)}
    single = " ".join([*(names[i] for i in before), "$A", *(names[i] for i in after)])
    return lib.processors.TemplateProcessing(
        single=single,
        special_tokens=[
            {"id": name, "ids": [index], "tokens": [tokens[index] or name]}
            for index, name in names.items()
        ],
    )
