"""The partitions of a metadata table that are kept up to date here."""

from __future__ import annotations

from collections.abc import Collection

from tideline.hudi.metadata_table.bloom_filters import BLOOM_FILTERS_PARTITION
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.partition_stats import PARTITION_STATS_PARTITION

PARTITIONS: tuple[MetadataPartition, ...] = (
    FILES_PARTITION,
    COLUMN_STATS_PARTITION,
    PARTITION_STATS_PARTITION,
    BLOOM_FILTERS_PARTITION,
)


def partitions_of_every_table() -> dict[str, MetadataPartition]:
    """Those that a metadata table is made with, by name, as the property of the table lists
    them."""
    return {name: item for name, item in _by_name().items() if item.is_in_every_table}


def kept_partitions(listed: Collection[str]) -> dict[str, MetadataPartition]:
    """Those of the listed ones that are kept, by name."""
    return {name: item for name, item in _by_name().items() if name in listed}


def _by_name() -> dict[str, MetadataPartition]:
    return {item.name: item for item in sorted(PARTITIONS, key=lambda item: item.name)}
