"""Masks by classes of tokens: those that an expression cannot tell apart are looked at as one.

An expression such as ``([A-Z][a-z]{1,12} ){300}`` asks of a byte whether it is a capital, a small
letter or a space, and nothing else: bytes of one class lead from any state to the same one. So do
tokens whose bytes are of the same classes in the same order, and one of them stands for all.
SmolLM2 has 49,152 tokens and 1,226 such classes of them. What a state admits of these is the key of
a whole mask that was made before, for another count or another reply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clika_runtime.errors import InvalidArgumentError

from .library import Vocabulary, compile_over, native_vocabulary
from .spec import ConstraintSpec

__all__ = ["ClassState", "TokenClasses", "byte_classes", "class_state"]

#: Tokens that a class must have on average, so that looking at classes pays.
LEAST = 8
#: Characters of an expression that is looked at.
LONGEST = 4096
#: Whole masks that are kept for one partition of a vocabulary.
KEPT_MASKS = 64

# The syntax whose sets of characters are understood; of other expressions nothing is said. Flags,
# nested sets, operations of sets and properties of characters are not among it.
_PIECE = re.compile(
    r"\[\^?(?P<set>(?:\\.|[^\[\]\\&~])+)\]"
    r"|(?P<count>\{\d{1,9}(?:,\d{0,9})?\})"
    r"|(?P<mark>\((?:\?:|(?!\?))|[)|*+?])"
    r"|(?P<one>\\.|[^\\\[\]{}()*+?|^$])",
    re.DOTALL,
)
_RANGE = re.compile(r"(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^\\]))?", re.DOTALL)
_ASCII = 128
_DIGITS = frozenset(b"0123456789")
_LETTERS = frozenset(code for code in range(_ASCII) if chr(code).isalpha())
_SETS: dict[str, frozenset[int]] = {
    "d": _DIGITS,
    "w": _DIGITS | _LETTERS | {ord("_")},
    "s": frozenset(b"\t\n\v\f\r "),
}
_SETS.update({name.upper(): frozenset(range(_ASCII)) - named for name, named in _SETS.items()})
_CONTROLS = dict(zip("tnvfr", b"\t\n\v\f\r", strict=True))


def byte_classes(expression: str) -> bytes | None:
    """For each byte the one that stands for its class: 256 bytes. None where the expression's
    syntax is not understood, and where it is long.

    Bytes from 128 on are classes of their own.

    >>> byte_classes("[a-c]{2,9}x")[ord("b")] == ord("a")
    True
    """
    if len(expression) > LONGEST:
        return None
    sets: set[frozenset[int]] = set()
    at = 0
    while at < len(expression):
        piece = _PIECE.match(expression, at)
        if piece is None:
            return None
        at = piece.end()
        if piece["count"]:
            continue
        found = [] if piece["mark"] else _characters(piece["set"], piece["one"])
        if found is None:
            return None
        sets.update(found)
    table = list(range(256))
    first: dict[tuple[bool, ...], int] = {}
    for byte in range(_ASCII):
        table[byte] = first.setdefault(tuple(byte in one for one in sets), byte)
    return bytes(table)


def _characters(inside: str | None, one: str | None) -> list[frozenset[int]] | None:
    """The sets of ASCII characters that a class or a single character asks about."""
    if one == ".":
        return [frozenset(b"\n")]
    union: set[int] = set()
    text = one if inside is None else inside
    assert text is not None
    if inside is not None and "--" in inside:  # a difference of sets
        return None
    for item in _RANGE.finditer(text):
        named = _SETS.get(item["first"][1:])
        if named is not None and item["last"] is None:
            union |= named
            continue
        first = _code(item["first"])
        last = first if item["last"] is None else _code(item["last"])
        if first is None or last is None:
            return None
        union.update(range(first, min(last + 1, _ASCII)))
    return [frozenset(union)]


def _code(text: str) -> int | None:
    """The code of a character, or of one behind a backslash."""
    letter = text[-1]
    if len(text) == 1:
        return ord(letter)
    if letter in _CONTROLS:
        return _CONTROLS[letter]
    # Other letters and digits, and < and > too, have meanings of their own.
    known = letter.isascii() and not letter.isalnum() and letter not in "<>"
    return ord(letter) if known else None


class TokenClasses:
    """The tokens of a vocabulary by classes of their bytes.

    ``of`` has the class of each token, ``native`` is the library's vocabulary of the tokens that
    stand for them. Special tokens are classes of their own."""

    def __init__(self, vocabulary: Vocabulary, table: bytes) -> None:
        tokens = vocabulary.tokens
        number: dict[bytes | int, int] = {}
        self.of: NDArray[np.int32] = np.empty(len(tokens), np.int32)
        standing: list[bytes] = []
        for index, token in enumerate(tokens):
            key = index if index in vocabulary.special else token.translate(table)
            found = number.setdefault(key, len(standing))
            if found == len(standing):
                standing.append(token)
            self.of[index] = found
        self.count = len(standing)
        special = sorted(number[index] for index in vocabulary.special)
        ends = [number[index] for index in vocabulary.native_ends]
        bytewise = {token: index for index, token in enumerate(standing) if len(token) == 1}

        def encode(data: bytes) -> list[int]:
            single = (data[place : place + 1] for place in range(len(data)))
            return [bytewise[byte] for byte in single if byte in bytewise]

        self.native = native_vocabulary(standing, special, ends, None, encode, slices=[])
        self._masks: dict[bytes, NDArray[np.int32]] = {}

    def widened(self, key: bytes) -> NDArray[np.int32]:
        """The mask over all tokens, from the bits of a mask over the classes."""
        found = self._masks.get(key)
        if found is None:
            bits = np.unpackbits(np.frombuffer(key, np.uint8), bitorder="little")[self.of]
            found = np.zeros((len(bits) + 31) // 32, np.int32)
            packed = np.packbits(bits, bitorder="little")
            found.view(np.uint8)[: len(packed)] = packed
            found.flags.writeable = False
            if len(self._masks) >= KEPT_MASKS:
                self._masks.clear()
            self._masks[key] = found
        return found


def class_state(vocabulary: Vocabulary, spec: ConstraintSpec) -> ClassState | None:
    """A constraint's state at the start of a text; None where classes would not help it."""
    table = byte_classes(spec.text) if spec.kind == "regex" else None
    if table is None:
        return None
    classes: TokenClasses = vocabulary.kept(table, lambda: TokenClasses(vocabulary, table))
    if classes.count * LEAST > len(vocabulary.tokens):
        return None
    try:
        return ClassState(classes, compile_over(classes.native, spec))
    except InvalidArgumentError:  # over the bounds, within which the other matcher was
        return None


