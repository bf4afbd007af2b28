"""The streaming decoder: its pieces add up to what ``decode`` gives, and are never half a "
"character."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.tokenizer import StreamingDecoder, Tokenizer
from clika_runtime.tokenizer.streaming import Spelling, make_decoder
from tests.unit.tokenizer.small import TEXTS, byte_fallback, byte_level, word_piece


def made(backend: Backend) -> Tokenizer:
    return Tokenizer(backend)


def run(stream: StreamingDecoder, ids: list[int]) -> list[str]:
    return [*map(stream.push, ids), stream.finish()]


@pytest.mark.parametrize("build", [byte_level, byte_fallback, word_piece])
@pytest.mark.parametrize("skip", [True, False])
def test_pieces_add_up_to_decode(build: object, skip: bool) -> None:
    tokenizer = made(build())  # type: ignore[operator]
    stream = tokenizer.streaming_decoder(skip)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert "".join(run(stream, ids)) == tokenizer.decode(ids, skip)


@pytest.mark.parametrize("build", [byte_level, byte_fallback, word_piece])
@pytest.mark.parametrize("skip", [True, False])
def test_any_ids_add_up_to_decode(build: object, skip: bool) -> None:
    tokenizer = made(build())  # type: ignore[operator]
    rng = random.Random(7)
    stream = tokenizer.streaming_decoder(skip)
    for _ in range(400):
        # Ids past the vocabulary give no text in either way.
        ids = [rng.randrange(tokenizer.vocab_size + 2) for _ in range(rng.randint(1, 24))]
        assert "".join(run(stream, ids)) == tokenizer.decode(ids, skip), ids


def test_no_decoder_at_all() -> None:
    backend = Backend(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer = made(backend)
    ids = [0, 1, 1, 2, 0]
    assert "".join(run(tokenizer.streaming_decoder(), ids)) == tokenizer.decode(ids)


def test_metaspace() -> None:
    vocab = {"▁": 0, "▁a": 1, "b": 2, "▁c": 3, "<s>": 4}
    backend = Backend(models.BPE(vocab=vocab, merges=[]))
    backend.decoder = decoders.Metaspace()
    tokenizer = made(backend)
    rng = random.Random(3)
    for _ in range(100):
        ids = [rng.randrange(5) for _ in range(rng.randint(1, 10))]
        assert "".join(run(tokenizer.streaming_decoder(), ids)) == tokenizer.decode(ids), ids


def test_byte_level_inside_a_sequence() -> None:
    backend = byte_level()
    backend.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()])
    tokenizer = made(backend)
    rng = random.Random(5)
    for _ in range(300):
        ids = [rng.randrange(tokenizer.vocab_size) for _ in range(rng.randint(1, 24))]
        assert "".join(run(tokenizer.streaming_decoder(), ids)) == tokenizer.decode(ids), ids


def test_characters_are_held_back_until_complete() -> None:
    tokenizer = made(byte_level())
    ids = [tokenizer.token_to_id(letter) for letter in "ðŁĺĥ"]  # the four bytes of a smiley
    stream = tokenizer.streaming_decoder()
    assert run(stream, ids) == ["", "", "", "😃", ""]
    # An incomplete sequence comes out at the end, as decode shows it.
    assert run(stream, ids[:3]) == ["", "", "", "\ufffd"]
    assert tokenizer.decode(ids[:3]) == "\ufffd"
    assert run(stream, ids) == ["", "", "", "😃", ""]  # a fresh stream


def test_runs_of_byte_tokens_are_held_back() -> None:
    tokenizer = made(byte_fallback())
    ids = [tokenizer.token_to_id(token) for token in ("hello", "<0xC3>", "<0xA9>", "▁world")]
    assert run(tokenizer.streaming_decoder(), ids) == ["hello", "", "", "é world", ""]
    assert run(tokenizer.streaming_decoder(), ids[:3]) == ["hello", "", "", "é"]
    # The whole run decides: a broken tail takes the good start with it, as in decode.
    broken = [*ids[1:3], ids[1]]
    assert "".join(run(tokenizer.streaming_decoder(), broken)) == "\ufffd" * 3
    assert tokenizer.decode(broken) == "\ufffd" * 3


def pieces_of(*tokens: bytes | None, **options: object) -> StreamingDecoder:
    """A decoder over ids 0, 1, ... with these bytes."""
    spelling = Spelling(
        lambda index: tokens[index] if index < len(tokens) else None,
        lambda index: (tokens[index] or b"").startswith(b" "),
        **options,  # type: ignore[arg-type]
    )
    return make_decoder(spelling=spelling, decode=str, surface=str, skipped=frozenset([0]))


def test_the_first_space_of_a_text_is_dropped() -> None:
    for every, expected in ((False, ["", "", " ", " a", " a"]), (True, ["", "", "", "a", " a"])):
        stream = pieces_of(b"<s>", b" ", b" a", every_space=every)
        for _ in range(2):  # a fresh stream after finish
            assert [*map(stream.push, [0, 1, 1, 2, 2]), stream.finish()] == [*expected, ""]
    assert pieces_of(b"<s>", b"a", b" a").push(2) == "a"
    stream = pieces_of(b"<s>", b"a", b" a")
    assert [stream.push(1), stream.push(2), stream.push(9)] == ["a", " a", ""]


def test_broken_bytes_once_each_or_once_together() -> None:
    tokens = (None, b"\xf0", b"\x9f", b"a")
    for per_byte, expected in ((True, "\ufffd\ufffda\ufffd"), (False, "\ufffda\ufffd")):
        stream = pieces_of(*tokens, per_byte=per_byte)
        given = [*map(stream.push, [1, 2, 3, 1]), stream.finish()]
        assert "".join(given) == expected and given[0] == ""


@given(st.lists(st.integers(0, 300)), st.booleans(), st.booleans())
def test_any_ids_through_any_spelling(ids: list[int], every: bool, per_byte: bool) -> None:
    tokens = [None, b" ", b" hello", b"hello", "é".encode(), "😀".encode(), b"", b"\n"]
    tokens += [bytes([byte]) for byte in range(256)]
    spelling = Spelling(
        lambda index: tokens[index] if index < len(tokens) else None,
        lambda index: index in (1, 2),
        every_space=every,
        per_byte=per_byte,
    )
    skipped = frozenset([3])
    stream = make_decoder(spelling=spelling, decode=str, surface=str, skipped=skipped)
    pieces = [*map(stream.push, ids), stream.finish()]
    text = spelling.text(ids, skipped)
    assert "".join(pieces) == text
    # Whatever comes out before the end is whole: U+FFFD is for bytes that no later one completes.
    data = b"".join(tokens[i] or b"" for i in ids if i < len(tokens) and i not in skipped)
    assert text.lstrip(" ") == data.decode("utf-8", "replace").lstrip(" ") or per_byte


def test_special_tokens_are_skipped_or_kept() -> None:
    tokenizer = made(byte_level())
    ids = tokenizer.encode("<|im_start|>hello<|im_end|>")
    assert run(tokenizer.streaming_decoder(), ids) == ["", "hello", "", ""]
    kept = run(tokenizer.streaming_decoder(False), ids)
    assert kept == ["<|im_start|>", "hello", "<|im_end|>", ""]


def test_outlives_its_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    byte_level().save(str(path))
    tokenizer = Tokenizer.from_file(path)
    ids = tokenizer.encode("hello world")
    stream = tokenizer.streaming_decoder()
    del tokenizer
    assert "".join(run(stream, ids)) == "hello world"


@pytest.mark.parametrize("token_id", [-1, 2**32, "a", 1.5, None])
def test_wrong_ids(token_id: object) -> None:
    for build in (byte_level, byte_fallback):
        with pytest.raises(InvalidArgumentError, match="push: a token id must be"):
            made(build()).streaming_decoder().push(token_id)  # type: ignore[arg-type]


def test_cost_does_not_grow_with_the_stream() -> None:
    calls = 0

    class Counting:
        def __init__(self, backend: Backend) -> None:
            self._backend = backend

        def __getattr__(self, name: str) -> object:
            return getattr(self._backend, name)

        def decode(self, ids: list[int], **options: bool) -> str:
            nonlocal calls
            calls += len(ids)
            return self._backend.decode(ids, **options)

    tokenizer = Tokenizer(Counting(byte_fallback()))
    stream = tokenizer.streaming_decoder()
    ids = made(byte_fallback()).encode("hello world, hello world. " * 100)
    for index in ids:
        stream.push(index)
    assert calls < 6 * len(ids)
