"""A table with a record index and any number of file groups, few with rows.

Most file groups are in the metadata table alone: `files` lists a file of each, and the record index
has keys in it. A write that reads none of these files cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.files_partition import (
    ALL_PARTITIONS,
    FILES_PARTITION,
    FilesRecord,
    FileState,
)
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.record_index import RECORD_INDEX_PARTITION, KeyPlace
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.open_table import open_table
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.storage.location import StoreLocation
from tideline.testing.kept_statistics import begin_record_index

GROUPS_OF_A_PARTITION = 100
KEYS_OF_A_GROUP = 10
_FILE_BYTES = 120_000_000


def begin_indexed(uri: str, storage: Mapping[str, str]) -> None:
    """Give a table without rows a metadata table with a record index."""
    table = _opened(uri, storage)
    bootstrap_metadata_table(table, table.timeline())
    begin_record_index(table)


def add_file_groups(uri: str, storage: Mapping[str, str], groups: int, partitions: int) -> None:
    """Add file groups without files: to these first partitions `p0`, `p1`, … of the table, a
    hundred to each where there are so many, and to others behind them."""
    table = _opened(uri, storage)
    timeline = table.timeline()
    first = timeline.completed().first()
    assert first is not None, "the table has rows"
    each = min(GROUPS_OF_A_PARTITION, max(1, groups // partitions))
    listed: dict[str, dict[str, FileState]] = {}
    keys: list[MetadataRecord] = []
    for number in range(groups):
        partition, file_id = f"p{number // each}", f"{UUID(int=number)}-0"
        name = f"{file_id}_0-0-0_{first.time}.parquet"
        listed.setdefault(partition, {})[name] = FileState(_FILE_BYTES)
        datum = KeyPlace(FileGroupId(partition, file_id), 0).stored()
        start = number * KEYS_OF_A_GROUP
        spelled = (f"x{key * 7_919 % 1_000_003:07}-{key}" for key in range(start, start + 10))
        keys += [MetadataRecord(key, datum=datum) for key in spelled]
    names = FilesRecord(ALL_PARTITIONS, {name: FileState(0) for name in listed})
    files = [names, *(FilesRecord(name, states) for name, states in listed.items())]
    said = [record.stored() for record in files]
    # The second commit compacts what the first one said.
    for these, those in ((said, keys), ((), ())):
        time = table.instants.next_time(timeline)
        completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, time)
        changes: dict[MetadataPartition, Sequence[MetadataRecord]] = {
            FILES_PARTITION: these,
            RECORD_INDEX_PARTITION: those,
        }
        MetadataWriter(table, commits_per_compaction=1).commit(completed, changes, timeline)


def _opened(uri: str, storage: Mapping[str, str]) -> HoodieTable:
    return open_table(StoreLocation.of(uri, dict(storage)))
