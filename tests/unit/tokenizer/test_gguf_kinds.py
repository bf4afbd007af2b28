"""GGUF's vocabularies that are not byte-level BPE, made from models that other libraries read."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer as Backend

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.tokenizer import Tokenizer
from clika_runtime.tokenizer.from_gguf import build, end_ids, special_ids
from clika_runtime.tokenizer.spm_file import parse_model
from tests.unit.tokenizer.corpus import texts
from tests.unit.tokenizer.small import TEXTS, word_piece
from tests.unit.tokenizer.spm_models import trained

LLAMA = (
    ("normalization_rule_name", "identity"),
    ("remove_extra_whitespaces", False),
    ("byte_fallback", True),
    ("vocab_size", 900),
)
# Texts without words that stand for special tokens.
PLAIN = [text for text in texts() if "<unk>" not in text]


def load(**metadata: Any) -> Tokenizer:
    """A tokenizer of metadata, as ``Tokenizer.from_gguf`` makes it."""
    values = {
        f"tokenizer.ggml.{key}": value for key, value in metadata.items() if value is not None
    }
    backend, spelling = build(values, "t.gguf")
    ids = special_ids(values, len(metadata["tokens"]), "t.gguf")
    return Tokenizer(backend, special_ids=ids, stop_ids=end_ids(backend), spelling=spelling)


def metadata_of(data: bytes, **changes: Any) -> dict[str, Any]:
    """The metadata that a SentencePiece model becomes."""
    model = parse_model(data, "small.model")
    return {
        "model": "llama" if model.kind == "bpe" else "t5",
        "tokens": model.tokens,
        "scores": model.scores,
        "token_type": model.types,
        "unknown_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_bos_token": False,
        "add_eos_token": False,
        "add_space_prefix": model.prefix,
        "remove_extra_whitespaces": model.remove_extra,
        "precompiled_charsmap": list(model.charsmap) or None,
        **changes,
    }


def oracle(data: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=data)


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_bpe(prefix: bool) -> None:
    data = trained("bpe", (*LLAMA, ("add_dummy_prefix", prefix)))
    tokenizer, theirs = load(**metadata_of(data)), oracle(data)
    for text in texts():
        ids = tokenizer.encode(text, parse_special=False)
        assert ids == theirs.encode(text), text
        assert tokenizer.decode(ids) == theirs.decode(ids)
        stream = tokenizer.streaming_decoder()
        assert "".join([*map(stream.push, ids), stream.finish()]) == theirs.decode(ids)


def test_user_defined_tokens_part_a_text() -> None:
    data = trained("bpe", (*LLAMA, ("user_defined_symbols", ("<h1>", "\n\n")), ("pad_id", 3)))
    tokenizer, theirs = load(**metadata_of(data)), oracle(data)
    mark, breaks = theirs.piece_to_id("<h1>"), theirs.piece_to_id("\n\n")
    # Every part between is a text of its own, with the space before it.
    for parse in (True, False):
        ids = tokenizer.encode("hello<h1>world\n\n", parse_special=parse)
        assert ids == [*theirs.encode("hello"), mark, *theirs.encode("world"), breaks]
    ids = tokenizer.encode("hello</s>world")
    assert ids == [*theirs.encode("hello"), 2, *theirs.encode("world")]
    assert tokenizer.decode(ids) == "hello world" and tokenizer.pad_id is None


def test_unigram() -> None:
    data = trained("unigram", (("vocab_size", 900),))
    tokenizer, theirs = load(**metadata_of(data)), oracle(data)
    # SentencePiece sums in float32, whose errors decide between cuts of equal score.
    other = [
        text for text in PLAIN if tokenizer.encode(text, parse_special=False) != theirs.encode(text)
    ]
    for text in other:
        ours = tokenizer.encode(text, parse_special=False)
        scores = [sum(map(theirs.get_score, ids)) for ids in (ours, theirs.encode(text))]
        assert sorted(ours) == sorted(theirs.encode(text)) or abs(scores[0] - scores[1]) < 1e-3, (
            text
        )
    assert len(other) < len(PLAIN) / 20
    assert tokenizer.decode(theirs.encode("  hello   world ")) == "hello world"


def test_frames() -> None:
    bpe, unigram = trained("bpe", LLAMA), trained("unigram")
    for data, plain in ((bpe, [1, "x"]), (unigram, ["x", 2])):
        words = oracle(data).encode("hello")
        flags: dict[str, Any] = {"add_bos_token": None, "add_eos_token": None}
        expected = [part for item in plain for part in (words if item == "x" else [item])]
        changes = {**flags, "eos_token_id": 2}
        assert load(**metadata_of(data, **changes)).encode("hello") == expected
        both = load(**metadata_of(data, add_bos_token=True, add_eos_token=True))
        assert both.encode("hello") == [1, *words, 2]
        assert both.encode("hello", add_special_tokens=False) == words


def test_ids_that_a_file_leaves_out() -> None:
    names = dict.fromkeys(("unknown_token_id", "bos_token_id", "eos_token_id"))
    tokenizer = load(**metadata_of(trained("bpe", LLAMA), **names, add_bos_token=True))
    assert (tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2)
    without = load(**metadata_of(trained("bpe", LLAMA), bos_token_id=2**32 - 1, add_bos_token=True))
    assert without.bos_id is None and without.encode("")[:1] == []


def test_ends_that_are_known_by_name() -> None:
    data = trained("bpe", (*LLAMA, ("control_symbols", ("<end_of_turn>", "<|call|>", "<|end|>"))))
    tokenizer, theirs = load(**metadata_of(data)), oracle(data)
    named = {theirs.piece_to_id(n) for n in ("</s>", "<end_of_turn>", "<|call|>", "<|end|>")}
    assert tokenizer.stop_ids == named
    data = trained("bpe", (*LLAMA, ("control_symbols", ("<|return|>", "<|call|>", "<|end|>"))))
    tokenizer, theirs = load(**metadata_of(data)), oracle(data)
    assert theirs.piece_to_id("<|end|>") not in tokenizer.stop_ids


def test_spaces_beside_special_tokens(tmp_path: Path) -> None:
    data = trained("bpe", (*LLAMA, ("user_defined_symbols", ("<|user|>", "<mask>"))))
    user, words = oracle(data).piece_to_id("<|user|>"), oracle(data).encode("hello")

    def ids(text: str, **general: str) -> list[int]:
        values = {f"general.{key}": value for key, value in general.items()}
        values |= {f"tokenizer.ggml.{k}": v for k, v in metadata_of(data).items() if v is not None}
        return list(build(values, "t.gguf")[0].encode(text).ids)

    assert ids("<|user|>\n hello", name="Phi-3 mini") == [user, *words]
    assert ids("<|user|> hello", name="other") != [user, *words]
    mask = oracle(data).piece_to_id("<mask>")
    assert ids("hello  <mask>", architecture="nomic-bert-moe") == [*words, mask]


@pytest.mark.parametrize("tag", ["gemma4", "sarvam-moe"])
def test_bpe_in_plain_characters(tag: str) -> None:
    data = trained("bpe", (*LLAMA, ("add_dummy_prefix", False)))
    theirs, values = oracle(data), metadata_of(data)
    tokens, scores = values["tokens"], values["scores"]
    ids = {token: index for index, token in enumerate(tokens)}
    splits = [
        (-scores[index], token[:at], token[at:])
        for token, index in ids.items()
        if values["token_type"][index] == 1
        for at in range(1, len(token))
        if token[:at] in ids and token[at:] in ids
    ]
    merges = [f"{left} {right}" for _, left, right in sorted(splits)]
    kind = {"model": "gemma4"} if tag == "gemma4" else {"model": "gpt2", "pre": tag}
    tokenizer = load(**{**values, **kind, "merges": merges})
    for text in PLAIN:
        ids_of = theirs.encode(text)
        assert tokenizer.encode(text, parse_special=False) == ids_of, text
        assert tokenizer.decode(ids_of) == text.replace("▁", " ")
    with pytest.raises(InvalidArgumentError, match="lacks 1 byte tokens of 256"):
        renamed = ["<00>" if token == "<0x00>" else token for token in tokens]
        load(**{**values, **kind, "merges": [], "tokens": renamed})


def word_piece_metadata(theirs: Backend, **changes: Any) -> dict[str, Any]:
    vocabulary = sorted(theirs.get_vocab().items(), key=lambda row: row[1])
    tokens = [
        token if token.startswith("[") else token[2:] if token.startswith("##") else "▁" + token
        for token, _ in vocabulary
    ]
    return {
        "model": "bert",
        "tokens": tokens,
        "token_type": [3 if token.startswith("[") else 1 for token in tokens],
        "unknown_token_id": 1,
        "cls_token_id": 2,
        "seperator_token_id": 3,
        "padding_token_id": 0,
        **changes,
    }


def test_word_piece() -> None:
    theirs = word_piece()
    tokenizer = load(**word_piece_metadata(theirs))
    for text in (*TEXTS, *texts()):
        assert tokenizer.encode(text) == theirs.encode(text).ids, text
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids) == theirs.decode(ids)
    assert tokenizer.id_to_token(6) == "##s" and tokenizer.token_to_id("hello") == 4
    assert tokenizer.encode("Hello, [MASK]"[:5], add_special_tokens=False) == [4]
    assert tokenizer.encode("hello" + "s" * 96, add_special_tokens=False) == [1]
    assert tokenizer.encode("hello" + "s" * 95, add_special_tokens=False)[0] == 4
    cased = load(**word_piece_metadata(theirs, **{"normalizer.lowercase": False}))
    assert cased.encode("Hello", add_special_tokens=False) == [1]
    with pytest.raises(InvalidArgumentError, match="spells a word in two ways"):
        load(**word_piece_metadata(theirs, tokens=["a", "▁##a", *"bcde"], token_type=[1] * 6))
    with pytest.raises(InvalidArgumentError, match="names no token"):
        load(**word_piece_metadata(theirs, unknown_token_id=2**32 - 1))


# ------------------------------------------------------------ hostile metadata
def changed(edit: Callable[[dict[str, Any]], None], kind: str = "bpe") -> dict[str, Any]:
    values = metadata_of(trained(kind, LLAMA if kind == "bpe" else ()))
    edit(values)
    return values


def replaced(key: str, index: int, item: Any) -> Callable[[dict[str, Any]], None]:
    def edit(values: dict[str, Any]) -> None:
        values[key] = [*values[key]]
        values[key][index] = item

    return edit


WRONG: dict[str, tuple[Callable[[dict[str, Any]], None], str, str]] = {
    "no scores": (lambda v: v.pop("scores"), "bpe", "'tokenizer.ggml.scores' is missing"),
    "scores of text": (
        lambda v: v.update(scores=["a"]),
        "bpe",
        "scores' must be an array of numbers",
    ),
    "a score": (
        lambda v: v.update(scores=1.0),
        "bpe",
        "scores' must be an array of numbers, found 1.0",
    ),
    "too few": (
        lambda v: v["scores"].pop(),
        "bpe",
        "scores' has 899 items, 'tokenizer.ggml.tokens' has",
    ),
    "nan": (replaced("scores", 7, float("nan")), "bpe", "scores' item 7 is nan"),
    "infinite": (replaced("scores", 7, 1e300), "unigram", r"scores' item 7 is 1e\+300"),
    "types": (lambda v: v["token_type"].pop(), "bpe", "token_type' has 899 items"),
    "types of text": (
        replaced("token_type", 0, "a"),
        "bpe",
        "token_type' must be an array of whole",
    ),
    "twice": (replaced("tokens", 8, "<unk>"), "bpe", "tokens' holds '<unk>' twice, at 0 and 8"),
    "a byte lost": (replaced("tokens", 5, "<byte>"), "bpe", "lacks 1 of 256, <0x02> first"),
    "bos": (
        lambda v: v.update(bos_token_id=900),
        "bpe",
        "bos_token_id' must be a token id below 900",
    ),
    "unk": (
        lambda v: v.update(unknown_token_id=-7),
        "unigram",
        r"unknown_token_id' must be a token id below \d+, found -7",
    ),
    "flag": (
        lambda v: v.update(add_space_prefix=1),
        "bpe",
        "add_space_prefix' must be a bool, found 1",
    ),
    "map": (
        lambda v: v.update(precompiled_charsmap=[9]),
        "unigram",
        "the character map has 1 bytes",
    ),
    "map size": (
        lambda v: v.update(precompiled_charsmap=[*struct.pack("<I", 1 << 31), *range(64)]),
        "unigram",
        "says that its array has 2147483648 bytes, of 68",
    ),
    "map of text": (
        lambda v: v.update(precompiled_charsmap="abc"),
        "unigram",
        "precompiled_charsmap' must be an array of whole numbers",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_metadata_is_refused_by_key(case: str) -> None:
    edit, kind, message = WRONG[case]
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        load(**changed(edit, kind))
    assert str(caught.value).startswith("t.gguf: ") and caught.value.code_name == "MALFORMED_FILE"


def test_types_that_nobody_knows_are_ordinary() -> None:
    values = metadata_of(trained("bpe", LLAMA))
    values["token_type"] = [9 if kind == 1 else kind for kind in values["token_type"]]
    assert load(**values).encode("hello") == load(**metadata_of(trained("bpe", LLAMA))).encode(
        "hello"
    )
