"""Calls written as Python: ``name(key=value)``, read while they arrive and told as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from .cursor import Cursor, Malformed, Reading
from .grammar import GrammarWriter, property_schema
from .json_text import JSON_NUMBER, MAX_DEPTH
from .members import call_members, separated
from .output import Output
from .toolset import Tool

__all__ = ["python_argument", "python_call", "python_calls", "python_value"]

MAX_STRING = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_WORD = re.compile(r"[A-Za-z0-9_]+")
_NUMERIC = re.compile(r"[-+.0-9A-Za-z_]+")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_WORDS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "0": "\0",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "/": "/",
    "\n": "",
}
_CODES = {"x": 2, "u": 4, "U": 8}
_PLAIN = {quote: re.compile(rf"[^{quote}\\\n]+") for quote in ("'", '"')}


def python_calls(cursor: Cursor, out: Output, known: bool = False) -> Reading[None]:
    """Read calls in a list, whose bracket has been read."""
    while True:
        yield from cursor.space()
        yield from python_call(cursor, out, known)
        yield from cursor.space()
        if not (yield from cursor.found(",")):
            break
    yield from cursor.found("]")


def python_call(cursor: Cursor, out: Output, known: bool = False) -> Reading[None]:
    """Read one call, its arguments by name."""
    name = yield from cursor.run(_NAME)
    yield from cursor.expect("(")
    out.start(name.removesuffix(".call"), "", known)

    def key() -> Reading[str]:
        word = yield from cursor.run(_WORD)
        yield from cursor.space()
        yield from cursor.expect("=")
        yield from cursor.space()
        return word

    yield from call_members(cursor, out, ")", key, lambda: python_value(cursor))


def python_value(cursor: Cursor, depth: int = 0) -> Reading[str]:
    """Read a literal; its JSON text. Tuples are arrays, keys are strings."""
    if depth > MAX_DEPTH:
        raise Malformed
    following = yield from cursor.ahead()
    if following in ("'", '"'):
        text = yield from _string(cursor, following)
        return json.dumps(text, ensure_ascii=False)
    if following in ("[", "("):
        cursor.take(1)
        items = yield from _items(cursor, "]" if following == "[" else ")", depth)
        return f"[{', '.join(items)}]"
    if following == "{":
        cursor.take(1)
        items = yield from _items(cursor, "}", depth)
        return f"{{{', '.join(items)}}}"
    word = yield from cursor.run(_NUMERIC, 400)
    if word in _WORDS:
        return _WORDS[word]
    if not any(letter.isdigit() for letter in word) or _NUMBER.fullmatch(word) is None:
        raise Malformed
    return _number(word)


def _number(word: str) -> str:
    if JSON_NUMBER.fullmatch(word) is not None:
        return word
    try:
        plain = word.replace("_", "")
        value = float(plain) if set(plain) & set(".eE") else int(plain)
        return json.dumps(value, allow_nan=False)
    except (ValueError, OverflowError):
        raise Malformed from None


def _items(cursor: Cursor, end: str, depth: int) -> Reading[list[str]]:
    items: list[str] = []

    def item() -> Reading[None]:
        key = ""
        if end == "}":
            quote = yield from cursor.ahead()
            if quote not in ("'", '"'):
                raise Malformed
            name = yield from _string(cursor, quote)
            key = f"{json.dumps(name, ensure_ascii=False)}: "
            yield from cursor.space()
            yield from cursor.expect(":")
            yield from cursor.space()
        value = yield from python_value(cursor, depth + 1)
        items.append(key + value)

    yield from separated(cursor, end, item)
    return items


def _string(cursor: Cursor, quote: str) -> Reading[str]:
    cursor.take(1)
    pieces: list[str] = []
    while True:
        plain = cursor.here(_PLAIN[quote])
        if plain:
            pieces.append(plain)
        following = yield from cursor.ahead()
        if following == quote:
            cursor.take(1)
            # Two escapes may be the halves of one character, as in JSON.
            return (
                "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            )
        if following == "\\":
            piece = yield from _escape(cursor)
            pieces.append(piece)
        elif following in ("", "\n"):
            raise Malformed


def _escape(cursor: Cursor) -> Reading[str]:
    text = yield from cursor.ahead(2)
    letter = text[1:]
    if letter in _CODES:
        text = yield from cursor.ahead(2 + _CODES[letter])
        digits = text[2:]
        good = len(digits) == _CODES[letter] and all(d in "0123456789abcdefABCDEF" for d in digits)
        if not good or int(digits, 16) > 0x10FFFF:
            raise Malformed
        cursor.take(len(text))
        return chr(int(digits, 16))
    if not letter:
        raise Malformed
    cursor.take(2)
    return _ESCAPES.get(letter, text)


def python_argument(tool: Tool, grammar: GrammarWriter) -> str:
    """The Lark expression of a call with its arguments by name.

    Booleans and None are Python's words; within lists and dicts they are JSON's, which
    `python_value` reads too.
    """

    def item(name: str) -> str:
        if _WORD.fullmatch(name) is None:
            grammar.refuse(tool, f"the argument {name!r:.80} is no name in Python")
        schema = property_schema(tool, name)
        kind = schema.get("type") if isinstance(schema, Mapping) else None
        if kind == "boolean" and not {"enum", "const"} & set(schema):  # type: ignore[arg-type]
            value = '("True" | "False")'
        elif kind == "null":
            value = '"None"'
        else:
            value = grammar.json(schema)
        return f"{grammar.text(name + '=')} {value}"

    begin = grammar.text(f"{grammar.name(tool)}(")
    return f'{begin} {grammar.members(tool, item, ", ")} ")"'
