"""The partitions of a metadata table that are kept up to date here."""

from __future__ import annotations

from tideline.hudi.metadata_table.bloom_filters import BLOOM_FILTERS_PARTITION
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.partition_stats import PARTITION_STATS_PARTITION
from tideline.hudi.metadata_table.record_index import RECORD_INDEX_PARTITION
from tideline.hudi.metadata_table.secondary_index import (
    new_secondary_index,
    secondary_indexes,
)
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import SECONDARY_INDEX

PARTITIONS: tuple[MetadataPartition, ...] = (
    FILES_PARTITION,
    COLUMN_STATS_PARTITION,
    PARTITION_STATS_PARTITION,
    BLOOM_FILTERS_PARTITION,
    RECORD_INDEX_PARTITION,
)


def makeable_partitions() -> dict[str, MetadataPartition]:
    """Those that are made on demand, by name, but secondary indexes, whose names are free."""
    return {name: item for name, item in _by_name().items() if not item.is_in_every_table}


def makeable_partition(
    table: HoodieTable, name: str, columns: tuple[str, ...] | None
) -> MetadataPartition | None:
    """The one of a name that is made on demand, of these columns where it is made of some."""
    if name.startswith(SECONDARY_INDEX) and name != SECONDARY_INDEX:
        return new_secondary_index(table, name, columns)
    return makeable_partitions().get(name)


def partitions_of_every_table() -> dict[str, MetadataPartition]:
    """Those that a metadata table is made with, by name, as the property of the table lists
    them."""
    return {name: item for name, item in _by_name().items() if item.is_in_every_table}


def kept_partitions(table: HoodieTable) -> dict[str, MetadataPartition]:
    """Those that a table lists and that are kept in its version, by name. Raises CorruptTableError
    where the definitions of indexes that it lists cannot be read."""
    listed = [
        name for name in table.config.metadata_partitions if table.layout.keeps_partition(name)
    ]
    found = {name: item for name, item in _by_name().items() if name in listed}
    return found | {item.name: item for item in secondary_indexes(table)}


def _by_name() -> dict[str, MetadataPartition]:
    return {item.name: item for item in sorted(PARTITIONS, key=lambda item: item.name)}
