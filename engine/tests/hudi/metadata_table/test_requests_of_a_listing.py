"""Requests to the store that a listing costs, by the metadata table and by folders."""

from __future__ import annotations

from tideline.hudi.metadata_table.config import COMMITS_PER_COMPACTION
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

ON = {"hoodie.metadata.enable": "true"}
FEW, MANY = 3, 40


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


def files_read(small: SmallTable) -> int:
    """Base file and logs of the newest slice of `files`."""
    metadata = MetadataTable(small.store(), small.clock)
    newest = metadata.stored(FILES_PARTITION, metadata.timeline()).groups[0][0]
    return len(newest.log_files) + (newest.base_file is not None)
