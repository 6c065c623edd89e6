"""Requests to the store that a listing costs, by the metadata table and by folders."""

from __future__ import annotations

import pytest

from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.column_row import ColumnRow, rows_of
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION, key_of
from tideline.hudi.metadata_table.config import COMMITS_PER_COMPACTION
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.timeline.column_range import ColumnRange, ValueKind, ValueType
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

ON = {"hoodie.metadata.enable": "true"}
FEW, MANY = 3, 40
COLUMNS = ("a", "b", "c")


def table_of(partitions: int, **properties: str) -> SmallTable:
    small = SmallTable.in_memory(properties, table_version=9)
    small.write("insert", batch(range(partitions), 1, partitions=partitions))
    return small


def requests(small: SmallTable, partitions: int) -> int:
    """Store calls of listing all files of an open table."""
    store = FaultyStore(small.store())
    table = open_fresh(small.location, store, small.clock)
    timeline = table.timeline()
    before = store.calls
    view = table.files.view(timeline)
    assert len(view.partitions) == partitions
    return store.calls - before


def test_many_partitions_cost_no_more_than_few() -> None:
    few, many = table_of(FEW, **ON), table_of(MANY, **ON)
    assert requests(few, FEW) == requests(many, MANY)
    few.forget()
    many.forget()


def test_each_commit_costs_one_more_until_the_next_compaction() -> None:
    small = table_of(FEW, **ON)
    others = requests(small, FEW) - files_read(small)
    counted = []
    for v in range(2, COMMITS_PER_COMPACTION + 3):
        small.write("upsert", batch([0], v, partitions=FEW))
        counted.append(files_read(small))
        assert requests(small, FEW) == others + counted[-1]
    assert max(counted) <= COMMITS_PER_COMPACTION + 2
    assert min(counted) < counted[0], "compacted"
    small.forget()


def lookups(files: int) -> int:
    """Store calls of looking up the statistics of one file among so many, which are all found."""
    small = SmallTable.in_memory(table_version=9)
    table = open_fresh(small.location, small.store(), small.clock)
    bootstrap_metadata_table(table, table.timeline())
    names = [f"file-{number}.parquet" for number in range(files)]
    counted = ColumnRange(ValueType(ValueKind.LONG), 0, 9, values=9, nulls=0)
    records = [
        ColumnRow(name, column, counted).stored(key_of(column, "p", name), 3, has_types=True)
        for name in names
        for column in COLUMNS
    ]
    MetadataWriter(table).make({COLUMN_STATS_PARTITION: records}, InstantTime("0" * 16 + "1"))
    store = FaultyStore(small.store())
    metadata = MetadataTable(store, small.clock)
    before = store.calls
    keys = [key_of(column, "p", names[-1]) for column in COLUMNS]
    found = rows_of(metadata.look_up(COLUMN_STATS_PARTITION, keys))
    assert {row.column for row in found.values()} == set(COLUMNS)
    assert {row.file for row in found.values()} == {names[-1]}
    calls = store.calls - before
    small.forget()
    return calls


@pytest.mark.parametrize("files", [3_000, 15_000])
def test_a_lookup_costs_an_index_for_each_file_group_and_a_block_for_each_key(files: int) -> None:
    groups = COLUMN_STATS_PARTITION.groups_made
    assert lookups(files) <= lookups(60) + 2 * groups + len(COLUMNS)


def files_read(small: SmallTable) -> int:
    """Base file and logs of the newest slice of `files`."""
    metadata = MetadataTable(small.store(), small.clock)
    newest = metadata.stored(FILES_PARTITION, metadata.timeline()).groups[0][0]
    return len(newest.log_files) + (newest.base_file is not None)
