"""The time zone that an ORC file was written in, which its times are relative to.

A time without a zone is kept as the seconds since the first moment of 2015 in the writer's zone, so
that readers show what the writer's clock showed. A reader that takes it for a moment, as Hudi's
do, needs the zone again. Arrow does not tell it. It is in the footer of every stripe; where the
stripes are is in the footer of the file, and where that is, at the file's very end.

Source: Apache ORC's specification v1 (file tail, stripe footer, compression).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from tideline.bounded import snappy
from tideline.bounded.parsing import decompress_bounded, faults_named
from tideline.bounded.read_limits import admit
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.protocol_buffer import read_message

_TAIL_BYTES = 16 * 1024
_CHUNK_HEADER_BYTES = 3
_PLAIN, _ZLIB, _SNAPPY, _ZSTD = 0, 1, 2, 5

# Fields of the postscript, of the footer, of what it says of a stripe, of a stripe's footer.
_FOOTER_BYTES, _COMPRESSION, _METADATA_BYTES = 1, 2, 5
_STRIPES = 3
_OFFSET, _INDEX_BYTES, _DATA_BYTES, _STRIPE_FOOTER_BYTES = 1, 2, 3, 4
_WRITER_ZONE = 3


@dataclass(frozen=True, slots=True)
class _Message:
    fields: tuple[tuple[int, int | bytes], ...]

    @classmethod
    def of(cls, body: bytes) -> _Message:
        return cls(tuple(read_message(body)))

    def number(self, name: int) -> int:
        found = next((value for field, value in self.fields if field == name), 0)
        if not isinstance(found, int):
            raise CorruptTableError("a field of an ORC footer is no number", value=name)
        return found

    def texts(self, name: int) -> Iterator[bytes]:
        return (value for field, value in self.fields if field == name and isinstance(value, bytes))


def writer_zones(stream: BinaryIO, *, path: object = None) -> tuple[str, ...]:
    """The zone of each stripe, by its name; "" where the writer did not say.

    Raises CorruptTableError naming `path` for what is no ORC file, UnsupportedTableError for a
    footer in a codec that is not read.
    """
    with faults_named("the footer of an ORC file is truncated or broken", path=path):
        size_bytes = stream.seek(0, os.SEEK_END)
        tail = _read(stream, max(0, size_bytes - _TAIL_BYTES), size_bytes)
        end = len(tail) - 1
        postscript = _Message.of(tail[end - tail[end] : end])
        codec = postscript.number(_COMPRESSION)
        footer_end = size_bytes - 1 - tail[end]
        footer_begin = footer_end - postscript.number(_FOOTER_BYTES)
        admit(footer_end - footer_begin, path=path)
        footer = _Message.of(_content(_read(stream, footer_begin, footer_end), codec))
        return tuple(_zone(stream, _Message.of(text), codec) for text in footer.texts(_STRIPES))


def _zone(stream: BinaryIO, stripe: _Message, codec: int) -> str:
    begin = sum(stripe.number(name) for name in (_OFFSET, _INDEX_BYTES, _DATA_BYTES))
    length = stripe.number(_STRIPE_FOOTER_BYTES)
    admit(length)
    footer = _Message.of(_content(_read(stream, begin, begin + length), codec))
    return next(footer.texts(_WRITER_ZONE), b"").decode()


def _read(stream: BinaryIO, begin: int, end: int) -> bytes:
    stream.seek(begin)
    body = stream.read(end - begin)
    if begin < 0 or len(body) != end - begin:
        raise CorruptTableError("an ORC file is cut short")
    return body


def _content(body: bytes, codec: int) -> bytes:
    """The content of a stream: chunks, each with its length and whether it is stored as it is."""
    if codec == _PLAIN:
        return body
    content, at = bytearray(), 0
    while at < len(body):
        header = int.from_bytes(body[at : at + _CHUNK_HEADER_BYTES], "little")
        at += _CHUNK_HEADER_BYTES
        chunk = body[at : at + (header >> 1)]
        at += len(chunk)
        content += chunk if header & 1 else _decompressed(chunk, codec)
        admit(len(content))
    return bytes(content)


def _decompressed(chunk: bytes, codec: int) -> bytes:
    if codec == _ZLIB:
        return decompress_bounded("deflate", chunk)
    if codec == _ZSTD:
        return decompress_bounded("zstandard", chunk)
    if codec == _SNAPPY:
        announced, _ = snappy.decompressed_bytes(chunk)
        admit(announced)
        return snappy.decompress(chunk)
    raise UnsupportedTableError(
        "the time zone of an ORC file is not read from a footer in this codec", value=codec
    )
