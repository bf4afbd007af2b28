"""Properties of streamed text: however tokens and pieces cut it, what is shown adds up to the same
text, in whole characters, and ends at the same stop string."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clika_runtime.modelverse.stopping import StopStrings
from clika_runtime.modelverse.streams import breaks_after
from clika_runtime.tokenizer import Tokenizer
from tests.unit.modelverse import models

SCRIPTS = (
    "plain text, END of it",
    "Grüße aus Köln",
    "日本語のテキストです",
    "한국어 문장",
    "हिन्दी में लिखा हुआ",
    "نص عربي مع تشكيلٌ",
    "טקסט בעברית",
    "ข้อความภาษาไทย",
    "кириллица и ёж",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𒀀𒁀",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "e\u0301 a\u0308 zero\u200dwidth \u202eturned",
)
LETTERS = sorted(set("".join(SCRIPTS)))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One token per byte: characters of several bytes always span tokens."""
    folder = tmp_path_factory.mktemp("bytes")
    models.write_model(folder)
    return Tokenizer.from_huggingface(folder)


def first_end(text: str, stops: list[str]) -> tuple[str, str | None]:
    """What is shown of a whole text, by its definition."""
    ends = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not ends:
        return text, None
    end, _, stop = min(ends)
    return text[: end - len(stop)], stop


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places)]


texts = st.text(st.sampled_from("ab"), max_size=30) | st.text(st.sampled_from(LETTERS))


@settings(deadline=None, max_examples=300)
@given(
    text=texts,
    stops=st.lists(
        st.text(st.sampled_from("ab"), min_size=1, max_size=7)
        | st.text(st.sampled_from(LETTERS), min_size=1, max_size=4),
        max_size=4,
    ),
    cuts=st.lists(st.integers(0, 1000), max_size=12),
)
def test_stop_strings_do_not_depend_on_the_cuts(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    watcher = StopStrings(stops)
    shown = ""
    seen = 0
    for piece in pieces_of(text, cuts):
        shown += watcher.push(piece)
        seen += len(piece)
        if watcher.found is None:
            # Held back is what may become a stop string, and not a letter more.
            held = text[len(shown) : seen]
            assert held == max(
                (
                    stop[:size]
                    for stop in stops
                    for size in range(len(stop))
                    if text[:seen].endswith(stop[:size])
                ),
                key=len,
                default="",
            )
    shown += watcher.flush()
    assert (shown, watcher.found) == first_end(text, stops)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_streamed_tokens_add_up_to_the_decoded_text(tokenizer: Any, data: st.DataObject) -> None:
    """Any ids: whole characters, halves of them, bytes that are no text, special tokens."""
    parts = st.sampled_from(SCRIPTS).map(lambda text: tokenizer.encode(text))
    noise = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=6)
    cut = st.sampled_from(SCRIPTS).flatmap(
        lambda text: st.integers(0, 60).map(lambda size: tokenizer.encode(text)[:size])
    )
    ids = [token for part in data.draw(st.lists(parts | noise | cut, max_size=5)) for token in part]
    for skip in (True, False):
        decoder = tokenizer.streaming_decoder(skip)
        pieces = [decoder.push(token) for token in ids]
        assert "".join(pieces) + decoder.finish() == tokenizer.decode(ids, skip)


@pytest.mark.parametrize("text", SCRIPTS)
def test_no_piece_has_half_a_character(tokenizer: Any, text: str) -> None:
    decoder = tokenizer.streaming_decoder()
    pieces = [decoder.push(token) for token in tokenizer.encode(text)]
    assert "".join(pieces) == text and decoder.finish() == ""
    assert all(len(piece) <= 1 and piece != "\N{REPLACEMENT CHARACTER}" for piece in pieces)


@settings(deadline=None, max_examples=100)
@given(text=st.sampled_from(SCRIPTS), data=st.data())
def test_a_stop_string_across_tokens_and_characters(
    tokenizer: Any, text: str, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, len(text) - 1))
    stop = text[begin : begin + data.draw(st.integers(1, 4))]
    decoder = tokenizer.streaming_decoder()
    watcher = StopStrings([stop])
    shown = "".join(watcher.push(decoder.push(token)) for token in tokenizer.encode(text))
    assert watcher.found == stop
    assert shown == text[: text.index(stop)]


def test_long_stop_strings_that_nearly_match_take_no_time() -> None:
    """What is held grows to thousands of letters; a letter costs the same at every length."""
    watcher = StopStrings(["a" * (4000 + number) + "b" for number in range(64)])
    begun = time.perf_counter()
    for _ in range(3000):
        assert watcher.push("aa") == "" or watcher.found is None
    assert time.perf_counter() - begun < 5
    assert watcher.found is None and len(watcher.flush()) == 4063


def test_breakers_end_within_the_token_that_completes_them(tokenizer: Any) -> None:
    breaks = breaks_after(tokenizer, ("\n", "END", "日"))
    assert breaks is not None
    text = "a\nENENDEND日x"
    found = [breaks(token) for token in tokenizer.encode(text)]
    ends = {2, 7, 10, 13}
    assert [number + 1 for number, ended in enumerate(found) if ended] == sorted(ends)
    assert breaks_after(tokenizer, ()) is None


@settings(deadline=None, max_examples=50)
@given(text=st.text(st.sampled_from([*LETTERS, ":", "*"]), max_size=30))
def test_breakers_of_one_letter_need_no_text_around_them(tokenizer: Any, text: str) -> None:
    assume("ab" not in text)
    by_letter, by_text = (breaks_after(tokenizer, (":", "*", *more)) for more in ((), ("ab",)))
    assert by_letter is not None and by_text is not None
    for token in tokenizer.encode(text):
        assert by_letter(token) == by_text(token)
