"""Puffin files: blobs, and a footer of JSON that says what and where they are.

The footer ends the file: magic, payload, the payload's size, flags, magic. The first flag says that
the payload is compressed with LZ4.

Source: Iceberg's Puffin specification.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tideline.bounded.parsing import faults_named, parse_json
from tideline.bounded.read_limits import read_limits
from tideline.errors import CorruptTableError, UnsupportedTableError

MAGIC = b"PFA1"
_FOOTER_END_BYTES = 12
_IS_COMPRESSED = 1


@dataclass(frozen=True, slots=True)
class Blob:
    """One blob as the footer describes it."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None
    properties: Mapping[str, str]

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> Blob:
        return cls(
            type=content["type"],
            fields=tuple(content["fields"]),
            snapshot_id=content["snapshot-id"],
            sequence_number=content["sequence-number"],
            offset=content["offset"],
            length=content["length"],
            compression_codec=content.get("compression-codec"),
            properties=content.get("properties", {}),
        )


def read_blobs(body: bytes, *, path: str) -> tuple[Blob, ...]:
    """What the footer of a whole file lists. Raises CorruptTableError, UnsupportedTableError."""
    if len(body) < _FOOTER_END_BYTES + 8 or body[:4] != MAGIC or body[-4:] != MAGIC:
        raise CorruptTableError("not a Puffin file", path=path)
    size, flags = struct.unpack("<iI", body[-_FOOTER_END_BYTES:-4])
    payload = body[-_FOOTER_END_BYTES - size : -_FOOTER_END_BYTES]
    if flags & ~_IS_COMPRESSED:
        raise UnsupportedTableError("a Puffin file has unknown flags", path=path, value=flags)
    if size < 0 or size > len(body) - _FOOTER_END_BYTES:
        raise CorruptTableError(
            "a Puffin file's footer is longer than the file", path=path, value=size
        )
    with faults_named("a Puffin file's footer cannot be read", path=path, also=(OSError,)):
        if flags & _IS_COMPRESSED:
            with pa.input_stream(pa.BufferReader(payload), compression="lz4") as stream:
                payload = stream.read(read_limits().object_bytes_max + 1)
        return tuple(Blob.parse(blob) for blob in parse_json(payload, path=path)["blobs"])


def encode_puffin(
    blobs: Sequence[tuple[Blob, bytes]], *, created_by: str
) -> tuple[bytes, tuple[Blob, ...]]:
    """A file of uncompressed blobs, and the blobs with their places in it."""
    parts, placed, at = [MAGIC], [], len(MAGIC)
    for blob, content in blobs:
        placed.append(replace(blob, offset=at, length=len(content), compression_codec=None))
        parts.append(content)
        at += len(content)
    footer = {
        "blobs": [_json(blob) for blob in placed],
        "properties": {"created-by": created_by},
    }
    payload = json.dumps(footer, separators=(",", ":")).encode()
    parts += [MAGIC, payload, struct.pack("<iI", len(payload), 0), MAGIC]
    return b"".join(parts), tuple(placed)


def _json(blob: Blob) -> dict[str, Any]:
    content: dict[str, Any] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.compression_codec is not None:
        content["compression-codec"] = blob.compression_codec
    if blob.properties:
        content["properties"] = dict(blob.properties)
    return content
