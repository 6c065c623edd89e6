"""The records of a commit by file group of the metadata table, ready to be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tideline.formats.log_block import BlockKind, HeaderKey, encode_block, encode_delete_content
from tideline.hudi.metadata_table.many_records import (
    GroupRecords,
    GroupsOf,
    ManyRecords,
    Records,
)
from tideline.hudi.metadata_table.partition import (
    MetadataPartition,
    file_group,
    group_number,
    shard_of,
)
from tideline.hudi.metadata_table.record import (
    MetadataRecord,
    encode_deletes,
    encode_record_hfile,
    record_schema_json,
)
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.timeline.instant_time import InstantTime

NO_DELETES = encode_delete_content(b"\0")
"""What a block of deletes without records holds."""


def by_group(
    records: Mapping[MetadataPartition, Records],
    groups: Mapping[MetadataPartition, Sequence[FileGroupId]],
) -> dict[FileGroupId, GroupRecords]:
    """Records by the file group that their keys belong to. A partition of every table has one group
    at least, so that every commit writes something; a shard that is new gets one."""
    found: dict[FileGroupId, GroupRecords] = {}
    for partition, those in records.items():
        if partition.is_in_every_table:
            found[groups[partition][0]] = ListedRecords(())
        groups_of = _groups_of(partition, groups[partition])
        if isinstance(those, ManyRecords):
            found.update(those.dealt(groups_of))
        else:
            found.update(_dealt(those, partition, groups_of))
    return found


def log_blocks(group: FileGroupId, time: InstantTime, records: GroupRecords) -> bytes:
    """A log's blocks with these records: what has content, then what is deleted."""
    headers = {HeaderKey.INSTANT_TIME: str(time), HeaderKey.SCHEMA: record_schema_json()}
    said, gone = records.encoded(), records.deleted()
    if len(records) and said is None and not gone:
        return encode_block(BlockKind.DELETE, headers, NO_DELETES)
    blocks = b""
    if said is not None or not gone:
        content = encode_record_hfile(()) if said is None else said
        blocks = encode_block(BlockKind.HFILE_DATA, headers, content)
    if gone:
        deletes = encode_deletes(group.partition, gone)
        blocks += encode_block(BlockKind.DELETE, headers, deletes)
    return blocks


@dataclass(frozen=True, slots=True)
class ListedRecords:
    """`GroupRecords` one by one."""

    records: Sequence[MetadataRecord]

    def __len__(self) -> int:
        return len(self.records)

    def encoded(self) -> bytes | None:
        said = [record for record in self.records if not record.is_deleted]
        return encode_record_hfile(said) if said else None

    def deleted(self) -> Sequence[str]:
        return [record.key for record in self.records if record.is_deleted and record.key]


def _groups_of(partition: MetadataPartition, groups: Sequence[FileGroupId]) -> GroupsOf:
    """The file groups of each shard, those that a new one gets among them."""
    shards: dict[str | None, list[FileGroupId]] = {}
    for group in groups:
        shards.setdefault(shard_of(partition, group), []).append(group)
    return lambda shard: shards.get(shard) or (file_group(partition, 0, shard),)


def _dealt(
    records: Sequence[MetadataRecord], partition: MetadataPartition, groups_of: GroupsOf
) -> Mapping[FileGroupId, ListedRecords]:
    found: dict[FileGroupId, list[MetadataRecord]] = {}
    for record in records:
        groups = groups_of(record.shard)
        group = groups[group_number(partition.hashed(record.key), len(groups))]
        found.setdefault(group, []).append(record)
    return {group: ListedRecords(its) for group, its in found.items()}
