"""Puffin files and deletion vectors, as other engines write them."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from pyroaring import BitMap64

from tideline.iceberg.data.deletion_vector import MAGIC as VECTOR_MAGIC
from tideline.iceberg.data.deletion_vector import Positions
from tideline.iceberg.data.puffin import MAGIC, Blob


def encode_deletion_vector(positions: Positions) -> bytes:
    """The blob of ascending, distinct positions."""
    bitmap = BitMap64(array("Q", positions.tobytes()))
    bitmap.run_optimize()
    body = VECTOR_MAGIC + bitmap.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", crc32(body))


def encode_puffin(
    blobs: Sequence[tuple[Blob, bytes]], *, created_by: str
) -> tuple[bytes, tuple[Blob, ...]]:
    """A file of uncompressed blobs, and the blobs with their places in it."""
    parts, placed, at = [MAGIC], [], len(MAGIC)
    for blob, content in blobs:
        placed.append(
            Blob(
                blob.type,
                blob.fields,
                blob.snapshot_id,
                blob.sequence_number,
                at,
                len(content),
                None,
                blob.properties,
            )
        )
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
