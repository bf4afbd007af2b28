"""Tokenizers out of GGUF metadata: the ids are those of the tokenizer.json they were made from."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.io import open_gguf
from clika_runtime.tokenizer import Tokenizer
from clika_runtime.tokenizer.pre_tokenizers import PRE_TOKENIZERS
from tests.unit.tokenizer.small import MERGES, TEXTS, byte_level, vocabulary, write_gguf


def random_texts(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    parts = [
        *TEXTS,
        " ",
        "  ",
        "\n",
        "\t",
        "'s",
        "é",
        "日",
        "😀",
        "1",
        "42",
        ",",
        "a",
        "Z",
        "--",
        "\u0301",
    ]
    texts = ["".join(rng.choices(parts, k=rng.randint(1, 12))) for _ in range(count // 2)]
    while len(texts) < count:
        points = [
            rng.choice(
                (
                    rng.randrange(32, 127),
                    rng.randrange(160, 0xD800),
                    rng.randrange(0x1F600, 0x1F650),
                )
            )
            for _ in range(rng.randint(1, 40))
        ]
        texts.append("".join(map(chr, points)))
    return texts


def test_ids_equal_the_tokenizer_json(tmp_path: Path) -> None:
    oracle = byte_level()
    tokenizer = Tokenizer.from_gguf(write_gguf(tmp_path / "t.gguf"))
    assert tokenizer.vocab_size == oracle.get_vocab_size() == len(vocabulary())
    for text in (*TEXTS, *random_texts(200, 1)):
        expected = oracle.encode(text).ids
        assert tokenizer.encode(text) == expected
        for skip in (True, False):
            assert tokenizer.decode(expected, skip) == oracle.decode(expected, skip)


def test_ids_of_the_real_checkpoint(smollm2_gguf: Path) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    text = "ClikaRT runs the same code on every backend."
    expected = [51, 1418, 6335, 16895, 7313, 260, 1142, 2909, 335, 897, 25817, 30]
    assert tokenizer.encode(text) == expected and tokenizer.decode(expected) == text
    assert (tokenizer.vocab_size, tokenizer.bos_id, tokenizer.eos_id) == (49152, 1, 2)
    pieces = [(t.id, t.begin, t.end) for t in tokenizer.tokenize("Quantized weights stay packed.")]
    assert pieces == [
        (24696, 0, 5),
        (1005, 5, 9),
        (10379, 9, 17),
        (2951, 17, 22),
        (13448, 22, 29),
        (30, 29, 30),
    ]
    stream = tokenizer.streaming_decoder()
    shown = [stream.push(index) for index in expected] + [stream.finish()]
    assert len([piece for piece in shown if piece]) == 12 and "".join(shown) == text
    for text in random_texts(100, 2):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_ids_of_the_real_checkpoint_against_its_own_pipeline(smollm2_gguf: Path) -> None:
    # The published tokenizer.json of this model cuts with Digits and ByteLevel's own pattern.
    metadata = open_gguf(smollm2_gguf).metadata
    tokens = metadata["tokenizer.ggml.tokens"].tolist()
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    vocab = {token: index for index, token in enumerate(tokens)}
    oracle = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    oracle.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    oracle.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    oracle.add_special_tokens(
        [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    )
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    for text in (*TEXTS, *random_texts(500, 4)):
        ids = oracle.encode(text).ids
        assert tokenizer.encode(text) == ids
        assert tokenizer.decode(ids) == oracle.decode(ids)


# One tag of every meaning; the others are spelled in plain characters.
BYTE_LEVEL = sorted({pre: tag for tag, pre in PRE_TOKENIZERS.items() if not pre.spaces}.values())


@pytest.mark.parametrize("pre", BYTE_LEVEL)
def test_every_pre_tokenizer_loses_no_text(tmp_path: Path, pre: str) -> None:
    tokenizer = Tokenizer.from_gguf(write_gguf(tmp_path / "t.gguf", pre=pre))
    for text in (*TEXTS, *random_texts(20, 3)):
        assert tokenizer.decode(tokenizer.encode(text, False), skip_special_tokens=False) == text


def test_pre_tokenizers_cut_as_their_models_do(tmp_path: Path) -> None:
    def pieces(pre: str, text: str) -> list[str]:
        made = Tokenizer.from_gguf(write_gguf(tmp_path / "t.gguf", pre=pre))
        backend = made._backend
        cuts = backend.pre_tokenizer.pre_tokenize_str(text)
        return [text[begin:end] for _, (begin, end) in cuts]

    text = "It's 12345 COOLWords\n\n  x=1."
    assert pieces("gpt-2", text) == [
        "It",
        "'s",
        " 12345",
        " COOLWords",
        "\n\n ",
        " x",
        "=",
        "1",
        ".",
    ]
    assert pieces("smollm", text)[2:8] == [" ", "1", "2", "3", "4", "5"]
    assert pieces("llama-bpe", text) == [
        *("It", "'s", " ", "123", "45", " COOLWords", "\n\n", " ", " x", "=", "1", "."),
    ]
    assert pieces("qwen2", text)[2:8] == [" ", "1", "2", "3", "4", "5"]
    assert pieces("gpt-4o", text)[:1] == ["It's"] and "Words" in "".join(pieces("gpt-4o", text))
    assert pieces("default", "a, b") == ["a", ",", " b"]


def test_llama_bpe_takes_whole_tokens_first(tmp_path: Path) -> None:
    tokens = [*vocabulary(), "xyz"]
    types = [1] * len(tokens)
    for pre, count in (("llama-bpe", 1), ("gpt-2", 3)):
        path = write_gguf(
            tmp_path / "t.gguf", pre=pre, tokens=tokens, token_type=types, add_bos_token=False
        )
        assert len(Tokenizer.from_gguf(path).encode("xyz")) == count


def test_bos_and_eos_flags(tmp_path: Path) -> None:
    path = tmp_path / "t.gguf"
    plain = Tokenizer.from_gguf(write_gguf(path)).encode("hello")
    both = Tokenizer.from_gguf(write_gguf(path, add_bos_token=True, add_eos_token=True))
    assert both.encode("hello") == [1, *plain, 2]
    assert both.encode("hello", add_special_tokens=False) == plain
    assert both.encode_chat([{"role": "user", "content": "hello"}]) == [1, *plain]
    spans = both.tokenize("hello")
    assert [(t.id, t.begin, t.end) for t in spans][0] == (1, 0, 0) and spans[-1].begin == 5
    llama = write_gguf(path, pre="llama-bpe", add_bos_token=None)
    assert Tokenizer.from_gguf(llama).encode("hello")[0] == 1
    none = write_gguf(path, pre="llama-bpe", add_bos_token=True, bos_token_id=None)
    assert Tokenizer.from_gguf(none).encode("hello") == plain


def test_special_tokens_and_stops(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "t.gguf", eot_token_id=0, padding_token_id=2**32 - 1)
    tokenizer = Tokenizer.from_gguf(open_gguf(path))
    assert tokenizer.stop_ids == {0, 2} and tokenizer.pad_id is None and tokenizer.unk_id == 0
    assert tokenizer.special_ids == {0, 1, 2}
    assert tokenizer.special_tokens["eos_token"] == "<|im_end|>"
    assert tokenizer.has_chat_template and tokenizer.chat_template.startswith("{{ bos_token")
    without = Tokenizer.from_gguf(write_gguf(path, chat_template=None))
    assert not without.has_chat_template
    with pytest.raises(InvalidArgumentError, match="brings no chat template") as caught:
        without.apply_chat_template([])
    assert caught.value.code_name == "FAILED_PRECONDITION"


def test_tokens_that_end_a_text_are_known_by_name(tmp_path: Path) -> None:
    # <|endoftext|> and <|im_end|>, as llama.cpp has it, whatever the types say.
    for types in (None, [1] * len(vocabulary())):
        tokenizer = Tokenizer.from_gguf(write_gguf(tmp_path / "t.gguf", token_type=types))
        assert tokenizer.special_ids == tokenizer.stop_ids == {0, 2}
        assert tokenizer.decode(tokenizer.encode("hello<|im_end|>")) == "hello"


def test_unnamed_tokens_keep_their_place(tmp_path: Path) -> None:
    tokens = [*vocabulary(), "", "", "last"]
    types = [1] * (len(tokens) - 3) + [3, 1, 1]
    tokenizer = Tokenizer.from_gguf(
        write_gguf(tmp_path / "t.gguf", tokens=tokens, token_type=types)
    )
    assert tokenizer.vocab_size == len(tokens)
    assert tokenizer.token_to_id("last") == len(tokens) - 1


WRONG = {
    "no tokens": ({"tokens": None}, "'tokenizer.ggml.tokens' is missing"),
    "no merges": ({"merges": None}, "'tokenizer.ggml.merges' is missing"),
    "no model": ({"model": None}, "'tokenizer.ggml.model' is missing"),
    "tokens are numbers": ({"tokens": [1, 2]}, "must be an array of strings"),
    "tokens are text": ({"tokens": "abc"}, "must be an array of strings"),
    "token twice": ({"tokens": ["a", "b", "a"], "token_type": [1, 1, 1]}, "holds 'a' twice, at 0"),
    "types too short": ({"token_type": [1]}, "has 1 items"),
    "merge of one": ({"merges": ["ab"]}, "item 0 must be two pieces"),
    "merge out of vocabulary": ({"merges": ["q z"]}, "tokenizer: .*qz"),
    "bos out of range": ({"bos_token_id": 5000}, "must be a token id below 2.., found 5000"),
    "bos is text": ({"bos_token_id": "1"}, "must be a token id"),
    "flag is a number": ({"add_bos_token": 1}, "must be a bool, found 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_metadata_is_refused_by_key(tmp_path: Path, case: str) -> None:
    changes, message = WRONG[case]
    path = write_gguf(tmp_path / "wrong.gguf", **changes)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Tokenizer.from_gguf(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("model", ["rwkv", "plamo2", "whitespace", "new"])
def test_other_kinds_are_refused_by_name(tmp_path: Path, model: str) -> None:
    path = write_gguf(tmp_path / "t.gguf", model=model)
    with pytest.raises(UnsupportedError, match=f"'tokenizer.ggml.model' is '{model}'") as caught:
        Tokenizer.from_gguf(path)
    assert caught.value.code_name == "NOT_IMPLEMENTED"
    with pytest.raises(UnsupportedError, match=r"'tokenizer.ggml.pre' is 'mine'; served are"):
        Tokenizer.from_gguf(write_gguf(path, pre="mine"))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        Tokenizer.from_gguf(tmp_path / "absent.gguf")


def test_merges_with_a_space_inside(tmp_path: Path) -> None:
    tokens = [*vocabulary(), " a", " ab"]
    types = [1] * len(tokens)
    path = write_gguf(
        tmp_path / "t.gguf", tokens=tokens, token_type=types, merges=[*MERGES, " a b"]
    )
    assert Tokenizer.from_gguf(path).token_to_id(" ab") == len(tokens) - 1
