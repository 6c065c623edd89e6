"""Protocol buffers, read without their definitions: fields by number.

Only numbers and what has a length: HFiles say with these where their parts are, ORC files likewise.
Source: the description of the encoding in protobuf's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.errors import CorruptTableError


def read_message(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message. Raises CorruptTableError for one cut short, or of another kind."""
    at = 0
    while at < len(body):
        tag, at = read_varint(body, at)
        kind = tag & 7
        if kind == 0:
            number, at = read_varint(body, at)
            yield tag >> 3, number
        elif kind == 2:
            length, at = read_varint(body, at)
            if at + length > len(body):
                raise CorruptTableError("a field of a protocol buffer is cut short")
            yield tag >> 3, body[at : at + length]
            at += length
        else:
            raise CorruptTableError("a field of a protocol buffer is of another kind", value=kind)


def read_varint(body: bytes, at: int) -> tuple[int, int]:
    """The number at a position, and where it ends. Raises CorruptTableError for one without end."""
    value = shift = 0
    while shift < 70:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
    raise CorruptTableError("a number of a protocol buffer has no end")
