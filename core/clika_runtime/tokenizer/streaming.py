"""Text out of a stream of token ids, never half a character."""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from clika_runtime.errors import InvalidArgumentError

__all__ = ["Spelling", "StreamingDecoder", "byte_alphabet", "byte_level", "make_decoder"]

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


@dataclass(frozen=True)
class Spelling:
    """How ids become text where every token is a string of bytes.

    ``bytes_of(id)`` are the bytes of a token, None for an id that the vocabulary lacks. The text is
    their UTF-8; what is broken is U+FFFD, once for every byte with ``per_byte`` (SentencePiece),
    else once for every broken sequence (byte-level BPE). ``space_led(id)`` says that a token begins
    with a space which is dropped at the start of a text: the space that encoding sets there.
    ``every_space`` drops the spaces of leading tokens until one has more than that.
    """

    bytes_of: Callable[[int], bytes | None]
    space_led: Callable[[int], bool] | None = None
    every_space: bool = False
    per_byte: bool = False

    def text(self, ids: Iterable[int], skipped: frozenset[int]) -> str:
        """The text of all ids but the ``skipped`` ones."""
        decoder = _SpellingDecoder(self, skipped)
        return decoder.decode(b"".join(map(decoder.take, ids)), True)


def byte_level(surface: Callable[[int], str | None]) -> Spelling:
    """The spelling of byte-level vocabularies. ``surface(id)`` is the token in their letters."""

    def bytes_of(index: int) -> bytes | None:
        token = surface(index)
        return None if token is None else token_bytes(token)

    return Spelling(bytes_of)


_ESCAPED = re.compile("[\udc80-\udcff]")


class _SpellingDecoder(StreamingDecoder):
    """Incremental UTF-8 over the bytes of the tokens."""

    def __init__(self, spelling: Spelling, skipped: frozenset[int]) -> None:
        self._spelling = spelling
        self._skipped = skipped
        self._dropping = spelling.space_led is not None
        errors = "surrogateescape" if spelling.per_byte else "replace"
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors)

    def take(self, index: int) -> bytes:
        """The bytes that the next id adds to the text."""
        if index in self._skipped:
            return b""
        data = self._spelling.bytes_of(index)
        if not data:
            return b""
        if self._dropping:
            led = self._spelling.space_led is not None and self._spelling.space_led(index)
            data = data[1:] if led else data
            self._dropping = led and not data and self._spelling.every_space
        return data

    def decode(self, data: bytes, final: bool) -> str:
        text = self._utf8.decode(data, final)
        return _ESCAPED.sub("\N{REPLACEMENT CHARACTER}", text) if self._spelling.per_byte else text

    def push(self, token_id: int) -> str:
        return self.decode(self.take(_checked_id(token_id)), False)

    def finish(self) -> str:
        text = self.decode(b"", True)
        self._utf8.reset()
        self._dropping = self._spelling.space_led is not None
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
    spelling: Spelling | None,
    decode: Callable[[list[int]], str],
    surface: Callable[[int], str | None],
    skipped: frozenset[int],
) -> StreamingDecoder:
    """The decoder that fits the vocabulary. ``skipped`` ids give no text."""
    if spelling is not None:
        return _SpellingDecoder(spelling, skipped)
    return _WindowDecoder(decode, surface, skipped)
