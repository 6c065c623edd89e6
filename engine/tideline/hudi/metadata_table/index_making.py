"""Making one partition of a metadata table that is there, of all that is committed.

Under the lock of the table, so that no commit completes meanwhile:

1. What is left of an earlier attempt is deleted: commits to the metadata table that are pending
   and no instant of the table's, then the partition's folder. No list names it.
2. Its records go into the metadata table, as a commit at the first instant of zeros that is free.
   Died in between: a pending commit, which the next write takes back, or a folder as in 1.
3. Its definition, where it has one. Queries of Hudi's use none of these without the list.
4. The list. From here on readers use the partition, and every commit goes into it.

A commit reads the list under the lock, when it is about to complete. So a write of ours, or of
Hudi's, that is pending meanwhile adds its own records; ours reads back what its tasks had no
reason to measure.

Source: Hudi's HoodieBackedTableMetadataWriter.initializeFilegroupsAndCommit.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.metadata_table.index_build import require_no_index_build
from tideline.hudi.metadata_table.index_definitions import (
    DEFINITIONS_PATH_PROPERTY,
    define,
    definitions_path,
)
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    DefinedPartition,
    MetadataPartition,
    WholeTable,
)
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.registry import needed_by
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.table.table_config import METADATA_PARTITIONS, METADATA_TABLE_PATH
from tideline.storage.lock import Guard, unguarded


def initial_records(partition: MetadataPartition, whole: WholeTable) -> Sequence[MetadataRecord]:
    """The records of a partition that is made. Raises UnsupportedTableError naming what is in the
    way."""
    found = partition.initial(whole)
    if isinstance(found, CannotFollow):
        raise UnsupportedTableError(
            f"{partition.name} cannot be made: {found.reason}", table=whole.table.uri
        )
    return found


def require_makeable(partition: MetadataPartition, whole: WholeTable) -> None:
    """Raise ConfigError where the partition is there already, or one that it builds on is not."""
    listed = whole.table.config.metadata_partitions
    if partition.name in listed:
        raise ConfigError(
            f"the metadata table has {partition.name} already; to make it again, drop it first",
            table=whole.table.uri,
        )
    missing = [name for name in needed_by(partition.name) if name not in listed]
    if missing:
        raise ConfigError(
            f"{partition.name} is made of {', '.join(missing)}: create that first",
            table=whole.table.uri,
        )


def make_partition(
    partition: MetadataPartition, whole: WholeTable, guard: Guard = unguarded
) -> int:
    """Make a partition of a table as it is under the lock; how many records it has.

    Raises as `require_makeable` and `initial_records`, ConflictError while Hudi builds an index,
    what `guard` raises, and as `MetadataWriter`.
    """
    table = whole.table
    require_makeable(partition, whole)
    require_no_index_build(table, whole.timeline)
    definition = partition.definition(whole) if isinstance(partition, DefinedPartition) else None
    records = initial_records(partition, whole)
    writer = MetadataWriter(table, guard)
    guard()
    writer.sweep(whole.timeline)
    folder = f"{METADATA_TABLE_PATH}/{partition.name}"
    scope = table.files.delete_scope("making an index", control=(folder,))
    scope.remove_below(folder)
    writer.make({partition: records}, writer.next_build())
    listed = {*table.config.metadata_partitions, partition.name}
    changes: dict[str, str | None] = {METADATA_PARTITIONS: ",".join(sorted(listed))}
    if definition is not None:
        changes[DEFINITIONS_PATH_PROPERTY] = definitions_path(table)
        define(table, partition.name, definition, guard)
    table.properties.update(changes, guard)
    return len(records)
