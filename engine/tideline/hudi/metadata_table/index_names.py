"""Names of indexes, which are partitions of a metadata table: what is made on demand, and of what.

Pure, for those who check what is asked for before there is a table.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.hudi.table.table_config import (
    COLUMN_STATS,
    EXPRESSION_INDEX,
    FILES,
    KEPT_IN_METADATA_TABLE,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX,
)

MADE_ON_DEMAND = tuple(name for name in KEPT_IN_METADATA_TABLE if name != FILES)
"""But secondary indexes, whose names are free."""
BELIEVED = (SECONDARY_INDEX, EXPRESSION_INDEX)
"""How the names of indexes begin that are defined for as long as they are built or used."""
FOLLOWED_TYPES = frozenset({"string", "int", "long", "boolean"})
"""The Avro types of columns that a secondary index follows."""
_NEEDED: Mapping[str, tuple[str, ...]] = {
    PARTITION_STATS: (COLUMN_STATS,),
    SECONDARY_INDEX: (RECORD_INDEX,),
}
"""What partitions are made of and looked up in, by how their names begin."""


def needed_by(name: str) -> tuple[str, ...]:
    """The partitions without which one is worth nothing."""
    return tuple(
        needed for prefix, those in _NEEDED.items() if name.startswith(prefix) for needed in those
    )
