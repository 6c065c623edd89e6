"""Archived instants as log blocks: HoodieArchivedMetaEntry records, as Hudi writes them.

A block is AVRO_DATA with the single header SCHEMA.
Source: Hudi's TimelineArchiverV1.writeToFile, HoodieAvroDataBlock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tideline.formats.avro import admit_records, decode_records, encode_records, schema
from tideline.formats.log_block import (
    BlockFrame,
    BlockKind,
    HeaderKey,
    encode_avro_content,
    encode_block,
    read_frames,
    split_avro_content,
)


def encode_archive_block(entries: Sequence[Mapping[str, Any]]) -> bytes:
    """One log block of entries.

    Fields left out get the schema's default, fields unknown to it are dropped: Hudi's commit
    metadata has some that its archive does not keep.
    """
    content = encode_avro_content(encode_records(_schema_json(), entries))
    return encode_block(BlockKind.AVRO_DATA, {HeaderKey.SCHEMA: _schema_json()}, content)


def read_archive_frames(body: bytes, *, path: object = None) -> tuple[BlockFrame, ...]:
    """The blocks of an archive file in memory. Raises as `read_frames`."""

    def read_range(offset: int, length: int) -> bytes:
        return body[offset : offset + length]

    return read_frames(read_range, len(body), path=path)


def decode_archive_block(
    body: bytes, frame: BlockFrame, *, path: object = None
) -> list[dict[str, Any]]:
    """The entries of one block of the file `body`, read with the schema in its header.

    Entries of older Hudi versions have fewer fields; a damaged or foreign block has no entries.
    Raises CorruptTableError naming `path`.
    """
    if frame.kind is not BlockKind.AVRO_DATA:
        return []
    content = body[frame.content_offset : frame.content_offset + frame.content_size_bytes]
    datums = split_avro_content(content, path=path)
    schema_json = frame.headers.get(HeaderKey.SCHEMA, "")
    admit_records(schema_json, datums, path=path)
    return decode_records(schema_json, datums, path=path)


@cache
def _schema_json() -> str:
    return json.dumps(schema("HoodieArchivedMetaEntry"), separators=(",", ":"))
