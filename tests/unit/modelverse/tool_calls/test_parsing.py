"""Replies taken apart: the same however the text is cut, and never an error."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clika_runtime import plugins
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse.tools import (
    CallArguments,
    CallEnd,
    CallStart,
    CallWithdrawn,
    Event,
    OutputParser,
    ReasoningDelta,
    TextDelta,
    collect,
    parse_reply,
    tool_format,
)
from tests.unit.modelverse.tool_calls.goldens import GOLDENS, TOOLS, Golden

IDS = [f"{item.format}-{index}" for index, item in enumerate(GOLDENS)]


def merged(events: Iterable[Event]) -> list[Event]:
    """The events with neighbouring pieces of one thing put together."""
    result: list[Event] = []
    for event in events:
        last = result[-1] if result else None
        if type(last) is type(event) and isinstance(event, (TextDelta, ReasoningDelta)):
            result[-1] = type(event)(last.text + event.text)  # type: ignore[union-attr]
        elif isinstance(last, CallArguments) and isinstance(event, CallArguments):
            assert last.index == event.index
            result[-1] = CallArguments(event.index, last.text + event.text)
        else:
            result.append(event)
    return result


def fed(item: Golden, pieces: Iterable[str], hold: bool = False) -> list[Event]:
    parser = OutputParser(item.format, hold=hold, **item.options)
    events: list[Event] = []
    for piece in pieces:
        events += parser.push(piece)
    return merged([*events, *parser.finish()])


def test_every_format_has_goldens() -> None:
    counts = Counter(item.format for item in GOLDENS)
    assert set(counts) == set(plugins.tool_parsers())
    assert min(counts.values()) >= 4


@pytest.mark.parametrize("item", GOLDENS, ids=IDS)
def test_golden(item: Golden) -> None:
    reply = parse_reply(item.text, item.format, **item.options)
    assert reply == item.expected
    for call in reply.calls:
        assert isinstance(json.loads(call.arguments), dict)


@pytest.mark.parametrize("item", GOLDENS, ids=IDS)
def test_every_cut_tells_the_same(item: Golden) -> None:
    text = item.text
    for hold in (False, True):
        whole = fed(item, [text], hold)
        assert collect(whole) == item.expected
        assert fed(item, list(text), hold) == whole
        for at in range(len(text) + 1):
            assert fed(item, [text[:at], text[at:]], hold) == whole, (at, hold)
    assert not any(isinstance(event, CallWithdrawn) for event in fed(item, [text], hold=True))


@pytest.mark.parametrize("item", GOLDENS, ids=IDS)
def test_random_pieces_tell_the_same(item: Golden) -> None:
    rng = random.Random(item.text)
    whole = fed(item, [item.text])
    for _ in range(20):
        cuts = sorted(rng.randint(0, len(item.text)) for _ in range(rng.randint(1, 12)))
        pieces = [item.text[a:b] for a, b in zip([0, *cuts], [*cuts, len(item.text)], strict=True)]
        assert fed(item, pieces) == whole


def test_events_are_in_order() -> None:
    """Every start has its end or its withdrawal, with the same index, before the next one."""
    for item in GOLDENS:
        started: int | None = None
        count = 0
        for event in fed(item, list(item.text)):
            if isinstance(event, CallStart):
                assert started is None
                assert event.index == count
                started = count
            elif isinstance(event, CallArguments):
                assert event.index == started
            elif isinstance(event, (CallEnd, CallWithdrawn)):
                assert event.index == started
                started = None
                count += isinstance(event, CallEnd)
        assert started is None


def test_arguments_arrive_before_the_call_ends() -> None:
    parser = OutputParser("hermes")
    parser.push('<tool_call>{"name": "save", "arguments": {"text": "')
    assert parser.push("a long story") == [CallArguments(0, "a long story")]


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("qwen3-coder", "<function=get_weather><parameter=city>\n"),
        ("glm", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>"),
    ],
)
def test_texts_between_tags_arrive_as_they_come(name: str, begin: str) -> None:
    parser = OutputParser(name, tools=TOOLS)
    parser.push(begin)
    assert parser.push('a "long" name') == [CallArguments(0, 'a \\"long\\" name')]


FRAGMENTS = sorted(
    {
        marker
        for name in plugins.tool_parsers()
        for marker in (*tool_format(name).markers, *tool_format(name).begins)
    }
) + [
    '{"name": "now", "arguments": {}}',
    '{"name": "get_weather", "arguments": {"city": "Oslo',
    "[now()]",
    "call:now{}",
    "<function=now>",
    "</function>",
    "<parameter=a>",
    "</parameter>",
    "<think>",
    "</think>",
    "functions.now:0",
    "assistant",
    "commentary to=functions.now ",
    "now",
    "\n",
    " ",
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    "```json\n",
    "é😀",
]


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(plugins.tool_parsers())),
    parts=st.lists(st.sampled_from(FRAGMENTS), max_size=12),
    reasoning=st.sampled_from([None, "think", "granite", "gemma"]),
    inside=st.booleans(),
    seed=st.integers(0, 1 << 20),
)
def test_any_text_in_any_pieces(
    name: str, parts: list[str], reasoning: str | None, inside: bool, seed: int
) -> None:
    text = "".join(parts)
    options = {"reasoning": reasoning, "inside": inside, "tools": TOOLS}
    item = Golden(name, text, parse_reply(text, name, **options), options)
    whole = fed(item, [text])
    assert fed(item, list(text)) == whole
    rng = random.Random(seed)
    cuts = sorted(rng.randint(0, len(text)) for _ in range(4))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert fed(item, pieces) == whole
    assert collect(fed(item, pieces, hold=True)) == collect(whole)
    for call in collect(whole).calls:
        assert isinstance(json.loads(call.arguments), dict)


def test_malformed_calls_lose_no_character() -> None:
    """A reply without calls and reasoning is shown as it was written."""
    for item in GOLDENS:
        if not item.expected.calls and not item.expected.reasoning:
            assert item.expected.text == item.text


@pytest.mark.parametrize("name", sorted(plugins.tool_parsers()))
def test_hostile_replies_take_linear_time(name: str) -> None:
    made = tool_format(name)
    begins = made.begins or ("{",)
    for unit in (
        begins[0],
        begins[0] + '{"name": "f", "arguments": {"a": "',
        begins[0] + "[" * 50,
        begins[0] + "<function=f><parameter=a>",
        "call:f{a:[",
        " " * 50,
        "<" * 20,
    ):
        text = unit * (60_000 // len(unit))
        before = time.perf_counter()
        reply = parse_reply(text, name, tools=TOOLS, reasoning="think")
        assert len(reply.text) <= len(text)
        parser = OutputParser(name, tools=TOOLS)
        for at in range(0, len(text), 4):
            parser.push(text[at : at + 4])
        parser.finish()
        assert time.perf_counter() - before < 5


def test_deep_arguments_are_text() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 5000 + "]" * 5000 + "}}"
    assert parse_reply(text, "hermes").text == text


def test_no_format() -> None:
    assert parse_reply(" Hi <tool_call> ").text == " Hi <tool_call> "


def test_refusals() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no tool parser 'nosuch'.*hermes"):
        OutputParser("nosuch")
    with pytest.raises(InvalidArgumentError, match="no reasoning 'x'; known are think"):
        OutputParser(None, reasoning="x")
    parser = OutputParser(None)
    parser.finish()
    assert parser.finish() == []
    with pytest.raises(InvalidArgumentError, match="after finish"):
        parser.push("x")
