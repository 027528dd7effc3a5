"""Serialized SentencePiece models: the fields of sentencepiece_model.proto, read and written without protobuf."""

from __future__ import annotations

import struct
from collections.abc import Iterator

# Fields of ModelProto, of its pieces, and of its trainer's and normalizer's options.
PIECES, TRAINER, NORMALIZER = 1, 2, 3
PIECE, SCORE, TYPE = 1, 2, 3
MODEL_TYPE, VOCABULARY_SIZE, SPACE_IS_SUFFIX = 3, 4, 24
ESCAPE_SPACES = 5
# Types of pieces and of models.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
UNIGRAM, BPE = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


def piece_field(text: str, score: float, kind: int = NORMAL) -> bytes:
    """Return a piece of a vocabulary."""
    content = bytes_field(PIECE, text.encode()) + _key(SCORE, _FIXED32) + struct.pack("<f", score)
    return bytes_field(PIECES, content if kind == NORMAL else content + number_field(TYPE, kind))


def number_field(number: int, value: int) -> bytes:
    """Return a field with a whole number."""
    return _key(number, _VARINT) + _varint(value)


def bytes_field(number: int, content: bytes) -> bytes:
    """Return a field with bytes, a text or a message."""
    return _key(number, _BYTES) + _varint(len(content)) + content


def piece_types(model: bytes) -> list[int]:
    """Return the type of each piece, in the order of ids, of a model that SentencePiece has parsed."""
    return [
        next((value for key, value in _fields(piece) if key == TYPE and isinstance(value, int)), NORMAL)
        for number, piece in _fields(model)
        if number == PIECES and isinstance(piece, bytes)
    ]


def whole_numbers(model: bytes, section: int) -> dict[int, int]:
    """Return the whole numbers of a section, `TRAINER` for instance, of a model that SentencePiece has parsed."""
    options: dict[int, int] = {}
    for number, message in _fields(model):
        if number == section and isinstance(message, bytes):
            options |= {key: value for key, value in _fields(message) if isinstance(value, int)}
    return options


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        kind = key & 7
        if kind == _VARINT:
            value, place = _read_varint(message, place)
            yield key >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if size is None:
            size, place = _read_varint(message, place)
        yield key >> 3, message[place : place + size]
        place += size


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are in two's complement
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
