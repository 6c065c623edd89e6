"""Which rows of a write tasks get together, before they make files of them.

Iceberg's own writers in Spark do the same by default in a table without partitions. In one with
partitions and a sort order they divide a partition by the order, which makes more files.
Source: Iceberg's `SparkWriteConf`.
"""

from __future__ import annotations

from enum import Enum

from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_settings import WriteSettings

_MODE, _MERGE_MODE = "write.distribution-mode", "write.merge.distribution-mode"


class Distribution(Enum):
    """Rows stay where they are; those of a partition come together; or those that are next to each
    other in the sort order of a table without partitions."""

    IN_PLACE = "in place"
    BY_PARTITION = "by partition"
    IN_ORDER = "in order"

    @classmethod
    def of(
        cls, metadata: TableMetadata, settings: WriteSettings, operation: IcebergOperation
    ) -> Distribution:
        """As the table's properties say. Rows that a delete leaves stay in place, or by
        partition."""
        mode = settings.properties.get(_MODE, "")
        if operation is IcebergOperation.UPSERT:
            mode = settings.properties.get(_MERGE_MODE, mode)
        if mode.lower() == "none":
            return cls.IN_PLACE
        if not metadata.spec(metadata.default_spec_id).is_unpartitioned:
            return cls.BY_PARTITION
        is_sorted = bool(metadata.sort_order().fields)
        if not is_sorted or mode.lower() == "hash" or operation is IcebergOperation.DELETE:
            return cls.IN_PLACE
        return cls.IN_ORDER
