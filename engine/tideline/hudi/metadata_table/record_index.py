"""Does Hudi keep a record index of the table, and what does that say about its keys?

A record index is a partition of the metadata table that holds one place for each record key. Hudi's
older kind, the only one before 1.1, holds one for the whole table: a key in two partitions makes it
wrong, and rebuilding it fails. The newer kind, recognised by `isPartitioned` in the index
definitions, holds one for each partition of the table.

Source: Hudi's HoodieIndexDefinition, MetadataPartitionType.RECORD_INDEX (1.2).
"""

from __future__ import annotations

from tideline.hudi.metadata_table.index_definitions import has_option
from tideline.hudi.table.hoodie_table import HoodieTable

RECORD_INDEX_PARTITION = "record_index"


def has_global_record_index(table: HoodieTable) -> bool:
    """Whether the properties, as they were read last, name a record index of the whole table.

    Also one that is being built. Raises CorruptTableError when its definition cannot be read.
    """
    partitions = table.config.metadata_partitions_in_work
    return RECORD_INDEX_PARTITION in partitions and not has_option(
        table, RECORD_INDEX_PARTITION, "isPartitioned"
    )
