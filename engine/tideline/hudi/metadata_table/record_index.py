"""The partition `record_index`: in which file group each record key of the table is.

A record stands for one key. Writers of Hudi's take its place as it is: a key without a record is
stored a second time, one whose record is left over is updated in a file group that lacks it. So a
commit compares the keys of the file groups that it touches, before it and after it:

1. A key that a file group has now has a record with this place, whatever was said of it before.
2. A key that a file group had and no other has now loses its record.
3. Files whose stats say that only rows were replaced are not read. A compaction changes no key, and
   a clustering only places.

Hudi's older kind, the only one before 1.1, holds one place for each key of the table: a key in two
partitions makes it wrong, and rebuilding it fails. The newer kind, recognised by `isPartitioned` in
the index definitions, holds one for each partition of the table.

Source: Hudi's HoodieIndexDefinition, MetadataPartitionType.RECORD_INDEX,
HoodieTableMetadataUtil.convertMetadataToRecordIndexRecords (1.2), which compares base files alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from uuid import UUID

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError
from tideline.formats.avro import decode_record, encode_records
from tideline.hudi.metadata_table.index_definitions import FIRST_VERSION, has_option
from tideline.hudi.metadata_table.many_records import Records
from tideline.hudi.metadata_table.optional_partition import OptionalPartition
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    SlicePair,
    StoredRecords,
    StoredSizes,
    TableChange,
    Upkeep,
    WholeTable,
)
from tideline.hudi.metadata_table.record import MetadataRecord, record_schema_json
from tideline.hudi.metadata_table.touched_slices import (
    keys_of_table,
    slices_after,
    slices_before,
    touched_partitions,
    written_files,
)
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import RECORD_INDEX, TableType
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.wording import counted, size_text

_RECORD = 5
"""The type of a record of a key."""
_FIELD = "recordIndexMetadata"
_AS_NUMBERS, _AS_TEXT = 0, 1
"""How the id of a file group is stored."""
_UUID_LENGTH = 36
_NO_FILE_NUMBER = -1
_ESCAPED = (*map(chr, range(1, 32)), "\x7f", *"\"#%'*/:=?\\{[]^_-")
_ESCAPES = str.maketrans({sign: f"%{ord(sign):02X}" for sign in _ESCAPED})
_COMPACTIONS = ("COMPACT", "LOG_COMPACT")
_CLUSTER = "CLUSTER"


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """What a record says: the file group, and when the key came there, milliseconds since the
    epoch."""

    group: FileGroupId
    since_ms: int

    @classmethod
    def parse(cls, record: MetadataRecord) -> KeyPlace | None:
        """None where the key is deleted. Raises CorruptTableError for a record of another form."""
        if record.datum is not None:
            schema_json = record.written_as or record_schema_json()
            try:
                return _parsed(record.datum, schema_json)
            except CorruptTableError as error:
                raise CorruptTableError(
                    error.message, path=record.path, value=error.value
                ) from error
        return None if record.said is None else _place(record.said, record.path)

    def stored(self) -> bytes:
        """The record as it is written, without its key."""
        return _stored(self)


class RecordIndexPartition(OptionalPartition):
    """`record_index`, of both kinds: the newer one has a shard for each partition of the table."""

    name = RECORD_INDEX
    file_id_prefix = "record-index"
    groups_made = 10
    may_be_empty = True

    def initial(self, whole: WholeTable) -> Records | CannotFollow:
        """One place for each key of the table; in the way is a key that has two."""
        reason = why_not_indexed(whole.table)
        if reason is not None:
            return CannotFollow(reason)
        found = keys_of_table(whole)
        if isinstance(found, CannotFollow):
            return found
        # Processes that write no rows have no Arrow.
        from tideline.hudi.metadata_table.key_runs import KeyRun, KeyRuns

        zone = whole.table.instants.zone
        runs = KeyRuns(
            tuple(
                KeyRun(
                    keys,
                    KeyPlace(file_slice.group, zone.epoch_ms(file_slice.base_instant)).stored(),
                )
                for file_slice, keys in found
            )
        )
        twice = runs.stored_twice()
        if twice is not None:
            return CannotFollow(
                f"key {twice!r} is stored twice: "
                "`tideline check --keys --across-partitions` says where, and names all of these"
            )
        return runs.too_long() or runs

    def definition(self, whole: WholeTable) -> Mapping[str, Any]:  # noqa: ARG002
        return {
            "indexName": RECORD_INDEX,
            "indexType": RECORD_INDEX,
            "indexFunction": "",
            "sourceFields": [],
            "indexOptions": {"isPartitioned": "false"},
            "version": FIRST_VERSION,
        }

    def changes(self, change: TableChange, stored: StoredRecords | None) -> Records | CannotFollow:
        """A partition of the table that has no shard yet gets one, whether it has keys or not: Hudi
        makes none for one that `files` has."""
        if RECORD_INDEX not in change.table.config.metadata_partitions:
            return CannotFollow("the table has no record index")
        reason = why_not_indexed(change.table)
        if reason is not None:
            return CannotFollow(reason)
        written = change.written
        if written is None or stored is None or written.operation_type in _COMPACTIONS:
            return []
        if change.compare_keys is None:
            return CannotFollow("the keys of its files are not read here")
        before, after = change.once(slices_before, stored), change.once(slices_after, stored)
        pairs = _compared(written, change, before, after)
        found = change.compare_keys(change.timeline, change.timeline_after, pairs)
        since_ms = change.table.instants.zone.epoch_ms(change.completed.time)
        is_partitioned = _is_partitioned(change.table)
        shards = _new_shards(change, stored) if is_partitioned else []
        if not found and not shards:
            return []
        # Likewise.
        from tideline.hudi.metadata_table.key_runs import KeyRun, KeyRuns

        there: list[KeyRun] = []
        gone: list[KeyRun] = []
        for pair, keys in zip(pairs, found, strict=True):
            file_slice = pair.after or pair.before
            assert file_slice is not None, "one of both is there"
            shard = shard_name(file_slice.partition) if is_partitioned else None
            if keys.added is not None:
                datum = KeyPlace(file_slice.group, since_ms).stored()
                there.append(KeyRun(keys.added, datum, shard))
            if keys.removed is not None:
                gone.append(KeyRun(keys.removed, None, shard))
        runs = KeyRuns((*gone, *there, *map(KeyRun.of_shard, shards)))
        return runs.too_long() or runs

    def upkeep(self, whole: WholeTable, sizes: StoredSizes) -> Upkeep | CannotFollow:
        reason = why_not_indexed(whole.table)
        if reason is not None:
            return CannotFollow(reason)
        return Upkeep(
            f"the keys of {touched_groups(sizes)}, fewer where rows are only replaced or added",
            "a record for each key that came, went or moved, in "
            f"{counted(sizes.index_file_groups, 'file group')} of the index",
        )


RECORD_INDEX_PARTITION = RecordIndexPartition()


def touched_groups(sizes: StoredSizes) -> str:
    """What the comparison of keys reads, in words."""
    mean_bytes = sizes.size_bytes // max(1, sizes.file_groups)
    return (
        "the file groups that it touches, before it and after it, of "
        f"{size_text(mean_bytes)} on average"
    )


def shard_name(partition: str) -> str:
    """The shard of the keys of a partition of the table, as ids of file groups spell it.

    Source: Hudi's PartitionPathEncodeUtils.escapeFileName, which escapes hyphens as well.
    """
    return partition.translate(_ESCAPES)


def has_global_record_index(table: HoodieTable) -> bool:
    """Whether the properties, as they were read last, name a record index of the whole table.

    Also one that is being built. Raises CorruptTableError when its definition cannot be read.
    """
    return RECORD_INDEX in table.config.metadata_partitions_in_work and not _is_partitioned(table)


def has_partitioned_record_index(table: HoodieTable) -> bool:
    """Whether the table has a record index with a place for each partition. Raises likewise."""
    return RECORD_INDEX in table.config.metadata_partitions and _is_partitioned(table)


def places_of(records: Iterable[MetadataRecord]) -> Mapping[tuple[str | None, str], KeyPlace]:
    """Where records say together that keys are, oldest first, by shard and key.

    Raises CorruptTableError for records of another form.
    """
    newest = {(record.shard, record.key): record for record in records}
    found = ((key, KeyPlace.parse(record)) for key, record in newest.items())
    return {key: place for key, place in found if place is not None}


def _is_partitioned(table: HoodieTable) -> bool:
    return has_option(table, RECORD_INDEX, "isPartitioned")


def why_not_indexed(table: HoodieTable) -> str | None:
    """Why keys of a table cannot be followed."""
    config = table.config
    if not config.populate_meta_fields:
        return "files of the table do not hold record keys"
    is_merged = config.table_type is TableType.MERGE_ON_READ
    if is_merged and config.known_merge_mode is None:
        return "rows are merged in a way of their own when they are read"
    return None


def _compared(
    written: CommitMetadata,
    change: TableChange,
    before: Mapping[FileGroupId, FileSlice],
    after: Mapping[FileGroupId, FileSlice],
) -> list[SlicePair]:
    """The slices whose keys may differ, and those of file groups that are replaced."""
    stats = [
        stat
        for stat in written_files(change)
        if stat.log_version is not None or stat.num_inserts or stat.num_deletes
    ]
    groups = [FileGroupId(stat.partition_path or "", stat.file_id or "") for stat in stats]
    if written.operation_type == _CLUSTER:
        # All rows of what it replaces are in the new file groups.
        return [SlicePair(None, after[group]) for group in groups if group in after]
    replaced = [group for group in before if group not in after]
    pairs = {
        group: SlicePair(before.get(group), after.get(group)) for group in (*groups, *replaced)
    }
    for group, stat in zip(groups, stats, strict=True):
        # A write that rewrites a base file puts new rows behind the others.
        if stat.log_version is None and not stat.num_deletes and pairs[group].before is not None:
            pairs[group] = replace(pairs[group], appended_rows=stat.num_inserts)
    return list(pairs.values())


def _new_shards(change: TableChange, stored: StoredRecords) -> list[str]:
    """The shards of partitions that have none yet."""
    wanted = {shard_name(partition) for partition in touched_partitions(change)}
    missing = wanted.difference(stored.shards(RECORD_INDEX_PARTITION))
    return sorted(missing)


@lru_cache(maxsize=4096)
def _parsed(datum: bytes, schema_json: str) -> KeyPlace:
    """Keys of one file group have equal records, so that few are decoded."""
    return _place(decode_record(schema_json, datum, names_records=True), None)


def _place(content: Mapping[str, Any], path: object) -> KeyPlace:
    with faults_named("records of a metadata table are not understood", path=path):
        said = content[_FIELD]
        if said is None:
            raise CorruptTableError("a record of another kind in `record_index`")
        group = FileGroupId(said["partitionName"], _file_id(said))
        return KeyPlace(group, said["instantTime"])


@lru_cache(maxsize=1024)
def _stored(place: KeyPlace) -> bytes:
    file_id, number = _split_id(place.group.file_id)
    half = 1 << 63
    halves = (
        (None, None)
        if file_id is None
        else tuple((part + half) % (2 * half) - half for part in (file_id.int >> 64, file_id.int))
    )
    content: dict[str, Any] = {
        "partitionName": place.group.partition,
        "fileIdHighBits": _NO_FILE_NUMBER if file_id is None else halves[0],
        "fileIdLowBits": _NO_FILE_NUMBER if file_id is None else halves[1],
        "fileIndex": number,
        "fileId": place.group.file_id if file_id is None else "",
        "instantTime": place.since_ms,
        "fileIdEncoding": _AS_TEXT if file_id is None else _AS_NUMBERS,
        "position": None,
    }
    record = {"key": "", "type": _RECORD, _FIELD: content}
    return encode_records(record_schema_json(), [record])[0]


def _split_id(file_id: str) -> tuple[UUID | None, int]:
    """The UUID that an id of a file group begins with, and the number behind it; no UUID where it
    has another form."""
    text, number = file_id[:_UUID_LENGTH], file_id[_UUID_LENGTH:]
    try:
        found = UUID(text)
    except ValueError:
        return None, _NO_FILE_NUMBER
    index = int(number[1:]) if number[1:].isdecimal() else _NO_FILE_NUMBER
    if _joined(found, index) != file_id:
        return None, _NO_FILE_NUMBER
    return found, index


def _file_id(said: Mapping[str, Any]) -> str:
    if said["fileIdEncoding"] == _AS_TEXT:
        return str(said["fileId"])
    half = 1 << 64
    number = said["fileIndex"]
    halves = said["fileIdHighBits"] % half << 64 | said["fileIdLowBits"] % half
    return _joined(UUID(int=halves), number)


def _joined(file_id: UUID, number: int) -> str:
    return f"{file_id}" if number == _NO_FILE_NUMBER else f"{file_id}-{number}"
