"""Records of the metadata table as they are stored: in HFiles, and in blocks of logs.

All partitions have one schema and one format. A record has a key, a type and the one field of that
type. The stored field `key` is empty: the key is that of the HFile's entry. A key that nothing is
said of any more is in a block of deletes.

Source: Hudi's HoodieMetadataPayload, HoodieMetadataRecord, HoodieTableMetadataUtil (1.2).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.avro import (
    admit_records,
    decode_record,
    decode_records,
    encode_records,
    schema,
)
from tideline.formats.hfile import (
    decode_hfile,
    encode_hfile,
    entry_count,
    info_at,
    read_trailer,
)
from tideline.formats.hfile_lookup import HFileLookup
from tideline.formats.hfile_splice import splice_hfile
from tideline.formats.log_block import (
    BlockKind,
    encode_delete_content,
    split_avro_content,
    split_delete_content,
)

_SCHEMA_NAME = "HoodieMetadataRecord"
_SCHEMA = "schema"
BLOCK_BYTES_MAX = 64 * 1024
"""Smaller than Hudi's blocks: a lookup reads whole ones, and keys are spread over them."""


@dataclass(frozen=True, slots=True)
class KeyPrefixes:
    """All keys that begin with one of some texts."""

    prefixes: tuple[str, ...]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.startswith(self.prefixes)


WantedKeys = Collection[str] | KeyPrefixes


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """What a partition says of one key: its content, as a record or as it is stored, or that the
    key is deleted, where it has neither.

    `datum` is what is stored in the schema `written_as`. `path` is where the record was read.
    `shard` is the part of the partition that it belongs to, where one keeps keys apart; a record
    without a key says nothing, and makes the file groups of its shard where there are none.
    """

    key: str
    said: Mapping[str, Any] | None = field(default=None, hash=False)
    path: object = field(default=None, compare=False)
    datum: bytes | None = None
    written_as: str | None = field(default=None, compare=False, repr=False)
    shard: str | None = None

    @property
    def is_deleted(self) -> bool:
        return self.said is None and self.datum is None

    @property
    def content(self) -> Mapping[str, Any] | None:
        """`type` and the field of that type; None where the key is deleted.

        Raises CorruptTableError for what does not fit its schema.
        """
        if self.said is not None or self.datum is None:
            return self.said
        schema_json = self.written_as or record_schema_json()
        return decode_record(schema_json, self.datum, path=self.path, names_records=True)

    @property
    def current_datum(self) -> bytes | None:
        """As it is stored, where that is in the schema of this module."""
        is_current = self.written_as in (None, record_schema_json())
        return self.datum if is_current else None


@cache
def record_schema_json() -> str:
    """The Avro schema that records are written with: all kinds of records, and meta columns."""
    return json.dumps(schema(_SCHEMA_NAME), separators=(",", ":"))


def record_info() -> Mapping[str, bytes]:
    """What an HFile of such records says of itself."""
    return {_SCHEMA: record_schema_json().encode()}


def encode_record_hfile(records: Iterable[MetadataRecord]) -> bytes:
    """An HFile of records with content, each key once."""
    kept = sorted(records, key=lambda record: record.key.encode())
    new = [record for record in kept if record.current_datum is None]
    encoded = iter(encode_records(record_schema_json(), [_to_avro(record) for record in new]))
    pairs = ((record.key.encode(), record.current_datum or next(encoded)) for record in kept)
    return encode_hfile(pairs, record_info(), block_bytes_max=BLOCK_BYTES_MAX)


def splice_record_hfile(
    body: bytes, records: Iterable[MetadataRecord], *, path: object = None
) -> bytes | None:
    """An HFile of records with others in their places, or without those that are deleted; None
    where it was written in another way, so that all of it has to be decoded. Raises as
    `decode_record_hfile`."""
    schema_json = record_schema_json().encode()
    if not body or info_at(body, read_trailer(body), 0, path).get(_SCHEMA) != schema_json:
        return None
    ordered = sorted(records, key=lambda record: record.key.encode())
    changes = ((record.key.encode(), _datum(record)) for record in ordered)
    try:
        return splice_hfile(body, tuple(changes), block_bytes_max=BLOCK_BYTES_MAX, path=path)
    except UnsupportedTableError:
        return None


def record_count(body: bytes) -> int:
    """How many records an HFile has that was made here."""
    return entry_count(read_trailer(body))


def encode_deletes(partition: str, keys: Iterable[str]) -> bytes:
    """The content of a block that deletes keys of a partition of the metadata table."""
    listed = [
        {"recordKey": key, "partitionPath": partition, "orderingVal": {"value": 0}}
        for key in sorted(keys, key=str.encode)
    ]
    return encode_delete_content(encode_records(_deletes_json(), [{"deleteRecordList": listed}])[0])


