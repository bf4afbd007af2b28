"""Rank files and tekken.json: ids are those of byte-pair merging by rank, done the plain way."""

from __future__ import annotations

import base64
import json
import unicodedata
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import regex
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.tokenizer import Tokenizer
from clika_runtime.tokenizer.streaming import token_bytes
from tests.unit.tokenizer.corpus import texts

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


@lru_cache
def ranks() -> dict[bytes, int]:
    """A small vocabulary in the order in which it was learnt."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=alphabet, show_progress=False, min_frequency=1
    )
    backend.train_from_iterator(texts(600), trainer)
    return {token_bytes(token): index for token, index in backend.get_vocab().items()}


def lines(table: dict[bytes, int]) -> bytes:
    rows = sorted(table.items(), key=lambda row: row[1])
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in rows)


def merged(piece: bytes, table: dict[bytes, int]) -> list[int]:
    """The definition: the pair of lowest rank is joined, the leftmost of equals first."""
    if piece in table:
        return [table[piece]]
    parts = [piece[at : at + 1] for at in range(len(piece))]
    while True:
        found = [(table.get(a + b, 1 << 30), at) for at, (a, b) in enumerate(pairwise(parts))]
        rank, at = min(found, default=(1 << 30, 0))
        if rank == 1 << 30:
            return [table[part] for part in parts]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def expected(text: str, pattern: str, special: dict[str, int], nfc: bool = False) -> list[int]:
    ids: list[int] = []
    longest = sorted(special, key=len, reverse=True)
    splits = regex.split(f"({'|'.join(map(regex.escape, longest))})", text) if special else [text]
    for part in splits:
        if part in special:
            ids.append(special[part])
            continue
        part = unicodedata.normalize("NFC", part) if nfc else part
        for piece in regex.findall(pattern, part):
            ids += merged(piece.encode(), ranks())
    return ids


def test_ids_by_definition(tmp_path: Path) -> None:
    size = len(ranks())
    special = {"<|im_start|>": size, "<|im_end|>": size + 1}
    path = tmp_path / "mine.tiktoken"
    path.write_bytes(lines(ranks()))
    tokenizer = Tokenizer.from_tiktoken(path, pattern=LLAMA3, special_tokens=special)
    assert tokenizer.vocab_size == size + 2 and tokenizer.special_ids == {size, size + 1}
    for text in texts():
        ids = tokenizer.encode(text)
        assert ids == expected(text, LLAMA3, special), text
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
        plain = tokenizer.encode(text, parse_special=False)
        assert plain == expected(text, LLAMA3, {}), text


def test_the_file_of_llama_3(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"  # the name that SentencePiece models have too
    path.write_bytes(lines(ranks()))
    tokenizer = Tokenizer.from_file(path)
    size = len(ranks())
    names = (
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|eot_id|>",
        "<|reserved_special_token_250|>",
    )
    assert [tokenizer.token_to_id(n) for n in names] == [size, size + 6, size + 9, size + 255]
    assert tokenizer.vocab_size == size + 256 and tokenizer.bos_id == size
    for text in texts(300):
        assert tokenizer.encode(text) == [size, *expected(text, LLAMA3, {})]
    assert tokenizer.encode("<|eot_id|>", add_special_tokens=False) == [size + 9]
    config = {
        "added_tokens_decoder": {str(size): {"content": "<|start|>", "special": True}},
        "eos_token": "<|start|>",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer.from_huggingface(tmp_path)
    assert tokenizer.vocab_size == size + 1 and tokenizer.eos_id == size
    assert tokenizer.encode("<|start|>", add_special_tokens=False) == [size]


def test_the_file_of_qwen(tmp_path: Path) -> None:
    path = tmp_path / "qwen.tiktoken"
    path.write_bytes(lines(ranks()))
    tokenizer = Tokenizer.from_huggingface(tmp_path)
    size = len(ranks())
    special = {"<|endoftext|>": size, "<|im_start|>": size + 1, "<|im_end|>": size + 2}
    assert tokenizer.vocab_size == size + 208
    assert tokenizer.token_to_id("<|extra_204|>") == size + 207
    for text in texts(600):
        assert tokenizer.encode(text) == expected(text, QWEN, special, nfc=True), text


def tekken(**changes: Any) -> dict[str, Any]:
    rows = sorted(ranks().items(), key=lambda row: row[1])
    return {
        "config": {
            "pattern": LLAMA3,
            "default_vocab_size": 20 + len(rows) - 5,
            "default_num_special_tokens": 20,
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for token, rank in rows
        ],
        "special_tokens": None,
        **changes,
    }


def test_tekken(tmp_path: Path) -> None:
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(tekken()))
    tokenizer = Tokenizer.from_huggingface(tmp_path)
    table = {token: rank for token, rank in ranks().items() if rank < len(ranks()) - 5}
    assert tokenizer.vocab_size == 20 + len(table)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id) == (1, 2, 0, 11)
    for text in texts(300):
        ids = [1]
        for piece in regex.findall(LLAMA3, text):
            ids += [rank + 20 for rank in merged(piece.encode(), table)]
        assert tokenizer.encode(text, parse_special=False) == ids
        assert tokenizer.decode(ids) == text
    assert tokenizer.encode("[INST]", add_special_tokens=False) == [3]
    named = [{"rank": 1, "token_str": "<begin>"}, {"rank": 4, "token_str": "[X]"}]
    path.write_text(json.dumps(tekken(special_tokens=named)))
    tokenizer = Tokenizer.from_file(path)
    assert tokenizer.token_to_id("[X]") == 4 and tokenizer.token_to_id("<SPECIAL_5>") == 5
    assert tokenizer.bos_id is None


WRONG = {
    "no base64": (
        b"YQ== 0\n!!!! 1\n",
        "line 2 must be base64, a space and a rank, found b'!!!! 1'",
    ),
    "no rank": (b"YQ== 0\nYg==\n", "line 2 must be base64"),
    "half a quantum": (b"YQ== 0\nYQQ 1\n", "line 2 is not base64: b'YQQ'"),
    "a huge rank": (b"YQ== 0\nYg== 999999999\n", "line 2 has the rank 999999999, the limit is"),
    "a token twice": (b"YQ== 0\nYQ== 1\n", "line 2 repeats a token or a rank"),
    "a rank twice": (b"YQ== 0\nYg== 0\n", "line 2 repeats a token or a rank"),
    "bytes missing": (b"YQ== 0\n", "lacks 255 single bytes of 256, 0x00 first"),
    "a long token": (
        lines({bytes([byte]): byte for byte in range(256)} | {b"a" * 513: 256}),
        "the token of rank 256 has 513 bytes, the limit is 512",
    ),
    "empty": (b"", "holds no ranks"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rank_files(tmp_path: Path, case: str) -> None:
    data, message = WRONG[case]
    path = tmp_path / "qwen.tiktoken"
    path.write_bytes(data)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Tokenizer.from_file(path)
    assert str(path) in str(caught.value) and caught.value.code_name == "MALFORMED_FILE"


def test_what_a_rank_file_does_not_say(tmp_path: Path) -> None:
    path = tmp_path / "mine.tiktoken"
    with pytest.raises(NotFoundError):
        Tokenizer.from_tiktoken(path)
    path.write_bytes(lines(ranks()))
    with pytest.raises(UnsupportedError, match=r"give its pattern to Tokenizer\.from_tiktoken"):
        Tokenizer.from_file(path)
    size = len(ranks())
    assert Tokenizer.from_tiktoken(path, r"\S+|\s+").encode("a b") == merged(b"a", ranks()) + [
        *merged(b" ", ranks()),
        *merged(b"b", ranks()),
    ]
    for special, message in (
        ({"<x>": 3}, "special tokens clash with the ranks"),
        ({"<x>": size + 1}, r"ids up to \d+, with gaps or repeats"),
        ({"<x>": size, "<y>": size}, "with gaps or repeats"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            Tokenizer.from_tiktoken(path, LLAMA3, special)
    with pytest.raises(InvalidArgumentError, match="tokenizer"):
        Tokenizer.from_tiktoken(path, "(")


WRONG_TEKKEN: dict[str, tuple[Any, str]] = {
    "a list": ([], "expected an object"),
    "no config": ({"vocab": []}, "'config' must be of type dict, found None"),
    "no pattern": (tekken(config={}), "'pattern' must be of type str"),
    "sizes": (
        tekken(
            config={"pattern": "a", "default_vocab_size": 9999, "default_num_special_tokens": 3}
        ),
        "default_vocab_size 9999 with default_num_special_tokens 3 does not fit 900 items",
    ),
    "a rank": (
        tekken(vocab=[{"rank": 1, "token_bytes": ""}] * 900),
        r"vocab\[0\] must be an object",
    ),
    "base64": (
        tekken(vocab=[{"rank": 0, "token_bytes": "?"}] * 900),
        r"vocab\[0\].token_bytes is not",
    ),
    "special": (
        tekken(special_tokens=[{"rank": 20, "token_str": "x"}]),
        "has the rank 20, expected",
    ),
    "special twice": (tekken(special_tokens=[{"rank": 1, "token_str": "<SPECIAL_0>"}]), "twice"),
}


@pytest.mark.parametrize("case", WRONG_TEKKEN)
def test_wrong_tekken_files(tmp_path: Path, case: str) -> None:
    value, message = WRONG_TEKKEN[case]
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(value))
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Tokenizer.from_file(path)
    assert str(path) in str(caught.value)
