"""Small tables whose metadata table has more than a list of files, as Hudi makes them for a new
one: statistics of columns, bloom filters of keys, and a record index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy

from tideline.hudi.metadata_table.bloom_filters import BLOOM_FILTERS_PARTITION, FilterRow
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.column_row import ColumnRow, rows_of
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION
from tideline.hudi.metadata_table.index_definitions import INDEX_DEFINITIONS_PATH, read_definitions
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.partition_stats import PARTITION_STATS_PARTITION
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record_index import RECORD_INDEX_PARTITION, KeyPlace, places_of
from tideline.hudi.metadata_table.secondary_index import (
    SecondaryIndexPartition,
)
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    COLUMN_STATS,
    METADATA_PARTITIONS,
    RECORD_INDEX,
    SECONDARY_INDEX,
)


def begin_statistics(table: HoodieTable, columns: Sequence[str], version: str = "V2") -> None:
    """Make a metadata table with filters, and statistics of these columns, for a table without
    rows; those of partitions where they are kept in its version."""
    bootstrap_metadata_table(table, table.timeline())
    known: tuple[MetadataPartition, ...] = (
        BLOOM_FILTERS_PARTITION,
        COLUMN_STATS_PARTITION,
        PARTITION_STATS_PARTITION,
    )
    made = tuple(item for item in known if table.layout.keeps_partition(item.name))
    defined = {
        "indexName": COLUMN_STATS,
        "indexType": COLUMN_STATS,
        "indexFunction": COLUMN_STATS,
        "sourceFields": [*META_COLUMNS, *columns],
        "indexOptions": {},
        "version": version,
    }
    _begin(table, made, defined)


def begin_record_index(table: HoodieTable, *, is_partitioned: bool = False) -> None:
    """Add a record index to the metadata table of a table without rows: of the whole table, or with
    a place for each partition, which has no file group yet."""
    defined = {
        "indexName": RECORD_INDEX,
        "indexType": RECORD_INDEX,
        "indexFunction": "",
        "sourceFields": [],
        "indexOptions": {"isPartitioned": str(is_partitioned).lower()},
        "version": "V1",
    }
    made = () if is_partitioned else (RECORD_INDEX_PARTITION,)
    _begin(table, made, defined)
    if is_partitioned:
        listed = ",".join(sorted({*table.properties.reload().metadata_partitions, RECORD_INDEX}))
        table.properties.update({METADATA_PARTITIONS: listed})


def begin_secondary_index(table: HoodieTable, column: str, version: str = "V2") -> None:
    """Add a secondary index of a column to one that has a record index of the whole table."""
    name = f"{SECONDARY_INDEX}{column}"
    defined = {
        "indexName": name,
        "indexType": "secondary_index",
        "indexFunction": "identity",
        "sourceFields": [column],
        "indexOptions": {},
        "version": version,
    }
    made = SecondaryIndexPartition.defined(name, {name: defined})
    _begin(table, (made,), defined)


def _begin(
    table: HoodieTable, made: Sequence[MetadataPartition], definition: Mapping[str, object]
) -> None:
    writer = MetadataWriter(table)
    writer.make({_countable(item): () for item in made}, writer.next_build())
    definitions = {**read_definitions(table), str(definition["indexName"]): definition}
    body = json.dumps({"indexDefinitions": definitions})
    table.store.put(INDEX_DEFINITIONS_PATH, body.encode())
    names = {*table.properties.reload().metadata_partitions, *(item.name for item in made)}
    listed = {
        METADATA_PARTITIONS: ",".join(sorted(names)),
        "hoodie.table.index.defs.path": INDEX_DEFINITIONS_PATH,
    }
    table.properties.update(listed)


def _countable(partition: MetadataPartition) -> MetadataPartition:
    """One whose commits make as many writes whatever their files are called: of a single file group
    where these names decide on it."""
    if partition is not BLOOM_FILTERS_PARTITION and partition is not COLUMN_STATS_PARTITION:
        return partition
    single = copy(partition)
    single.groups_made = 1
    return single


def stored_rows(table: HoodieTable, partition: MetadataPartition) -> Mapping[str, ColumnRow]:
    """What a partition of statistics says, by key."""
    return rows_of(MetadataTable(table.store, table.clock).read(partition))


def stored_filters(table: HoodieTable) -> Mapping[str, FilterRow]:
    """What `bloom_filters` says, by key."""
    records = MetadataTable(table.store, table.clock).read(BLOOM_FILTERS_PARTITION)
    rows = {record.key: FilterRow.parse(record) for record in records}
    return {key: row for key, row in rows.items() if row is not None}


def statistics_of_files(table: HoodieTable) -> Mapping[tuple[str, str], ColumnRow]:
    """The rows of `column_stats`, by file name and column."""
    rows = stored_rows(table, COLUMN_STATS_PARTITION).values()
    return {(row.file, row.column): row for row in rows}


def statistics_of_partitions(table: HoodieTable) -> Mapping[tuple[str, str], ColumnRow]:
    """The rows of `partition_stats`, by partition and column."""
    rows = stored_rows(table, PARTITION_STATS_PARTITION).values()
    return {(row.file, row.column): row for row in rows}


def places_of_keys(table: HoodieTable) -> Mapping[tuple[str | None, str], KeyPlace]:
    """What `record_index` says, by shard and key."""
    return places_of(MetadataTable(table.store, table.clock).read(RECORD_INDEX_PARTITION))
