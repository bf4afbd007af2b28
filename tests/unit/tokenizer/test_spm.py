"""SentencePiece models: ids and texts are those of the `sentencepiece` package."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.tokenizer import Tokenizer, spm
from tests.unit.tokenizer.corpus import texts
from tests.unit.tokenizer.spm_models import field, model_bytes, piece, trained

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "bytes": {"byte_fallback": True},
    "bytes, spaces kept": {"byte_fallback": True, "remove_extra_whitespaces": False},
    "identity": {"normalization_rule_name": "identity"},
    "like llama": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "byte_fallback": True,
        "split_digits": True,
        "allow_whitespace_only_pieces": True,
    },
    "like gemma": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        "byte_fallback": True,
        "user_defined_symbols": ["\n", "\n\n", "▁▁", "▁▁▁", "<h1>"],
    },
    "case folded": {"normalization_rule_name": "nmt_nfkc_cf"},
    "no prefix": {"add_dummy_prefix": False},
    "suffix": {"treat_whitespace_as_suffix": True},
    "user-defined": {"user_defined_symbols": ["<tool_call>", "ab", "é", "ﬁ"], "vocab_size": 900},
    "over spaces": {"split_by_whitespace": False, "max_sentencepiece_length": 24},
}


def hashable(options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((key, tuple(v) if isinstance(v, list) else v) for key, v in options.items())


def both(data: bytes, folder: Path) -> tuple[Tokenizer, sentencepiece.SentencePieceProcessor]:
    path = folder / "small.model"
    path.write_bytes(data)
    return Tokenizer.from_file(path), sentencepiece.SentencePieceProcessor(model_proto=data)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("options", OPTIONS)
def test_ids_and_texts_equal_sentencepiece(tmp_path: Path, kind: str, options: str) -> None:
    data = trained(kind, hashable(OPTIONS[options]))
    ours, theirs = both(data, tmp_path)
    assert ours.vocab_size == theirs.get_piece_size()
    for text in texts(2400 if options in ("bytes", "like gemma") else 500):
        # SentencePiece does not look for special tokens in a text.
        ids = ours.encode(text, parse_special=False)
        assert ids == theirs.encode(text), text
        # It shows an unknown piece as " ⁇ ", where we leave a special token out.
        if theirs.unk_id() not in ids:
            assert ours.decode(ids) == theirs.decode(ids), text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_any_ids_give_the_text_of_sentencepiece(tmp_path: Path, kind: str) -> None:
    rng = random.Random(5)
    for options in ({}, {"remove_extra_whitespaces": False}, {"add_dummy_prefix": False}):
        data = trained(kind, hashable({"byte_fallback": True, **options}))
        ours, theirs = both(data, tmp_path)
        # Control tokens part a run of bytes in SentencePiece; with us they are not there.
        ids = [
            i for i in range(len(theirs)) if not theirs.is_control(i) and not theirs.is_unknown(i)
        ]
        leading = [theirs.piece_to_id(name) for name in ("▁", "▁hello", "<0x20>", "<0xC3>")]
        for _ in range(400):
            sample = [*rng.choices(leading, k=rng.randint(0, 3)), *rng.choices(ids, k=6)]
            assert ours.decode(sample) == theirs.decode(sample), sample
            stream = ours.streaming_decoder()
            pieces = [*map(stream.push, sample), stream.finish()]
            assert "".join(pieces) == theirs.decode(sample), sample


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_long_runs_and_ties(tmp_path: Path, kind: str) -> None:
    ours, theirs = both(trained(kind, hashable(OPTIONS["like llama"])), tmp_path)
    rng = random.Random(9)
    for _ in range(300):
        text = "".join(
            rng.choice(("a", "l", "=", "!", " ", "0", "ab", "ha", "哈", "\n")) * rng.randint(1, 40)
            for _ in range(rng.randint(1, 5))
        )
        assert ours.encode(text) == theirs.encode(text), text


def test_equal_scores_go_by_place(tmp_path: Path) -> None:
    # Pieces that were added by hand often share a score: the leftmost pair is merged first.
    pairs = ("ab", "bc", "cd", "bcd", "abcd", "ca", "aa", "aab")
    pieces = [piece(c, -50.0 - i) for i, c in enumerate("abcd")] + [piece(p, 0.0) for p in pairs]
    ours, theirs = both(model_bytes(*pieces), tmp_path)
    rng = random.Random(1)
    for _ in range(500):
        text = "".join(rng.choices("abcd", k=rng.randint(1, 12)))
        assert ours.encode(text) == theirs.encode(text), text


def test_unused_pieces_come_apart_again(tmp_path: Path) -> None:
    for kind in (1, 2):
        pieces = [
            *(piece(c, -20.0 - i) for i, c in enumerate("abcde")),
            *(
                piece("ab", -1.0, 5),
                piece("cd", -2.0),
                piece("abcd", -3.0, 5),
                piece("abcde", -4.0),
            ),
            piece("ea", -5.0, 5),
        ]
        ours, theirs = both(model_bytes(*pieces, kind=kind), tmp_path)
        rng = random.Random(1)
        for _ in range(300):
            text = "".join(rng.choices("abcde", k=rng.randint(1, 12)))
            assert ours.encode(text) == theirs.encode(text), (kind, text)


def test_special_tokens_of_the_model(tmp_path: Path) -> None:
    options = {"bos_piece": "<begin>", "pad_id": 3, "control_symbols": "<tool>"}
    ours, theirs = both(trained("bpe", hashable(options)), tmp_path)
    assert (ours.bos_id, ours.eos_id, ours.pad_id, ours.unk_id) == (
        *(theirs.bos_id(), theirs.eos_id(), theirs.pad_id(), theirs.unk_id()),
    )
    assert ours.special_tokens["bos_token"] == "<begin>" and ours.stop_ids == {theirs.eos_id()}
    tool = theirs.piece_to_id("<tool>")
    assert tool in ours.encode("a<tool>b") and tool not in ours.encode(
        "a<tool>b", parse_special=False
    )
    assert ours.encode("a<tool>b")[-2:] == theirs.encode("b")[-2:]
    assert ours.decode([theirs.bos_id(), *theirs.encode("hello world")]) == "hello world"


def test_spans_lead_back_to_the_text(tmp_path: Path) -> None:
    for kind in ("bpe", "unigram"):
        for options in ("bytes", "like gemma"):
            ours, _ = both(trained(kind, hashable(OPTIONS[options])), tmp_path)
            for text in texts(400):
                tokens = ours.tokenize(text)
                assert [token.id for token in tokens] == ours.encode(text)
                ends = [0, *(token.end for token in tokens)]
                assert [token.begin for token in tokens] == ends[:-1] and ends == sorted(ends)
                assert not tokens or ends[-1] == len(text.encode())
    tokens = ours.tokenize(" hello")
    assert b" hello"[tokens[0].begin : tokens[0].end].startswith(b" ")


def test_batches_are_cut_and_padded(tmp_path: Path) -> None:
    config = {"tokenizer_class": "LlamaTokenizer"}
    folder = model_directory(tmp_path / "m", config, **OPTIONS["like llama"])
    tokenizer = Tokenizer.from_huggingface(folder)
    one, two = tokenizer.encode("hello"), tokenizer.encode("hello world 12345")
    batch = tokenizer.encode_batch(["hello", "hello world 12345"], return_tensors=True, pad_id=0)
    width = len(two)
    assert batch.input_ids.numpy().tolist() == [[*one, *[0] * (width - len(one))], two]
    for side, expected in (("right", two[:4]), ("left", [1, *two[-3:]])):
        cut = tokenizer.encode_batch(["hello world 12345"], max_length=4, truncation_side=side)
        assert cut.ids == [expected]


def test_threads_share_a_model(tmp_path: Path) -> None:
    ours, theirs = both(trained("bpe", hashable(OPTIONS["like llama"])), tmp_path)
    wrong: list[str] = []

    def work() -> None:
        for text in texts(400):
            if ours.encode(text, parse_special=False) != theirs.encode(text):
                wrong.append(text)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_cache_of_words_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spm, "_CACHED_CUTS", 3)
    cut = spm.Bpe({"a": 0, "b": 1, "ab": 2}, [-1.0, -2.0, -3.0])
    for text in ("ab", "ba", "abab", "bb", "aab", "abb", "a" * 200):
        assert "".join(cut(text)) == text and cut(text) == cut(text)
        assert len(cut._between._known) <= 3
        assert all(len(part) <= 64 for part in cut._between._known)


def test_an_interrupt_inside_is_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = both(trained("bpe"), tmp_path)

    def interrupted(self: object, text: str) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(spm.Bpe, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ours.encode("hello")


# ------------------------------------------------------------ directories
def model_directory(folder: Path, config: dict[str, Any] | None, **options: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.model").write_bytes(trained("bpe", hashable(options)))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_frames_of_tokenizer_classes(tmp_path: Path) -> None:
    def ids(config: dict[str, Any] | None) -> list[int]:
        return Tokenizer.from_huggingface(model_directory(tmp_path / "m", config)).encode("hello")

    plain = ids(None)
    assert ids({}) == plain and ids({"tokenizer_class": "LlamaTokenizerFast"}) == [1, *plain]
    assert ids({"tokenizer_class": "LlamaTokenizer", "add_bos_token": False}) == plain
    assert ids({"tokenizer_class": "GemmaTokenizer", "add_eos_token": True}) == [1, *plain, 2]
    assert ids({"tokenizer_class": "T5Tokenizer", "extra_ids": 0}) == [*plain, 2]
    assert ids({"add_bos_token": True}) == [1, *plain]
    with pytest.raises(UnsupportedError, match="'XLMRobertaTokenizer' changes the ids"):
        ids({"tokenizer_class": "XLMRobertaTokenizer"})
    for wrong in ({"tokenizer_class": 3}, {"add_bos_token": "yes"}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            ids(wrong)


def test_tokens_that_a_configuration_adds(tmp_path: Path) -> None:
    size = Tokenizer.from_file(model_directory(tmp_path / "m", None)).vocab_size
    added = {
        str(size + 1): {"content": "<|end|>", "special": True},
        str(size): {"content": "<user>", "special": False},
        "1": {"content": "<s>", "special": True},
    }
    config = {"added_tokens_decoder": added, "eos_token": "<|end|>", "chat_template": "x"}
    tokenizer = Tokenizer.from_huggingface(model_directory(tmp_path / "m", config))
    assert tokenizer.encode("<|end|>") == [size + 1] and tokenizer.eos_id == size + 1
    assert tokenizer.decode([size, size + 1]) == "<user>" and tokenizer.has_chat_template
    stream = tokenizer.streaming_decoder(False)
    assert [*map(stream.push, [size, size + 1])] == ["<user>", "<|end|>"]
    for key, token, message in (
        (
            str(size + 7),
            {"content": "<x>"},
            f"places '<x>' at {size + 7}, the vocabulary at {size}",
        ),
        ("-1", {"content": "<x>"}, "has an item"),
        ("3", "<x>", "has an item"),
        (str(size), {"content": ""}, "has no content"),
    ):
        config = {"added_tokens_decoder": {key: token}}
        with pytest.raises(InvalidArgumentError, match=message):
            Tokenizer.from_huggingface(model_directory(tmp_path / "m", config))


def test_extra_ids_of_t5(tmp_path: Path) -> None:
    config = {"tokenizer_class": "T5Tokenizer", "extra_ids": 3}
    tokenizer = Tokenizer.from_huggingface(model_directory(tmp_path / "m", config))
    size = tokenizer.vocab_size
    assert [tokenizer.token_to_id(f"<extra_id_{n}>") for n in (2, 1, 0)] == [*range(size - 3, size)]


def as_tokenizer_json(path: Path, theirs: sentencepiece.SentencePieceProcessor) -> None:
    """The model as the pipeline of the `tokenizers` library that published files hold."""
    tokens = [theirs.id_to_piece(index) for index in range(len(theirs))]
    ids = {token: index for index, token in enumerate(tokens)}
    plain = [i for i in range(len(theirs)) if not theirs.is_byte(i) and not theirs.is_control(i)]
    splits = [
        (theirs.get_score(index), tokens[index][:at], tokens[index][at:])
        for index in plain
        for at in range(1, len(tokens[index]))
        if tokens[index][:at] in ids and tokens[index][at:] in ids
    ]
    merges = [(left, right) for _, left, right in sorted(splits, key=lambda row: -row[0])]
    backend = tokenizers.Tokenizer(
        models.BPE(vocab=ids, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.save(str(path))


def test_the_same_model_as_tokenizer_json(tmp_path: Path) -> None:
    ours, theirs = both(trained("bpe", hashable(OPTIONS["like llama"])), tmp_path)
    as_tokenizer_json(tmp_path / "tokenizer.json", theirs)
    read = Tokenizer.from_file(tmp_path / "tokenizer.json")
    for text in texts(1000):
        ids = theirs.encode(text)
        assert read.encode(text) == ids and ours.encode(text, parse_special=False) == ids, text
        assert ours.decode(ids) == read.decode(ids) == theirs.decode(ids), text
        for tokenizer in (ours, read):
            stream = tokenizer.streaming_decoder()
            assert "".join([*map(stream.push, ids), stream.finish()]) == theirs.decode(ids), text


def test_a_unigram_tokenizer_json(tmp_path: Path) -> None:
    ours, theirs = both(trained("unigram", hashable(OPTIONS["like llama"])), tmp_path)
    pieces = [(theirs.id_to_piece(i), theirs.get_score(i)) for i in range(len(theirs))]
    backend = tokenizers.Tokenizer(models.Unigram(pieces, theirs.unk_id(), byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    backend.save(str(tmp_path / "tokenizer.json"))
    read = Tokenizer.from_file(tmp_path / "tokenizer.json")
    same = 0
    for text in texts(1000):
        ids = backend.encode(text).ids
        assert read.encode(text) == ids and read.decode(ids) == backend.decode(ids)
        stream = read.streaming_decoder()
        assert "".join([*map(stream.push, ids), stream.finish()]) == read.decode(ids), text
        same += ids == ours.encode(text, parse_special=False)
    # The library's sums are float64, which decides ties in another way, and it takes "<s>" for a
    # piece.
    assert same > 850


# ------------------------------------------------------------ hostile files
A, B = piece("a", -1.0), piece("b", -2.0)
CHARSMAP = (8).to_bytes(4, "little") + bytes(8) + b"\0"
WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"\n", "does not end"),
    "no pieces": (field(2, field(3, 2)), "holds no pieces"),
    "a length past the end": (b"\x0a\xff\xff\x03", "ends at byte 65539, its message at 4"),
    "an endless number": (b"\xff" * 12, "does not end"),
    "a group": (b"\x0b\x0c", "wire type 3"),
    "pieces as a number": (field(1, 3), "field 'pieces' has wire type 0, expected bytes"),
    "a number as a piece": (field(1, field(1, 7)), r"field 'pieces\[0\].piece' has wire type 0"),
    "not UTF-8": (piece(b"\xff\xfe"), r"field 'pieces\[0\].piece' at byte 4 is not UTF-8"),
    "an empty piece": (piece(""), r"field 'pieces\[0\].piece' is empty"),
    "nan": (A + piece("b", float("nan")), r"field 'pieces\[1\].score' is nan"),
    "infinite": (A + piece("b", float("inf")), r"field 'pieces\[1\].score' is inf"),
    "a type": (A + piece("b", 0.0, 9), r"field 'pieces\[1\].type' is 9, expected 1 to 6"),
    "a kind": (A + field(2, field(3, 7)), "field 'trainer_spec.model_type' is 7, expected 1 to 4"),
    "twice": (model_bytes(A, B, A), "the piece 'a' stands twice, at 3 and 5"),
    "bytes missing": (
        model_bytes(A, piece("<0x00>", 0.0, 6), byte_fallback=True),
        "falls back to bytes and lacks 255 of 256, <0x01> first",
    ),
    "no unknown": (A + field(2, field(3, 2)), "holds neither an unknown token nor 256 byte"),
    "a long piece": (
        model_bytes(A, piece("x" * 513), kind=1),
        "a piece has 513 characters, the limit is 512",
    ),
    "charsmap too short": (model_bytes(A, charsmap=b"abc"), "the character map has 3 bytes"),
    "charsmap too long": (
        model_bytes(A, charsmap=b"\xff\xff\xff\x7f" + bytes(64)),
        "the character map says that its array has 2147483647 bytes, of 68",
    ),
    "normalizer as text": (
        A + field(3, field(4, b"yes")),
        "'normalizer_spec.remove_extra_whitespaces' has wire type 2",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_refused_by_field(tmp_path: Path, case: str) -> None:
    data, message = WRONG[case]
    path = tmp_path / "wrong.model"
    path.write_bytes(data)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Tokenizer.from_file(path)
    assert str(path) in str(caught.value) and caught.value.code_name == "MALFORMED_FILE"


def test_many_user_defined_pieces(tmp_path: Path) -> None:
    names = [f"<unused{index}>" for index in range(3000)]
    data = model_bytes(*(piece(name, 0.0, 4) for name in names), *(piece(c) for c in "<unsed>12"))
    ours, theirs = both(data, tmp_path)
    for text in ("<unused1>", "<unused12><unused2999><unused3000><", "12<unused<unused7>>" * 500):
        assert ours.encode(text) == theirs.encode(text)


@pytest.mark.parametrize(("number", "name"), [(3, "word"), (4, "char")])
def test_other_kinds_are_refused_by_name(tmp_path: Path, number: int, name: str) -> None:
    path = tmp_path / "m.model"
    path.write_bytes(model_bytes(A, kind=number))
    with pytest.raises(UnsupportedError, match=f"of kind '{name}' are not served"):
        Tokenizer.from_file(path)
    with pytest.raises(NotFoundError):
        Tokenizer.from_file(tmp_path / "absent.model")


def test_a_hostile_character_map_is_refused_in_use(tmp_path: Path) -> None:
    # One unit after another that leads far outside, or to a text that does not end.
    path = tmp_path / "m.model"
    rng = random.Random(2)
    for _ in range(120):
        units = b"".join(rng.randrange(1 << 32).to_bytes(4, "little") for _ in range(64))
        blob = (256).to_bytes(4, "little") + units + rng.randbytes(8)
        path.write_bytes(model_bytes(A, charsmap=blob))
        tokenizer = Tokenizer.from_file(path)
        for text in ("a", "hello", "\x00\x01", "é日本😀"):
            try:
                tokenizer.encode(text)
            except InvalidArgumentError as error:
                assert "a replacement begins at byte" in str(error)


def test_cut_short_anywhere(tmp_path: Path) -> None:
    data = trained("unigram", hashable({"byte_fallback": True}))
    path = tmp_path / "m.model"
    rng = random.Random(4)
    for _ in range(150):
        damaged = bytearray(data[: rng.randrange(1, len(data))])
        for _ in range(rng.randrange(3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            Tokenizer.from_file(path).encode("hello é😀")
        except (InvalidArgumentError, UnsupportedError) as error:
            assert str(path) in str(error) or "encode" in str(error)
