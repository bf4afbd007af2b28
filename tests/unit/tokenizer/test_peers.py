"""Ids of GGUF vocabularies beside llama.cpp: what it said (golden files), and itself where it is
installed."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import regex

from clika_runtime.tokenizer import Tokenizer
from clika_runtime.tokenizer.from_gguf import build
from clika_runtime.tokenizer.pre_tokenizers import PRE_TOKENIZERS
from tests.oracles.real_models import GEMMA3_270M, QWEN_CODER
from tests.unit.tokenizer.corpus import texts
from tests.unit.tokenizer.make_golden import (
    GOLDEN,
    OTHER,
    SHOWN,
    digest,
    model_ids,
    pair_vocabulary,
    tag_texts,
    tags,
)
from tests.unit.tokenizer.peer import LlamaCpp
from tests.unit.tokenizer.small import write_gguf


def _smollm2() -> Path:
    from clika_runtime.modelverse.sources import resolve
    from tests.conftest import SMOLLM2

    return resolve(SMOLLM2, quiet=True).entry


CHECKPOINTS: dict[str, Callable[[], Path]] = {
    "smollm2": _smollm2,
    "gemma3": GEMMA3_270M.path,
    "qwen2": QWEN_CODER.path,
}

needs_peer = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None,
    reason="llama-cpp-python is not installed; the golden files stand in for it",
)
pytestmark = pytest.mark.xdist_group("vocabularies")


@pytest.fixture(scope="module", params=list(CHECKPOINTS))
def checkpoint(request: pytest.FixtureRequest) -> tuple[str, Path]:
    if request.param == "smollm2":
        return request.param, request.getfixturevalue("smollm2_gguf")
    return request.param, CHECKPOINTS[request.param]()


@pytest.fixture(scope="module")
def tokenizer(checkpoint: tuple[str, Path]) -> Tokenizer:
    return Tokenizer.from_gguf(checkpoint[1])


def test_ids_are_those_of_llama_cpp(checkpoint: tuple[str, Path], tokenizer: Tokenizer) -> None:
    golden = json.loads((GOLDEN / f"{checkpoint[0]}.json").read_text())
    for text, ids in zip(texts()[SHOWN], golden["ids"], strict=True):
        assert tokenizer.encode(text) == [int(index) for index in ids.split(",") if index], text
    ours = model_ids(lambda text, parse: tokenizer.encode(text, parse, parse_special=parse))
    assert (ours["parsed"], ours["plain"]) == (golden["parsed"], golden["plain"])


def test_decoding_gives_the_text_back(tokenizer: Tokenizer) -> None:
    for text in texts()[::3]:
        ids = tokenizer.encode(text, add_special_tokens=False)
        # U+2581 is how SentencePiece spells a space.
        expected = text if tokenizer._byte_level else text.replace("▁", " ")
        assert tokenizer.decode(ids, skip_special_tokens=False) == expected
        stream = tokenizer.streaming_decoder(skip_special=False)
        assert "".join([*map(stream.push, ids), stream.finish()]) == expected
        end = 0
        for token in tokenizer.tokenize(text, add_special_tokens=False):
            assert token.begin == end <= token.end
            end = token.end
        assert end == len(text.encode()) or not ids


@needs_peer
def test_ids_beside_llama_cpp(checkpoint: tuple[str, Path], tokenizer: Tokenizer) -> None:
    peer = LlamaCpp(checkpoint[1])
    for text in [*texts(1200, seed=1), *texts(1200, seed=2)]:
        for flag in (True, False):
            ids = tokenizer.encode(text, flag, parse_special=flag)
            assert ids == peer.encode(text, flag, flag), (text, flag)
    peer.close()


def test_the_mark_of_strikethrough(checkpoint: tuple[str, Path], tokenizer: Tokenizer) -> None:
    # llama.cpp takes "</s>" for the end of a text by its name. Where the models themselves have it
    # as HTML, theirs is the meaning that counts: Gemma has a token for it, the others spell it.
    for parse in (True, False):
        ids = tokenizer.encode("</s>", False, parse_special=parse)
        pieces = ["</s>"] if checkpoint[0] == "gemma3" else ["</", "s", ">"]
        assert [tokenizer.id_to_token(index) for index in ids] == pieces
        assert tokenizer.decode(ids) == "</s>"


# ------------------------------------------------------------ pre-tokenizers
PAIRS = {f"tokenizer.ggml.{key}": value for key, value in pair_vocabulary().items()}


def backend_of(tag: str) -> Any:
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": tag, **PAIRS}
    return build(metadata, "t.gguf")[0]


# Tags of one meaning, by the first of them.
ALIKE = {
    tag: [other for other in tags() if PRE_TOKENIZERS[other] == PRE_TOKENIZERS[tag]]
    for tag in tags()
}


@pytest.mark.parametrize("tag", [tag for tag, alike in ALIKE.items() if alike[0] == tag])
def test_tags_cut_as_llama_cpp_does(tag: str) -> None:
    golden = json.loads((GOLDEN / "pre_tokenizers.json").read_text())["tags"]
    backend = backend_of(tag)
    rows = (backend.encode(text, add_special_tokens=False).ids for text in tag_texts(tag))
    ours = digest(rows)
    assert all(golden[other] == ours for other in ALIKE[tag])


def cut(text: str, patterns: tuple[str, ...]) -> list[str]:
    """The pieces by the `regex` package, an engine of its own."""
    pieces = [text]
    for pattern in patterns:
        flags = regex.VERSION1 if "&&" in pattern else regex.VERSION0
        expression = regex.compile(pattern, flags)
        following = []
        for piece in pieces:
            end = 0
            for match in expression.finditer(piece):
                following += [piece[end : match.start()], match.group()]
                end = match.end()
            following.append(piece[end:])
        pieces = [piece for piece in following if piece]
    return pieces


@pytest.mark.parametrize("tag", sorted({PRE_TOKENIZERS[tag]: tag for tag in OTHER}.values()))
def test_tags_cut_as_their_models_do(tag: str) -> None:
    # Where llama.cpp's rewriting differs. The engines do not agree on "$" before a line break and
    # on whether a raised digit is part of a word.
    patterns = PRE_TOKENIZERS[tag].patterns
    backend = backend_of(tag)
    for text in texts()[::6]:
        if r"\s+$" in patterns and re.search(r"\s\n", text):
            continue
        if r"\b" in patterns[0] and re.search("[²³½①Ⅷ]", text):
            continue
        pieces = backend.pre_tokenizer.pre_tokenize_str(text)
        assert [text[begin:end] for _, (begin, end) in pieces] == cut(text, patterns), text


@needs_peer
@pytest.mark.parametrize("tag", tags())
def test_tags_beside_llama_cpp(tmp_path: Path, tag: str) -> None:
    path = write_gguf(
        tmp_path / "t.gguf",
        pre=tag,
        **pair_vocabulary(),
        **dict.fromkeys(("bos_token_id", "eos_token_id", "unknown_token_id")),
    )
    peer, ours = LlamaCpp(path), Tokenizer.from_gguf(path)
    for text in tag_texts(tag):
        ids = ours.encode(text, False, parse_special=False)
        assert ids == peer.encode(text, False, False), text
    peer.close()
