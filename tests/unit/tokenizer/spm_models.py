"""SentencePiece models for tests: trained on the spot, or written field by field."""

from __future__ import annotations

import io
import random
import struct
from functools import lru_cache
from typing import Any

import sentencepiece

from tests.unit.tokenizer.corpus import texts

__all__ = ["field", "model_bytes", "piece", "trained"]


def _sentences() -> list[str]:
    """Words of the corpus, some more often than others."""
    rng = random.Random(3)
    words = [word for text in texts(120) for word in text.split()]
    return [" ".join(rng.choices(words, k=rng.randint(1, 14))) for _ in range(3000)]


@lru_cache(maxsize=64)
def trained(kind: str, options: tuple[tuple[str, Any], ...] = ()) -> bytes:
    """The bytes of a small model: ``kind`` is "bpe" or "unigram", ``options`` are the trainer's."""
    made = io.BytesIO()
    settings: dict[str, Any] = {
        "vocab_size": 700,
        "hard_vocab_limit": False,
        "character_coverage": 0.98,
        "minloglevel": 4,
        **{key: list(v) if isinstance(v, tuple) else v for key, v in options},
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_sentences()), model_writer=made, model_type=kind, **settings
    )
    return made.getvalue()


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


def field(number: int, value: int | float | bytes) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    return _varint(number << 3) + _varint(value)


def piece(token: str | bytes, score: float = 0.0, kind: int = 1) -> bytes:
    data = token if isinstance(token, bytes) else token.encode()
    return field(1, field(1, data) + field(2, score) + field(3, kind))


def model_bytes(
    *pieces: bytes,
    kind: int = 2,
    byte_fallback: bool = False,
    prefix: bool = False,
    extra: bool = False,
    charsmap: bytes = b"",
) -> bytes:
    """A model of pieces; ``kind`` 1 is unigram, 2 BPE. Unknown token and markers come first."""
    head = piece("<unk>", 0.0, 2) + piece("<s>", 0.0, 3) + piece("</s>", 0.0, 3)
    trainer = field(3, kind) + field(35, int(byte_fallback))
    normalizer = field(3, int(prefix)) + field(4, int(extra)) + field(5, 1)
    if charsmap:
        normalizer += field(2, charsmap)
    return head + b"".join(pieces) + field(2, trainer) + field(3, normalizer)
