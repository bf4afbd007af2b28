"""JSON that is still arriving: values, and calls written as objects."""

from __future__ import annotations

import json
import re
from typing import Any

from .cursor import Cursor, Malformed, Reading, Sink
from .output import Output

__all__ = [
    "JSON_NUMBER",
    "MAX_DEPTH",
    "json_arguments",
    "json_call",
    "json_calls",
    "json_string",
    "json_value",
]

MAX_DEPTH = 64
MAX_NUMBER = 400  # characters
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_HEX = re.compile(r"[0-9A-Fa-f]{4}")
_NUMERIC = re.compile(r"[-+.0-9eE]+")
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_LETTERS = re.compile(r"[a-z]+")
_WORDS = ("true", "false", "null")


def json_string(cursor: Cursor, sink: Sink) -> Reading[None]:
    """Read a string, quotes included."""
    yield from cursor.expect('"')
    sink('"')
    while True:
        plain = cursor.here(_PLAIN)
        if plain:
            sink(plain)
        following = yield from cursor.ahead()
        if following == '"':
            sink(cursor.take(1))
            return
        if following == "\\":
            escape = yield from cursor.ahead(2)
            if escape[1:] == "u":
                escape = yield from cursor.ahead(6)
                if _HEX.fullmatch(escape[2:]) is None:
                    raise Malformed
            elif len(escape) < 2 or escape[1] not in '"\\/bfnrt':
                raise Malformed
            sink(cursor.take(len(escape)))
        elif not following or following < " ":
            raise Malformed


def json_value(cursor: Cursor, sink: Sink) -> Reading[None]:
    """Read one value, strictly JSON; its text goes to the sink as it comes."""
    closing: list[str] = []
    while True:
        following = yield from cursor.ahead()
        if following and following in "{[":
            end = "}" if following == "{" else "]"
            sink(cursor.take(1))
            yield from cursor.space(sink)
            if (yield from cursor.found(end)):
                sink(end)
            else:
                closing.append(end)
                if len(closing) > MAX_DEPTH:
                    raise Malformed
                if end == "}":
                    yield from _key(cursor, sink)
                continue
        elif following == '"':
            yield from json_string(cursor, sink)
        elif following.isalpha():
            word = yield from cursor.run(_LETTERS, 5)
            if word not in _WORDS:
                raise Malformed
            sink(word)
        else:
            number = yield from cursor.run(_NUMERIC, MAX_NUMBER)
            if JSON_NUMBER.fullmatch(number) is None:
                raise Malformed
            sink(number)
        while closing:
            yield from cursor.space(sink)
            if (yield from cursor.found(",")):
                sink(",")
                yield from cursor.space(sink)
                if closing[-1] == "}":
                    yield from _key(cursor, sink)
                break
            yield from cursor.expect(closing[-1])
            sink(closing.pop())
        else:
            return


def _key(cursor: Cursor, sink: Sink) -> Reading[None]:
    yield from json_string(cursor, sink)
    yield from cursor.space(sink)
    yield from cursor.expect(":")
    sink(":")
    yield from cursor.space(sink)


def json_arguments(cursor: Cursor, sink: Sink) -> Reading[None]:
    """Read the arguments of a call: an object."""
    if (yield from cursor.ahead()) != "{":
        raise Malformed
    yield from json_value(cursor, sink)


def _loaded(cursor: Cursor) -> Reading[Any]:
    """Read a value and what it is."""
    pieces: list[str] = []
    yield from json_value(cursor, pieces.append)
    return json.loads("".join(pieces))


def _lenient_arguments(cursor: Cursor, sink: Sink) -> Reading[None]:
    """Read the arguments of a call: an object, its text as a string, or null for none."""
    following = yield from cursor.ahead()
    if following == "{":
        yield from json_value(cursor, sink)
        return
    value = yield from _loaded(cursor)
    if isinstance(value, str):
        inner = Cursor()
        inner.feed(value.strip())
        inner.ended = True
        yield from json_arguments(inner, sink)
        if (yield from inner.ahead()):
            raise Malformed
    elif value is None:
        sink("{}")
    else:
        raise Malformed


def json_call(cursor: Cursor, out: Output, known: bool = False) -> Reading[None]:
    """Read a call that is an object: ``name``, ``arguments`` (or ``parameters``), ``id``, in any
    order; other members mean nothing. An object ``function`` may hold the first two."""
    name: str | None = None
    call_id = ""
    waiting: list[str] | None = None  # arguments that came before the name
    told = False

    def skip(text: str) -> None:
        pass

    nested = False
    yield from cursor.expect("{")
    yield from cursor.space()
    while True:
        pieces: list[str] = []
        yield from _key(cursor, pieces.append)
        key = json.loads("".join(pieces).rstrip().removesuffix(":"))
        if key == "function" and not nested and (yield from cursor.ahead()) == "{":
            nested = True
            cursor.take(1)
            yield from cursor.space()
            continue
        if key in ("name", "function") and name is None:
            name = yield from _loaded(cursor)
            if not isinstance(name, str):
                raise Malformed
            if waiting is not None:
                out.start(name, call_id, known)
                out.arguments("".join(waiting))
                told = True
        elif key in ("arguments", "parameters") and not told and waiting is None:
            if name is None:
                waiting = []
                yield from _lenient_arguments(cursor, waiting.append)
            else:
                out.start(name, call_id, known)
                told = True
                yield from _lenient_arguments(cursor, out.arguments)
        elif key in ("name", "arguments", "parameters"):
            raise Malformed
        elif key == "id":
            value = yield from _loaded(cursor)
            call_id = value if isinstance(value, str) and value.isprintable() else ""
        else:
            yield from json_value(cursor, skip)
        yield from cursor.space()
        if nested and (yield from cursor.found("}")):
            nested = False
            yield from cursor.space()
        if not (yield from cursor.found(",")):
            break
        yield from cursor.space()
    yield from cursor.expect("}")
    if nested:
        raise Malformed
    if name is None:
        raise Malformed
    if not told:
        out.start(name, call_id, known)
        out.arguments("{}")
    out.end(call_id[:64])


def json_calls(cursor: Cursor, out: Output, known: bool = False) -> Reading[None]:
    """Read one call, or several in an array."""
    if not (yield from cursor.found("[")):
        yield from json_call(cursor, out, known)
        return
    while True:
        yield from cursor.space()
        yield from json_call(cursor, out, known)
        yield from cursor.space()
        if not (yield from cursor.found(",")):
            break
    yield from cursor.found("]")  # the calls count without it
