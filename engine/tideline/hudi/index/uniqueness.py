"""Are record keys unique in the whole table, or each in its partition?

Writers of Hudi choose by their index and leave no trace of it, but for a record index in the
metadata table. So it is known from what the table keeps:

1. `tideline.index.type` names a global index: given at creation, declared, or kept from a record
   index when its metadata table was switched off.
2. Hudi's properties name a record index of the whole table.

Where nothing says so, every write decides by its own index. In a table without partitions both are
the same.
"""

from __future__ import annotations

from tideline.errors import ConfigError, CorruptTableError
from tideline.hudi.index.bucket_recognition import names_layout
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.metadata_table.record_index import has_global_record_index
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import INDEX_TYPE, METADATA_PARTITIONS, TableConfig


def global_index(table: HoodieTable) -> IndexType | None:
    """The index that makes keys unique in the whole table; None where nothing says that they are.

    Uses the properties as last read. Raises ConfigError for an index that does not exist,
    CorruptTableError for index definitions that cannot be read.
    """
    config = table.config
    if not config.partition_fields:
        return None
    declared = declared_index(config)
    if declared is not None and declared.is_global:
        return declared
    return IndexType.RECORD_INDEX if has_global_record_index(table) else None


def declared_index(config: TableConfig) -> IndexType | None:
    """The index that the table's own property names."""
    return None if config.index_type is None else IndexType.parse(config.index_type)


def says_unique(table: HoodieTable) -> str:
    """What says that keys are unique in the whole table, for messages."""
    declared = declared_index(table.config)
    if declared is not None and declared.is_global:
        return f"{INDEX_TYPE}={declared}"
    return f"record_index in {METADATA_PARTITIONS}"


IN_PARTITION = "unique in their partition: a row whose partition changes is stored in both"
IN_TABLE = "unique in the whole table"


def described(table: HoodieTable) -> str | None:
    """Where keys are unique, in words; None for a table without partitions."""
    if not table.config.partition_fields:
        return None
    try:
        found = global_index(table)
    except (ConfigError, CorruptTableError) as error:
        return f"not known: {error.message}"
    if found is not None:
        return f"{IN_TABLE} ({says_unique(table)})"
    return IN_PARTITION if names_layout(table.config) else f"{IN_PARTITION}{_UNLESS}"


_UNLESS = ", unless every writer names a global index (`tideline declare --index` keeps one)"
