"""Small tables whose metadata table has statistics of columns and bloom filters of keys, as Hudi
makes them for a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tideline.hudi.metadata_table.bloom_filters import BLOOM_FILTERS_PARTITION, FilterRow
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.column_row import ColumnRow, rows_of
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION
from tideline.hudi.metadata_table.index_definitions import INDEX_DEFINITIONS_PATH
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.partition_stats import PARTITION_STATS_PARTITION
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    COLUMN_STATS,
    FILES,
    METADATA_PARTITIONS,
)
from tideline.hudi.timeline.instant_time import InstantTime

_MADE_AT = InstantTime("0" * 16 + "1")


def begin_statistics(table: HoodieTable, columns: Sequence[str], version: str = "V2") -> None:
    """Make a metadata table with filters, and statistics of these columns, for a table without
    rows."""
    made: tuple[MetadataPartition, ...] = (
        BLOOM_FILTERS_PARTITION,
        COLUMN_STATS_PARTITION,
        PARTITION_STATS_PARTITION,
    )
    bootstrap_metadata_table(table, table.timeline())
    MetadataWriter(table).make(dict.fromkeys(made, ()), _MADE_AT)
    defined = {
        "indexName": COLUMN_STATS,
        "indexType": COLUMN_STATS,
        "indexFunction": COLUMN_STATS,
        "sourceFields": [*META_COLUMNS, *columns],
        "indexOptions": {},
        "version": version,
    }
    body = json.dumps({"indexDefinitions": {COLUMN_STATS: defined}})
    table.store.put(INDEX_DEFINITIONS_PATH, body.encode())
    listed = {
        METADATA_PARTITIONS: ",".join(sorted((FILES, *(partition.name for partition in made)))),
        "hoodie.table.index.defs.path": INDEX_DEFINITIONS_PATH,
    }
    table.properties.update(listed)


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