def decode_record_hfile(
    body: bytes, *, path: object = None, keys: WantedKeys | None = None
) -> tuple[MetadataRecord, ...]:
    """The records of an HFile, as Hudi or `encode_record_hfile` made it, or those with some keys.

    Raises CorruptTableError naming `path` when they cannot be read, UnsupportedTableError beyond
    the limits on metadata.
    """
    if keys is not None and body:
        with suppress(UnsupportedTableError):
            # Of a large file most blocks have none of the keys.
            lookup = HFileLookup(lambda at, size: body[at : at + size], len(body), path=path)
            return decode_entries(lookup.info, wanted_entries(lookup, keys), path=path)
    found = decode_hfile(body, path=path)
    records = decode_entries(found.info, found.entries, path=path)
    return tuple(record for record in records if keys is None or record.key in keys)


def wanted_entries(lookup: HFileLookup, keys: WantedKeys) -> Iterator[tuple[bytes, bytes]]:
    """The entries of an HFile with some keys, read as they are consumed. Raises as
    `decode_record_hfile`."""
    if isinstance(keys, KeyPrefixes):
        return lookup.with_prefixes([prefix.encode() for prefix in keys.prefixes])
    return lookup.of_keys([key.encode() for key in keys])


def some_keys(body: bytes, *, path: object = None) -> list[str]:
    """A few keys of an HFile, whichever; none of one of several levels. Raises likewise."""
    if body:
        with suppress(UnsupportedTableError):
            lookup = HFileLookup(lambda at, size: body[at : at + size], len(body), path=path)
            return keys_in_text(lookup.some_keys(), path=path)
    return []


def keys_in_text(keys: Iterable[bytes], *, path: object = None) -> list[str]:
    """Keys as they are hashed. Raises likewise."""
    with faults_named("the keys of an HFile are no text", path=path):
        return [key.decode() for key in keys]


def decode_entries(
    info: Mapping[str, bytes], entries: Iterable[tuple[bytes, bytes]], *, path: object = None
) -> tuple[MetadataRecord, ...]:
    """The records of some entries of an HFile that says `info` of itself. Raises likewise."""
    found = tuple(entries)
    with faults_named("the schema of an HFile is no text", path=path):
        schema_json = info.get(_SCHEMA, b"").decode()
        keys = [key.decode() for key, _ in found]
    if found:
        admit_records(schema_json, [datum for _, datum in found], path=path)
    return tuple(
        MetadataRecord(key, path=path, datum=datum, written_as=schema_json)
        for key, (_, datum) in zip(keys, found, strict=True)
    )


def decode_record_block(
    kind: BlockKind,
    schema_json: str,
    content: bytes,
    *,
    path: object = None,
    keys: WantedKeys | None = None,
) -> tuple[MetadataRecord, ...]:
    """The records of a block of a log, or those with some keys. Raises as `decode_record_hfile`."""
    if kind is BlockKind.HFILE_DATA:
        return decode_record_hfile(content, path=path, keys=keys)
    if kind is BlockKind.AVRO_DATA:
        datums = split_avro_content(content, path=path)
        admit_records(schema_json, datums, path=path)
        found = decode_records(schema_json, datums, path=path, names_records=True)
        with faults_named("records of a metadata table are not understood", path=path):
            records = [MetadataRecord(record["key"], record, path) for record in found]
        return tuple(record for record in records if keys is None or record.key in keys)
    if kind is BlockKind.DELETE:
        gone = _deleted(content, path)
        return tuple(record for record in gone if keys is None or record.key in keys)
    raise CorruptTableError("a block of another kind in a metadata table", path=path, value=kind)


@cache
def _deletes_json() -> str:
    return json.dumps(schema("HoodieDeleteRecordList"), separators=(",", ":"))


def _datum(record: MetadataRecord) -> bytes | None:
    if record.is_deleted:
        return None
    return record.current_datum or encode_records(record_schema_json(), [_to_avro(record)])[0]


def _to_avro(record: MetadataRecord) -> dict[str, Any]:
    content = record.content
    if content is None:
        raise ValueError(f"{record.key} is deleted, which is no record")
    return {**content, "key": ""}


def _deleted(content: bytes, path: object) -> Iterator[MetadataRecord]:
    """The keys of a block of deletes."""
    datum = split_delete_content(content, path=path)
    schema_json = _deletes_json()
    admit_records(schema_json, [datum], path=path)
    for record in decode_records(schema_json, [datum], path=path)[0]["deleteRecordList"]:
        yield MetadataRecord(record["recordKey"], None, path)
