"""Loops that notations share: items with commas between them, and arguments by name."""

from __future__ import annotations

import json
from collections.abc import Callable

from .cursor import Cursor, Malformed, Reading
from .output import Output

__all__ = ["call_members", "separated"]


def separated(cursor: Cursor, end: str, item: Callable[[], Reading[None]]) -> Reading[None]:
    """Read items with commas between them, up to ``end``; a comma may stand behind the last."""
    while True:
        yield from cursor.space()
        if (yield from cursor.found(end)):
            return
        yield from item()
        yield from cursor.space()
        if not (yield from cursor.found(",")):
            yield from cursor.expect(end)
            return


def call_members(
    cursor: Cursor,
    out: Output,
    end: str,
    key: Callable[[], Reading[str]],
    value: Callable[[], Reading[str]],
) -> Reading[None]:
    """Read the arguments of a call up to ``end`` and tell them as one JSON object, each when it is
    complete. ``key`` reads a name and what stands behind it, ``value`` a value as JSON. `Malformed`
    for a name that is empty or comes again."""
    seen: set[str] = set()

    def member() -> Reading[None]:
        name = yield from key()
        if not name or name in seen:
            raise Malformed
        text = yield from value()
        separator = ", " if seen else ""
        seen.add(name)
        out.arguments(f"{separator}{json.dumps(name, ensure_ascii=False)}: {text}")

    out.arguments("{")
    yield from separated(cursor, end, member)
    out.arguments("}")
    out.end()
