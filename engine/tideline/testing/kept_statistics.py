"""Small tables whose metadata table has more than a list of files, as Hudi makes them for a new
one: statistics of columns, and a record index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.column_row import ColumnRow, rows_of
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION
from tideline.hudi.metadata_table.index_definitions import INDEX_DEFINITIONS_PATH, read_definitions
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.partition_stats import PARTITION_STATS_PARTITION
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record_index import RECORD_INDEX_PARTITION, KeyPlace, places_of
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    COLUMN_STATS,
    METADATA_PARTITIONS,
    RECORD_INDEX,
)
from tideline.hudi.timeline.instant_time import InstantTime

_STATISTICS_AT, _RECORD_INDEX_AT = InstantTime("0" * 16 + "1"), InstantTime("0" * 16 + "3")


def begin_statistics(table: HoodieTable, columns: Sequence[str], version: str = "V2") -> None:
    """Make a metadata table with statistics of these columns for a table without rows."""
    bootstrap_metadata_table(table, table.timeline())
    made = (COLUMN_STATS_PARTITION, PARTITION_STATS_PARTITION)
    defined = {
        "indexName": COLUMN_STATS,
        "indexType": COLUMN_STATS,
        "indexFunction": COLUMN_STATS,
        "sourceFields": [*META_COLUMNS, *columns],
        "indexOptions": {},
        "version": version,
    }
    _begin(table, made, defined, _STATISTICS_AT)


def begin_record_index(table: HoodieTable) -> None:
    """Add a record index of the whole table to the metadata table of one without rows."""
    defined = {
        "indexName": RECORD_INDEX,
        "indexType": RECORD_INDEX,
        "indexFunction": "",
        "sourceFields": [],
        "indexOptions": {"isPartitioned": "false"},
        "version": "V1",
    }
    _begin(table, (RECORD_INDEX_PARTITION,), defined, _RECORD_INDEX_AT)


def _begin(
    table: HoodieTable,
    made: Sequence[MetadataPartition],
    definition: Mapping[str, object],
    at: InstantTime,
) -> None:
    MetadataWriter(table).make(dict.fromkeys(made, ()), at)
    definitions = {**read_definitions(table), str(definition["indexName"]): definition}
    body = json.dumps({"indexDefinitions": definitions})
    table.store.put(INDEX_DEFINITIONS_PATH, body.encode())
    names = {*table.properties.reload().metadata_partitions, *(item.name for item in made)}
    listed = {
        METADATA_PARTITIONS: ",".join(sorted(names)),
        "hoodie.table.index.defs.path": INDEX_DEFINITIONS_PATH,
    }
    table.properties.update(listed)


def stored_rows(table: HoodieTable, partition: MetadataPartition) -> Mapping[str, ColumnRow]:
    """What a partition of statistics says, by key."""
    return rows_of(MetadataTable(table.store, table.clock).read(partition))


def statistics_of_files(table: HoodieTable) -> Mapping[tuple[str, str], ColumnRow]:
    """The rows of `column_stats`, by file name and column."""
    rows = stored_rows(table, COLUMN_STATS_PARTITION).values()
    return {(row.file, row.column): row for row in rows}


def statistics_of_partitions(table: HoodieTable) -> Mapping[tuple[str, str], ColumnRow]:
    """The rows of `partition_stats`, by partition and column."""
    rows = stored_rows(table, PARTITION_STATS_PARTITION).values()
    return {(row.file, row.column): row for row in rows}


def places_of_keys(table: HoodieTable) -> Mapping[str, KeyPlace]:
    """What `record_index` says."""
    return places_of(MetadataTable(table.store, table.clock).read(RECORD_INDEX_PARTITION))
