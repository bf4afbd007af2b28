"""The Tokenizer over tokenizer.json files and model directories."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.tokenizer import ChatTemplateInputs, EncodeOptions, Tokenizer
from tests.unit.tokenizer.small import (
    MERGES,
    SPECIAL,
    TEXTS,
    USER,
    byte_fallback,
    byte_level,
    vocabulary,
    word_piece,
    write_gguf,
)

KINDS = {
    "byte_level": byte_level,
    "with_bos": lambda: byte_level(bos=True),
    "byte_fallback": byte_fallback,
    "word_piece": word_piece,
}
TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
CONFIG = {
    "bos_token": "<|im_start|>",
    "eos_token": {"__type": "AddedToken", "content": "<|im_end|>", "special": True},
    "pad_token": None,
    "chat_template": TEMPLATE,
}


def model_directory(
    folder: Path, tokenizer: tokenizers.Tokenizer | None = None, config: Any = CONFIG
) -> Path:
    folder.mkdir(exist_ok=True)
    (tokenizer or byte_level()).save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return model_directory(tmp_path / "model")


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_texts_equal_the_library(tmp_path: Path, kind: str) -> None:
    oracle = KINDS[kind]()
    tokenizer = Tokenizer.from_huggingface(model_directory(tmp_path / "m", oracle, None))
    for text in TEXTS:
        for special in (True, False):
            ids = oracle.encode(text, add_special_tokens=special).ids
            assert tokenizer.encode(text, add_special_tokens=special) == ids
            for skip in (True, False):
                assert tokenizer.decode(ids, skip) == oracle.decode(ids, skip_special_tokens=skip)


def test_equals_transformers(directory: Path) -> None:
    theirs = PreTrainedTokenizerFast.from_pretrained(directory)
    ours = Tokenizer.from_huggingface(directory)
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "world"}]
    prompt = theirs.apply_chat_template(messages, tokenize=False)
    assert ours.apply_chat_template(messages) == prompt
    assert ours.encode_chat(messages) == theirs.encode(prompt, add_special_tokens=False)
    assert (ours.bos_id, ours.eos_id) == (theirs.bos_token_id, theirs.eos_token_id)
    assert ours.vocab_size == len(theirs)


def test_properties(directory: Path) -> None:
    tokenizer = Tokenizer.from_huggingface(directory)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (1, 2, None)
    assert tokenizer.special_tokens == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    assert tokenizer.has_chat_template and tokenizer.chat_template == TEMPLATE
    assert tokenizer.stop_ids == {2} and tokenizer.special_ids == {0, 1, 2}
    assert tokenizer.token_to_id("hello") == vocabulary()["hello"]
    assert tokenizer.id_to_token(2) == "<|im_end|>" and tokenizer.token_to_id("absent") is None
    assert tokenizer.id_to_token(10**6) is None and tokenizer.id_to_token(-1) is None
    assert tokenizer.id_to_token(2**40) is None
    assert "tokenizer.json" in repr(tokenizer)
    assert Tokenizer.from_pretrained(directory).vocab_size == tokenizer.vocab_size


def test_every_door(tmp_path: Path, directory: Path) -> None:
    expected = byte_level().encode("hello world").ids
    gguf_path = write_gguf(tmp_path / "t.gguf")
    for path in (directory, directory / "tokenizer.json", str(directory), gguf_path):
        assert Tokenizer.from_file(path).encode("hello world") == expected
    assert Tokenizer.from_file(directory / "tokenizer.json").has_chat_template


def test_vocab_and_merges(tmp_path: Path) -> None:
    vocab = {token: index for index, token in enumerate(t for t in vocabulary() if t != "  \n")}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    with pytest.raises(NotFoundError, match=r"merges.txt"):
        Tokenizer.from_huggingface(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n")
    tokenizer = Tokenizer.from_file(tmp_path / "vocab.json")
    assert tokenizer.encode("hello world") == byte_level().encode("hello world").ids
    assert tokenizer.decode(tokenizer.encode("naïve 😀")) == "naïve 😀"
    (tmp_path / "merges.txt").write_text("a b\nabc\n")
    with pytest.raises(InvalidArgumentError, match="line 2 must be two pieces"):
        Tokenizer.from_huggingface(tmp_path)
    (tmp_path / "merges.txt").write_bytes(b"\xff\xff")
    with pytest.raises(InvalidArgumentError, match="not UTF-8"):
        Tokenizer.from_huggingface(tmp_path)
    (tmp_path / "merges.txt").write_text("")
    (tmp_path / "vocab.json").write_text('{"a": -1}')
    with pytest.raises(InvalidArgumentError, match="expected an object of tokens"):
        Tokenizer.from_huggingface(tmp_path)


def test_classes_cut_a_text_for_vocab_and_merges(tmp_path: Path) -> None:
    tokens = [token for token in vocabulary() if token not in (*SPECIAL, *USER)]
    vocab = {token: index for index, token in enumerate(tokens)}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("\n".join(MERGES) + "\n")
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<|x|>": len(vocab)}))

    def load(config: dict[str, Any]) -> Tokenizer:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return Tokenizer.from_huggingface(tmp_path)

    oracle = tokenizers.Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in MERGES]))
    oracle.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    gpt2 = load({"tokenizer_class": "GPT2TokenizerFast"})
    qwen2 = load({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|x|>"})
    for text in TEXTS:
        assert gpt2.encode(text) == load({}).encode(text) == oracle.encode(text).ids
    assert len(qwen2.encode("12")) == 2 and len(gpt2.encode("12")) == 1
    assert qwen2.encode("e\u0301") == qwen2.encode("é") != gpt2.encode("e\u0301")
    assert qwen2.encode("<|x|>") == [len(vocab)] == [qwen2.eos_id] and qwen2.stop_ids == {
        len(vocab)
    }
    assert qwen2.decode([len(vocab)]) == "" and gpt2.decode([len(vocab)]) == "<|x|>"
    with pytest.raises(UnsupportedError, match="'CLIPTokenizer' cuts a text"):
        load({"tokenizer_class": "CLIPTokenizer"})
    for wrong, message in (({"<|x|>": 7}, "places"), ({"": 1}, "has an item"), ([], "expected an")):
        (tmp_path / "added_tokens.json").write_text(json.dumps(wrong))
        with pytest.raises(InvalidArgumentError, match=message):
            load({})


# ------------------------------------------------------------ configuration
def test_special_tokens_map_and_template_file(tmp_path: Path) -> None:
    folder = model_directory(tmp_path / "m", config={"eos_token": "<|im_end|>"})
    (folder / "special_tokens_map.json").write_text('{"bos_token": "<|endoftext|>"}')
    (folder / "chat_template.jinja").write_text("{{ bos_token }}ü")
    tokenizer = Tokenizer.from_huggingface(folder)
    assert (tokenizer.bos_id, tokenizer.eos_id) == (0, 2)
    assert tokenizer.apply_chat_template([]) == "<|endoftext|>ü"
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(InvalidArgumentError, match=r"chat_template.jinja: is not UTF-8"):
        Tokenizer.from_huggingface(folder)


def test_named_templates(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    for value, expected in ((named, "D"), (named[:1], "T"), ({"default": "X"}, "X"), ([], None)):
        folder = model_directory(tmp_path / "m", config={"chat_template": value})
        assert Tokenizer.from_huggingface(folder).chat_template == expected


WRONG_CONFIGS = {
    "a list": ([], "expected an object"),
    "bos number": ({"bos_token": 3}, "bos_token must be a string or an object"),
    "bos object": ({"bos_token": {"text": "x"}}, "bos_token must be a string or an object"),
    "template": ({"chat_template": 3}, "chat_template must be a string or named templates"),
    "template items": ({"chat_template": [{"name": "a"}]}, "need a name and a template"),
    "template names": ({"chat_template": {"a": 1}}, "chat_template must be a string or named"),
}


@pytest.mark.parametrize("case", WRONG_CONFIGS)
def test_wrong_configurations(tmp_path: Path, case: str) -> None:
    config, message = WRONG_CONFIGS[case]
    folder = model_directory(tmp_path / "m", config=config)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Tokenizer.from_huggingface(folder)
    assert "tokenizer_config.json" in str(caught.value)


def test_a_special_token_that_the_vocabulary_lacks(tmp_path: Path) -> None:
    folder = model_directory(tmp_path / "m", config={"bos_token": "<absent>"})
    assert Tokenizer.from_huggingface(folder).bos_id is None


# ------------------------------------------------------------ refusals
def test_missing(tmp_path: Path) -> None:
    for door in (Tokenizer.from_huggingface, Tokenizer.from_file):
        with pytest.raises(NotFoundError) as caught:
            door(tmp_path / "absent")
        assert caught.value.code_name == "NO_SUCHFILE"
    with pytest.raises(NotFoundError, match=r"none of tokenizer.json, tokenizer.model"):
        Tokenizer.from_huggingface(tmp_path)
    with pytest.raises(InvalidArgumentError, match="expected a model directory"):
        (tmp_path / "file").touch()
        Tokenizer.from_huggingface(tmp_path / "file")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidArgumentError, match="not a regular file"):
            Tokenizer.from_file(tmp_path / "pipe")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"model": {"type": "Nope"}}', '{"version": "1.0"}', "[" * 5000]
)
def test_wrong_tokenizer_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=r"tokenizer.json"):
        Tokenizer.from_file(path)


def test_arguments(directory: Path) -> None:
    tokenizer = Tokenizer.from_huggingface(directory)
    for text in (b"bytes", None, 3, ["a"]):
        with pytest.raises(InvalidArgumentError, match="the text must be a string"):
            tokenizer.encode(text)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        tokenizer.encode("\ud800")
    for ids in (["a"], [1.5], [-1], [2**32], 3, [None]):
        with pytest.raises(InvalidArgumentError):
            tokenizer.decode(ids)  # type: ignore[arg-type]
    assert tokenizer.decode([]) == "" and tokenizer.decode([10**6]) == ""
    with pytest.raises(InvalidArgumentError, match="found one string"):
        tokenizer.encode_batch("abc")
    with pytest.raises(InvalidArgumentError):
        tokenizer.token_to_id(3)  # type: ignore[arg-type]


# ------------------------------------------------------------ spans and batches
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("special", [True, False])
def test_spans_leave_no_gap(tmp_path: Path, kind: str, special: bool) -> None:
    tokenizer = Tokenizer.from_file(model_directory(tmp_path / "m", KINDS[kind](), None))
    for text in TEXTS:
        tokens = tokenizer.tokenize(text, special)
        assert [token.id for token in tokens] == tokenizer.encode(text, special)
        position = 0
        for token in tokens:
            assert token.begin == position <= token.end
            assert token.text == tokenizer.id_to_token(token.id)
            position = token.end
        real = [token for token in tokens if token.end > token.begin]
        if real:
            assert position == len(text.encode())


def test_spans_of_byte_level_tokens_are_their_bytes(directory: Path) -> None:
    tokenizer = Tokenizer.from_huggingface(directory)
    text = "hello 你 world<|im_end|>é"
    tokens = tokenizer.tokenize(text)
    data = text.encode()
    spans = {token.text: data[token.begin : token.end] for token in tokens}
    assert spans["hello"] == b"hello" and spans["Ġworld"] == b" world"
    assert spans["ä½ł"] == "你".encode() and spans["<|im_end|>"] == b"<|im_end|>"
    assert spans["Ã©"] == "é".encode()


def test_spans_of_byte_fallback_tokens(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(model_directory(tmp_path / "m", byte_fallback(), None))
    tokens = tokenizer.tokenize("hello 你 world")
    spans = [(token.text, token.begin, token.end) for token in tokens]
    assert ("<0xE4>", 6, 7) in spans and ("<0xBD>", 7, 8) in spans and ("<0xA0>", 8, 9) in spans
    assert spans[-1] == ("▁world", 9, 15)


@pytest.mark.parametrize("prefix", [True, False])
def test_spans_of_texts_that_are_changed_first(prefix: bool) -> None:
    backend = byte_level()
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer = Tokenizer(backend)
    for text in TEXTS:
        tokens = tokenizer.tokenize(text)
        ends = [0, *(token.end for token in tokens)]
        assert [token.begin for token in tokens] == ends[:-1] and ends == sorted(ends)
        assert not tokens or ends[-1] == len(text.encode())


def test_patterns_that_never_end_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = byte_level()
    backend.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex("(a+)+$"), "isolated")
    tokenizer = Tokenizer.from_file(model_directory(tmp_path / "m", backend))
    with pytest.raises(InvalidArgumentError, match=r"encode: .*retry-limit"):
        tokenizer.encode("a" * 60 + "c")
    assert tokenizer.decode(tokenizer.encode("hello")) == "hello"


def test_batches(directory: Path) -> None:
    tokenizer = Tokenizer.from_huggingface(directory)
    texts = ["hello", "", "hello world"]
    batch = tokenizer.encode_batch(texts)
    assert batch.ids == [tokenizer.encode(text) for text in texts]
    assert batch.input_ids is None and batch.cu_seqlens is None


def test_batches_as_tensors(directory: Path) -> None:
    tokenizer = Tokenizer.from_huggingface(directory)
    one, two = tokenizer.encode("hello"), tokenizer.encode("hello world")
    texts = ["hello", "hello world"]
    batch = tokenizer.encode_batch(texts, EncodeOptions(return_tensors=True, pad_id=7))
    assert batch.input_ids.numpy().tolist() == [[*one, 7], two]
    assert batch.attention_mask.numpy().tolist() == [[1, 0], [1, 1]]
    assert batch.seq_lengths.numpy().tolist() == [1, 2]
    assert batch.cu_seqlens.numpy().tolist() == [0, 1, 3] and batch.cu_seqlens.dtype is crt.int32
    left = tokenizer.encode_batch(texts, return_tensors=True, pad_id=7, padding_side="Left")
    assert left.input_ids.numpy().tolist() == [[7, *one], two]
    assert left.attention_mask.numpy().tolist() == [[0, 1], [1, 1]]
    flat = tokenizer.encode_batch(texts, return_tensors=True, varlen=True)
    assert flat.input_ids.numpy().tolist() == [*one, *two] and flat.attention_mask is None
    assert flat.cu_seqlens.numpy().tolist() == [0, 1, 3]
    with pytest.raises(InvalidArgumentError, match="has no pad token; give pad_id"):
        tokenizer.encode_batch(texts, return_tensors=True)
    same = tokenizer.encode_batch(["hello", "hello"], return_tensors=True)
    assert same.input_ids.numpy().tolist() == [one, one]
    assert tuple(tokenizer.encode_batch([], return_tensors=True).input_ids.shape) == (0, 0)


def test_truncation_keeps_special_tokens(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_huggingface(model_directory(tmp_path / "m", byte_level(bos=True)))
    plain = tokenizer.encode("1 2 3 4", add_special_tokens=False)
    right = tokenizer.encode_batch(["1 2 3 4", "1"], max_length=4)
    assert right.ids == [[1, *plain[:3]], [1, *plain[:1]]]
    left = tokenizer.encode_batch(["1 2 3 4"], max_length=4, truncation_side="left")
    assert left.ids == [[1, *plain[-3:]]]
    bare = tokenizer.encode_batch(["1 2 3 4"], max_length=2, add_special_tokens=False)
    assert bare.ids == [plain[:2]]


@pytest.mark.parametrize(
    "options",
    [
        {"nope": 1},
        {"padding_side": "top"},
        {"truncation_side": 3},
        {"max_length": -1},
        {"pad_id": "a"},
    ],
)
def test_wrong_batch_options(directory: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="encode_batch: "):
        Tokenizer.from_huggingface(directory).encode_batch(["a"], **options)


def test_chat_inputs(directory: Path) -> None:
    tokenizer = Tokenizer.from_huggingface(directory)
    messages = [{"role": "user", "content": "hello"}]
    expected = "user:hello<|im_end|>"
    assert tokenizer.apply_chat_template(json.dumps(messages)) == expected
    assert tokenizer.apply_chat_template(ChatTemplateInputs(messages)) == expected
    assert tokenizer.encode_chat(messages)[-1] == 2


def test_special_tokens_written_in_text_become_their_ids(directory: Path) -> None:
    tokenizer = Tokenizer.from_huggingface(directory)
    for index, text in enumerate(SPECIAL):
        assert tokenizer.encode(text) == [index]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_text_can_be_left_alone(tmp_path: Path, kind: str) -> None:
    oracle = KINDS[kind]()
    tokenizer = Tokenizer.from_huggingface(model_directory(tmp_path / "m", oracle, None))
    oracle.encode_special_tokens = True
    for text in (*TEXTS, "a<s>b</s>", "[CLS]hello[SEP]"):
        parsed = tokenizer.encode(text)
        for special in (True, False):
            ids = oracle.encode(text, add_special_tokens=special).ids
            assert tokenizer.encode(text, special, parse_special=False) == ids, text
        assert tokenizer.encode(text) == parsed
    with pytest.raises(InvalidArgumentError, match="the text must be a string"):
        tokenizer.encode(b"a", parse_special=False)  # type: ignore[arg-type]


def test_threads_share_a_tokenizer(directory: Path) -> None:
    tokenizer = Tokenizer.from_huggingface(directory)
    expected = [tokenizer.encode(text) for text in TEXTS]
    wrong: list[str] = []

    def work() -> None:
        for _ in range(20):
            for text, ids in zip(TEXTS, expected, strict=True):
                stream = tokenizer.streaming_decoder(False)
                pieces = "".join(map(stream.push, ids)) + stream.finish()
                prompt = tokenizer.apply_chat_template([{"role": "u", "content": text}])
                if tokenizer.encode(text) != ids or pieces != text:
                    wrong.append(text)
                if prompt != f"u:{text}<|im_end|>":
                    wrong.append(prompt)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
