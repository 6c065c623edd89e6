"""The partitions that a metadata table of ours has."""

from __future__ import annotations

from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.partition import MetadataPartition

PARTITIONS: tuple[MetadataPartition, ...] = (FILES_PARTITION,)


def kept_partitions() -> dict[str, MetadataPartition]:
    """By name, sorted as the property of the table lists them."""
    return {item.name: item for item in sorted(PARTITIONS, key=lambda item: item.name)}
