"""Reading a SentencePiece model file: a protocol buffer, ``ModelProto``.

Only the fields that say how a text is cut are read; a field that is not known is skipped, as the
format asks. Everything the file claims is checked against its size first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from clika_runtime.io._files import invalid, shown

from .spm import BYTE, NORMAL, SpmModel

__all__ = ["parse_model"]

_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE_TYPES = {_VARINT: "a number", _BYTES: "bytes", _FIXED32: "a float"}
_FLOAT = struct.Struct("<f")
_MAX_PIECES = 1 << 24


class _Reader:
    """The fields of one message inside ``data[begin:end]``."""

    def __init__(self, data: bytes, path: str) -> None:
        self.data = data
        self.path = path

    def varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end and shift < 70:
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, at
            shift += 7
        raise invalid(self.path, f"a number at byte {at - shift // 7} does not end")

    def fields(self, begin: int, end: int) -> Iterator[tuple[int, int, Any]]:
        """Field number, wire type and value; for bytes, the value is where they begin and end."""
        at = begin
        while at < end:
            start = at
            key, at = self.varint(at, end)
            number, wire = key >> 3, key & 7
            value: Any
            if wire == _VARINT:
                value, at = self.varint(at, end)
            elif wire in (_FIXED64, _FIXED32):
                value, at = at, at + (8 if wire == _FIXED64 else 4)
            elif wire == _BYTES:
                size, at = self.varint(at, end)
                value, at = (at, at + size), at + size
            else:
                raise invalid(self.path, f"the field at byte {start} has wire type {wire}")
            if at > end or number == 0:
                raise invalid(
                    self.path,
                    f"field {number} at byte {start} ends at byte {at}, its message at {end}",
                )
            yield number, wire, value

    def expect(self, name: str, wire: int, wanted: int) -> None:
        if wire != wanted:
            raise invalid(
                self.path, f"field '{name}' has wire type {wire}, expected {_WIRE_TYPES[wanted]}"
            )

    def text(self, name: str, span: tuple[int, int]) -> str:
        try:
            return self.data[span[0] : span[1]].decode()
        except UnicodeDecodeError as error:
            raise invalid(
                self.path,
                f"field '{name}' at byte {span[0]} is not UTF-8: "
                f"{shown(self.data[span[0] : span[1]])}",
            ) from error


def parse_model(data: bytes, path: str) -> SpmModel:
    """The model in the bytes of a file; ``path`` is what messages name.

    Errors: ``InvalidArgumentError`` naming file and field.
    """
    reader = _Reader(data, path)
    model = SpmModel()
    for number, wire, value in reader.fields(0, len(data)):
        if number == 1:
            reader.expect("pieces", wire, _BYTES)
            _read_piece(reader, value, model)
        elif number == 2:
            reader.expect("trainer_spec", wire, _BYTES)
            _read_trainer(reader, value, model)
        elif number == 3:
            reader.expect("normalizer_spec", wire, _BYTES)
            _read_normalizer(reader, value, model)
    if not model.tokens:
        raise invalid(path, "holds no pieces; it is not a SentencePiece model")
    return model


def _read_piece(reader: _Reader, span: tuple[int, int], model: SpmModel) -> None:
    data = reader.data
    begin, end = span
    index = len(model.tokens)
    if index >= _MAX_PIECES:
        raise invalid(reader.path, f"holds more than {_MAX_PIECES} pieces")
    token, score, kind = "", 0.0, NORMAL
    # The order in which SentencePiece writes the fields, in one look: large vocabularies load at
    # several pieces a microsecond less.
    size = data[begin + 1] if end - begin > 1 else 0xFF
    tail = begin + 2 + size
    if size < 0x80 and data[begin] == 0x0A and end - tail in (5, 7) and data[tail] == 0x15:
        token = reader.text(f"pieces[{index}].piece", (begin + 2, tail))
        score = _FLOAT.unpack_from(data, tail + 1)[0]
        if end - tail == 7:
            if data[tail + 5] != 0x18:
                raise invalid(reader.path, f"field 'pieces[{index}]' is damaged at byte {tail + 5}")
            kind = data[tail + 6]
    else:
        for number, wire, value in reader.fields(begin, end):
            if number == 1:
                reader.expect(f"pieces[{index}].piece", wire, _BYTES)
                token = reader.text(f"pieces[{index}].piece", value)
            elif number == 2:
                reader.expect(f"pieces[{index}].score", wire, _FIXED32)
                score = _FLOAT.unpack_from(data, value)[0]
            elif number == 3:
                reader.expect(f"pieces[{index}].type", wire, _VARINT)
                kind = value
    if not token:
        raise invalid(reader.path, f"field 'pieces[{index}].piece' is empty")
    if score - score != 0.0:
        raise invalid(reader.path, f"field 'pieces[{index}].score' is {score}")
    if not NORMAL <= kind <= BYTE:
        raise invalid(
            reader.path, f"field 'pieces[{index}].type' is {kind}, expected {NORMAL} to {BYTE}"
        )
    model.tokens.append(token)
    model.scores.append(score)
    model.types.append(kind)


def _read_trainer(reader: _Reader, span: tuple[int, int], model: SpmModel) -> None:
    names = {45: "unk", 46: "bos", 47: "eos", 48: "pad"}
    for number, wire, value in reader.fields(*span):
        if number == 3:
            reader.expect("trainer_spec.model_type", wire, _VARINT)
            if value not in _KINDS:
                raise invalid(
                    reader.path, f"field 'trainer_spec.model_type' is {value}, expected 1 to 4"
                )
            model.kind = _KINDS[value]
        elif number == 24:
            reader.expect("trainer_spec.treat_whitespace_as_suffix", wire, _VARINT)
            model.suffix = bool(value)
        elif number == 35:
            reader.expect("trainer_spec.byte_fallback", wire, _VARINT)
            model.byte_fallback = bool(value)
        elif number in names:
            name = f"trainer_spec.{names[number]}_piece"
            reader.expect(name, wire, _BYTES)
            model.names[names[number]] = reader.text(name, value)


def _read_normalizer(reader: _Reader, span: tuple[int, int], model: SpmModel) -> None:
    flags = {
        3: ("prefix", "add_dummy_prefix"),
        4: ("remove_extra", "remove_extra_whitespaces"),
        5: ("escape", "escape_whitespaces"),
    }
    for number, wire, value in reader.fields(*span):
        if number == 2:
            reader.expect("normalizer_spec.precompiled_charsmap", wire, _BYTES)
            model.charsmap = reader.data[value[0] : value[1]]
        elif number in flags:
            attribute, name = flags[number]
            reader.expect(f"normalizer_spec.{name}", wire, _VARINT)
            setattr(model, attribute, bool(value))
