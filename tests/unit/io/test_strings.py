"""The extension that reads arrays of strings, against the same in Python."""

from __future__ import annotations

import gc
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clika_runtime._native._strings import end_of_strings, read_strings, split_pairs


def written(texts: list[str]) -> bytes:
    data = [text.encode() for text in texts]
    return b"".join(struct.pack("<Q", len(item)) + item for item in data)


def read(data: bytes, count: int) -> list[str]:
    found: list[str] = []
    read_strings(data, count, found)
    return found


TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=20)


@given(TEXTS, st.binary(max_size=9), st.binary(max_size=9))
def test_what_is_written_is_read(texts: list[str], before: bytes, after: bytes) -> None:
    data = written(texts)
    assert read(data + after, len(texts)) == texts
    end = end_of_strings(before + data + after, len(before), len(texts))
    assert end == len(before) + len(data)
    view = memoryview(bytearray(before + data))[len(before) :]
    found = ["kept"]
    read_strings(view, len(texts), found)
    assert found == ["kept", *texts]


@given(st.binary(max_size=40), st.integers(-2, 60), st.integers(-2, 6))
def test_nothing_outside_the_buffer_is_read(data: bytes, start: int, count: int) -> None:
    wanted = start if 0 <= start <= len(data) else -1
    for _ in range(count if wanted >= 0 else 0):
        if wanted + 8 > len(data):
            wanted = -1
            break
        wanted += 8 + int.from_bytes(data[wanted : wanted + 8], "little")
        if wanted > len(data):
            wanted = -1
            break
    assert end_of_strings(data, start, count) == wanted


@pytest.mark.parametrize("length", [1, 2**31, 2**63 - 1, 2**63, 2**64 - 1])
def test_lengths_past_the_end(length: int) -> None:
    data = written(["good"]) + struct.pack("<Q", length)
    assert end_of_strings(data, 0, 1) == 12
    assert end_of_strings(data, 0, 2) == -1
    found: list[str] = []
    with pytest.raises(ValueError, match="string 1 reaches past the end of the 20 bytes"):
        read_strings(data, 2, found)
    assert found == ["good"]


@pytest.mark.parametrize(
    "text", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf5\x80\x80\x80"]
)
def test_what_is_not_utf8(text: bytes) -> None:
    data = written(["a", "é"]) + struct.pack("<Q", len(text)) + text
    found: list[str] = []
    with pytest.raises(UnicodeDecodeError):
        read_strings(data, 3, found)
    assert found == ["a", "é"]


@given(st.lists(st.text("ab é日 ", max_size=6)))
def test_pairs_are_parted_at_the_first_space_that_may_part_them(texts: list[str]) -> None:
    wanted = []
    for text in texts:
        left, _, right = text[1:].partition(" ")
        wanted.append((text[0] + left, right) if right else None)
    assert split_pairs(texts) == wanted


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_left_as_it_was(on: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        assert split_pairs(["a b"] * 3) == [("a", "b")] * 3
        assert gc.isenabled() is on
        with pytest.raises(TypeError, match="must be a string, got int"):
            split_pairs(["a b", 3])  # type: ignore[list-item]
        assert gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()