class ClassState:
    """A state of a constraint in its classes of tokens. It is told tokens at once and goes on by
    them when it is asked. ``matcher`` is the library's; None where it could not follow."""

    __slots__ = ("_behind", "_classes", "_matcher")

    def __init__(self, classes: TokenClasses, matcher: Any, behind: Sequence[int] = ()) -> None:
        self._classes = classes
        self._matcher = matcher
        self._behind = list(behind)

    def accept(self, token: int) -> None:
        """A token that the constraint admitted."""
        self._behind.append(token)

    def rollback(self, count: int) -> None:
        """Takes the last tokens back."""
        waiting = min(count, len(self._behind))
        del self._behind[len(self._behind) - waiting :]
        further = count - waiting
        if further and self._matcher is not None and not self._matcher.rollback(further):
            self._matcher = None

    def fork(self) -> ClassState:
        """A second state at the same place."""
        matcher = None if self._matcher is None else self._matcher.deep_copy()
        return ClassState(self._classes, matcher, self._behind)

    def mask(self) -> NDArray[np.int32] | None:
        """Which tokens may come next, read-only. None where the text that follows is forced: then
        its spelling decides, which classes know nothing of. None as well where the library's bounds
        were passed."""
        matcher = self._matcher
        if matcher is None:
            return None
        if self._behind:
            of = self._classes.of.item
            told = [of(token) for token in self._behind]
            self._behind.clear()
            if matcher.try_consume_tokens(told) != len(told):
                self._matcher = None
                return None
        if matcher.compute_ff_bytes():
            return None
        key = matcher.compute_bitmask()
        if matcher.is_error():
            self._matcher = None
            return None
        return self._classes.widened(key)
