"""Making the metadata table of a table that has none, with the partitions that are kept.

Under the lock of the table, from a listing of its folder:

1. What an earlier attempt left in `.hoodie/metadata` is deleted. No property names it, so that no
   reader looks at it.
2. The properties of the metadata table, then a commit at an instant of zeros with everything that
   is committed (`MetadataWriter.make`). Died in between: as 1.
3. The property of the table that lists the partitions. From here on readers believe it, and every
   commit must be in it.

Source: Hudi's HoodieBackedTableMetadataWriter.initializeFromFilesystem.
"""

from __future__ import annotations

from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.metadata_table.index_making import initial_records
from tideline.hudi.metadata_table.partition import WholeTable
from tideline.hudi.metadata_table.registry import partitions_of_every_table
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.merge_mode import CUSTOM_MODE, MERGED_BY_PAYLOAD
from tideline.hudi.table.properties import PROPERTIES_PATH, format_properties, table_checksum
from tideline.hudi.table.table_config import (
    BASE_FILE_FORMAT,
    CHECKSUM,
    DROP_PARTITION_COLUMNS,
    KEY_GENERATOR_TYPE,
    MERGE_MODE,
    MERGE_STRATEGY_ID,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    METADATA_TABLE_PATH,
    NAME,
    PAYLOAD_CLASS,
    POPULATE_META_FIELDS,
    RECORD_KEY_FIELDS,
    TYPE,
    TableType,
)
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.storage.lock import Guard, unguarded
from tideline.storage.store_below import StoreBelow

_PROPERTIES = {
    TYPE: str(TableType.MERGE_ON_READ),
    BASE_FILE_FORMAT: "HFILE",
    POPULATE_META_FIELDS: "false",
    RECORD_KEY_FIELDS: "key",
    KEY_GENERATOR_TYPE: "HOODIE_TABLE_METADATA",
    MERGE_MODE: CUSTOM_MODE,
    MERGE_STRATEGY_ID: MERGED_BY_PAYLOAD,
    PAYLOAD_CLASS: "org.apache.hudi.metadata.HoodieMetadataPayload",
    DROP_PARTITION_COLUMNS: "false",
}


def bootstrap_metadata_table(
    table: HoodieTable, timeline: ActiveTimeline, guard: Guard = unguarded
) -> None:
    """Make a metadata table that lists what is committed by `timeline`. Call under the lock."""
    disable_metadata_table(table, guard)
    store = StoreBelow(table.store, METADATA_TABLE_PATH)
    properties = _properties(table)
    store.put(PROPERTIES_PATH, format_properties(properties, updated_at_ms=table.clock.now_ms()))
    kept = partitions_of_every_table()
    whole = WholeTable(table, timeline)
    initial = {partition: initial_records(partition, whole) for partition in kept.values()}
    MetadataWriter(table, guard).make(initial)
    listed = {METADATA_PARTITIONS: ",".join(kept), METADATA_PARTITIONS_INFLIGHT: ""}
    table.properties.update(listed, guard)


def _properties(table: HoodieTable) -> dict[str, str]:
    properties = {
        **table.layout.properties.created,
        **_PROPERTIES,
        NAME: f"{table.config.name}_metadata",
    }
    return properties | {CHECKSUM: table_checksum(properties)}
