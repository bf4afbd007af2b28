"""Text out of a stream of token ids, never half a character."""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from clika_runtime.errors import InvalidArgumentError

__all__ = ["StreamingDecoder", "byte_alphabet", "make_decoder"]

_BYTE_TOKEN = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_MAX_ID = (1 << 32) - 1


def byte_alphabet() -> dict[str, int]:
    """The letters that byte-level tokens are spelled with, and the byte each stands for.

    Printable characters of Latin-1 stand for themselves; the other bytes are numbered from U+0100
    on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    for offset, byte in enumerate(others):
        letters[chr(0x100 + offset)] = byte
    return letters


_LETTERS = byte_alphabet()


def token_bytes(token: str) -> bytes:
    """The bytes of a byte-level token. A token with a letter outside the alphabet is its own
    UTF-8."""
    try:
        return bytes([_LETTERS[letter] for letter in token])
    except KeyError:
        return token.encode()


class StreamingDecoder(ABC):
    """Decodes ids one at a time: ``push(id)`` returns the newly stable text, which may be empty.

    The pieces, ``finish()`` included, add up to what ``Tokenizer.decode`` gives for the same ids. A
    code point that spans several tokens is held back until it is complete. ``finish()`` flushes
    what is held and resets the decoder. One decoder serves one stream at a time; it stays valid
    without its tokenizer.
    """

    @abstractmethod
    def push(self, token_id: int) -> str:
        """Take the next id and return the text that is now certain."""

    @abstractmethod
    def finish(self) -> str:
        """Return the text still held back (an incomplete sequence as U+FFFD) and start afresh."""


def _checked_id(token_id: Any) -> int:
    try:
        value = int(token_id.__index__())
    except (AttributeError, TypeError):
        raise InvalidArgumentError(
            f"push: a token id must be an int, found {type(token_id).__name__}"
        ) from None
    if not 0 <= value <= _MAX_ID:
        raise InvalidArgumentError(f"push: a token id must be 0 to {_MAX_ID}, found {value}")
    return value


class _ByteLevelDecoder(StreamingDecoder):
    """For byte-level vocabularies: a token is bytes, so decoding is incremental UTF-8."""

    def __init__(self, surface: Callable[[int], str | None], skipped: frozenset[int]) -> None:
        self._surface = surface
        self._skipped = skipped
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        index = _checked_id(token_id)
        if index in self._skipped:
            return ""
        token = self._surface(index)
        return "" if token is None else self._utf8.decode(token_bytes(token))

    def finish(self) -> str:
        text = self._utf8.decode(b"", True)
        self._utf8.reset()
        return text


class _WindowDecoder(StreamingDecoder):
    """For every other vocabulary: decode a short window again and return what is new.

    The text of a token may depend on the token before it (a dropped leading space, a run of byte
    tokens), so the window keeps the tokens of the last piece as context.
    """

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        surface: Callable[[int], str | None],
        skipped: frozenset[int],
    ) -> None:
        self._decode = decode
        self._surface = surface
        self._skipped = skipped
        self._window: list[int] = []
        self._context = 0  # leading ids of the window whose text is out already
        self._shown = ""  # the text of those ids

    def push(self, token_id: int) -> str:
        index = _checked_id(token_id)
        if index in self._skipped:
            return ""
        token = self._surface(index)
        if token is None:
            return ""
        self._window.append(index)
        if _BYTE_TOKEN.fullmatch(token):
            return ""  # the whole run decides whether its bytes are text
        text = self._decode(self._window)
        if text.endswith("\N{REPLACEMENT CHARACTER}") or not text.startswith(self._shown):
            return ""
        piece = text[len(self._shown) :]
        if piece:
            del self._window[: self._context]
            self._context = len(self._window)
            self._shown = self._decode(self._window)
        return piece

    def finish(self) -> str:
        text = self._decode(self._window) if self._window else ""
        piece = text[len(self._shown) :] if text.startswith(self._shown) else ""
        self._window = []
        self._context = 0
        self._shown = ""
        return piece


def make_decoder(
    *,
    byte_level: bool,
    decode: Callable[[list[int]], str],
    surface: Callable[[int], str | None],
    skipped: frozenset[int],
) -> StreamingDecoder:
    """The decoder that fits the vocabulary. ``skipped`` ids give no text."""
    if byte_level:
        return _ByteLevelDecoder(surface, skipped)
    return _WindowDecoder(decode, surface, skipped)
