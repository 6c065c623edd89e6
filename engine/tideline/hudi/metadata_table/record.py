"""Records of `files`, the partition of Hudi's metadata table that lists a table's files.

A record has a key and a map. The key `__all_partitions__` has the names of the partitions, every
other key is a partition, `.` for that of a table without partitions, and has the files that were
added to it with their sizes, and those that were deleted. The stored field `key` is empty: the key
is that of the HFile's entry.

Source: Hudi's HoodieMetadataPayload, HoodieMetadataRecord, HoodieTableMetadataUtil (1.2).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tideline.errors import CorruptTableError
from tideline.formats.avro import admit_records, decode_records, encode_records, schema
from tideline.formats.bounded import faults_named
from tideline.formats.hfile import decode_hfile, encode_hfile
from tideline.formats.log_block import BlockKind, split_avro_content, split_delete_content

ALL_PARTITIONS = "__all_partitions__"

_PARTITION_LIST, _FILE_LIST = 1, 2
_SCHEMA_NAME = "HoodieMetadataRecord"
_SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class FileState:
    """What a record says of a file, or of a partition, which has no size."""

    size_bytes: int
    is_deleted: bool = False


DELETED = FileState(0, is_deleted=True)


@dataclass(frozen=True, slots=True)
class FilesRecord:
    """What is said of one key. Without `states` the key itself is deleted."""

    key: str
    states: Mapping[str, FileState] | None = field(hash=False)


@cache
def files_schema_json() -> str:
    """The Avro schema that records are written with: all kinds of records, and meta columns."""
    return json.dumps(schema(_SCHEMA_NAME), separators=(",", ":"))


def encode_files_hfile(records: Iterable[FilesRecord]) -> bytes:
    """An HFile of records with states, each key once."""
    kept = sorted(records, key=lambda record: record.key.encode())
    datums = encode_records(files_schema_json(), [_to_avro(record) for record in kept])
    pairs = ((record.key.encode(), datum) for record, datum in zip(kept, datums, strict=True))
    return encode_hfile(pairs, {_SCHEMA: files_schema_json().encode()})


def decode_files_hfile(body: bytes, *, path: object = None) -> tuple[FilesRecord, ...]:
    """The records of an HFile, as Hudi or `encode_files_hfile` made it.

    Raises CorruptTableError naming `path` when they cannot be read, UnsupportedTableError beyond
    the limits on metadata.
    """
    found = decode_hfile(body, path=path)
    with faults_named("the schema of an HFile is no text", path=path):
        schema_json = found.info.get(_SCHEMA, b"").decode()
        keys = [key.decode() for key, _ in found.entries]
    datums = [datum for _, datum in found.entries]
    return tuple(_read(schema_json, keys, datums, path))


def decode_files_block(
    kind: BlockKind, schema_json: str, content: bytes, *, path: object = None
) -> tuple[FilesRecord, ...]:
    """The records of a block of a log. Raises as `decode_files_hfile`."""
    if kind is BlockKind.HFILE_DATA:
        return decode_files_hfile(content, path=path)
    if kind is BlockKind.AVRO_DATA:
        datums = split_avro_content(content, path=path)
        return tuple(_read(schema_json, None, datums, path))
    if kind is BlockKind.DELETE:
        return tuple(_deleted(content, path))
    raise CorruptTableError("a block of another kind in a metadata table", path=path, value=kind)


def _to_avro(record: FilesRecord) -> dict[str, Any]:
    if record.states is None:
        raise ValueError(f"{record.key} is deleted, which is no record")
    is_list = record.key == ALL_PARTITIONS
    states = {
        name: {"size": state.size_bytes, "isDeleted": state.is_deleted}
        for name, state in sorted(record.states.items())
    }
    return {
        "key": "",
        "type": _PARTITION_LIST if is_list else _FILE_LIST,
        "filesystemMetadata": states,
    }


def _read(
    schema_json: str, keys: Sequence[str] | None, datums: Sequence[bytes], path: object
) -> Iterator[FilesRecord]:
    """`keys` are those of the HFile; in Avro blocks the records have them."""
    if not datums:
        return
    admit_records(schema_json, datums, path=path)
    found = decode_records(schema_json, datums, path=path)
    with faults_named("records of a metadata table are not understood", path=path):
        for at, record in enumerate(found):
            states = record["filesystemMetadata"]
            if states is None or record["type"] not in (_PARTITION_LIST, _FILE_LIST):
                raise CorruptTableError("a record of another kind in `files`", path=path)
            yield FilesRecord(
                record["key"] if keys is None else keys[at],
                {name: FileState(state["size"], state["isDeleted"])
                 for name, state in states.items()},
            )  # fmt: skip


def _deleted(content: bytes, path: object) -> Iterator[FilesRecord]:
    """The keys of a block of deletes."""
    datum = split_delete_content(content, path=path)
    schema_json = json.dumps(schema("HoodieDeleteRecordList"), separators=(",", ":"))
    admit_records(schema_json, [datum], path=path)
    for record in decode_records(schema_json, [datum], path=path)[0]["deleteRecordList"]:
        yield FilesRecord(record["recordKey"], None)
