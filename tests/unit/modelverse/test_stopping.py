"""Stop strings: the shown text does not depend on how the stream is cut."""

from __future__ import annotations

import random

import pytest

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse.stopping import StopStrings, check_stop


def stream(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    watcher = StopStrings(stops)
    shown = "".join(watcher.push(piece) for piece in pieces)
    return shown + watcher.flush(), watcher.found


def test_text_without_a_stop_passes_whole() -> None:
    assert stream(["zzz"], ["hello ", "z", "z world"]) == ("hello zz world", None)
    assert stream([], ["a", "b"]) == ("ab", None)


def test_a_stop_across_pieces_ends_the_text_before_it() -> None:
    assert stream(["</s>"], ["hi <", "/", "s", "> more"]) == ("hi ", "</s>")


def test_what_may_become_a_stop_is_held_back_and_nothing_else() -> None:
    watcher = StopStrings(["abc"])
    assert watcher.push("xab") == "x"
    assert watcher.push("a") == "ab"
    assert watcher.push("bc") == ""
    assert watcher.found == "abc"
    assert watcher.push("later") == ""
    assert watcher.flush() == ""


def test_the_stop_that_is_complete_first_counts() -> None:
    assert stream(["later", "x"], ["a x later"]) == ("a ", "x")
    assert stream(["abab", "ba"], ["abab"]) == stream(["abab", "ba"], list("abab")) == ("a", "ba")
    assert stream(["b", "ab"], ["ab"]) == ("", "ab")


def test_every_cut_of_a_stream_gives_the_same_text() -> None:
    random.seed(3)
    for _ in range(300):
        text = "".join(random.choice("ab") for _ in range(24))
        stops = [
            "".join(random.choice("ab") for _ in range(random.randint(1, 6))) for _ in range(2)
        ]
        ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
        expected = text[: min(ends)[1]] if ends else text
        pieces = []
        rest = text
        while rest:
            size = random.randint(1, 5)
            pieces.append(rest[:size])
            rest = rest[size:]
        shown, found = stream(stops, pieces)
        assert shown == expected
        assert (found is not None) == bool(ends)


def test_bad_stop_lists_are_refused() -> None:
    assert check_stop(None) == ()
    assert check_stop("x") == ("x",)
    assert check_stop(["a", "b"]) == ("a", "b")
    for bad in ([""], [3], ["x" * 5000], ["a"] * 65):
        with pytest.raises(InvalidArgumentError, match="stop"):
            check_stop(bad)  # type: ignore[arg-type]
