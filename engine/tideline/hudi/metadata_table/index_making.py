"""Making one partition of a metadata table that is there, of all that is committed.

Under the lock of the table, so that no commit completes meanwhile:

1. What is left of an earlier attempt is deleted: what step 3 says of it, commits to the metadata
   table that are pending and no instant of the table's, then the partition's folder. No list of
   partitions in use names it. So are instants of Hudi's builds that failed, or this one would be
   taken for what they left.
2. Its records go into the metadata table, as a commit at an instant of zeros above all others.
   Died in between: a pending commit, which the next write takes back, or a folder as in 1.
3. The list of partitions in work. Died after: the next commit of ours takes out all that this
   names, definitions first; Hudi's next write builds the index again, or adds its commit.
4. Its definition, where it has one. Queries of Hudi's believe that of a secondary index without the
   list of those in use.
5. The list of those in use, only where it and that of those in work are still those of step 3.
   From here on readers use the partition, and every commit goes into it.

A process that is paused until its lock has been taken over publishes nothing. Every commit of ours
clears the list of step 3, and so does everything else that changes an index; the write of step 5 is
conditional, on stores where the lock is a lease. Base files are new, and every file group has one,
so that one which another attempt puts there late is refused, or an older slice. A definition that
comes late, or a list behind which Hudi committed during that very request, is taken back by the
process when it wakes (`TableIndexes.create`).

A commit reads the list under the lock, when it is about to complete. So a write that is pending
meanwhile adds its own records; one of ours reads back what its tasks had no reason to measure.
Writes of Hudi's that stream records while they run have chosen their partitions as they began. They
show in the metadata table, and are in the way where a file without records would be lost.

Source: Hudi's HoodieBackedTableMetadataWriter.initializeFilegroupsAndCommit.
"""

from __future__ import annotations

from tideline.errors import (
    ConfigError,
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.hudi.metadata_table.index_build_ending import forget_failed_builds
from tideline.hudi.metadata_table.index_definitions import (
    DEFINITIONS_PATH_PROPERTY,
    define,
    definitions_path,
)
from tideline.hudi.metadata_table.index_dropping import delete_folders, drop_partitions
from tideline.hudi.metadata_table.index_names import needed_by
from tideline.hudi.metadata_table.many_records import Records
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    DefinedPartition,
    MetadataPartition,
    WholeTable,
)
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.table.table_config import (
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
)
from tideline.hudi.timeline.instant import Action
from tideline.storage.lock import Guard, unguarded

NOT_MADE = (
    ConfigError,
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
"""What is raised where an index cannot be made, or not now."""


def initial_records(partition: MetadataPartition, whole: WholeTable) -> Records:
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


def _require_no_streamed_write(
    partition: MetadataPartition, whole: WholeTable, writer: MetadataWriter
) -> None:
    """Raise ConflictError for a commit to the metadata table that is under way, as Hudi's are while
    they write rows."""
    streamed = writer.metadata.timeline().of(Action.DELTACOMMIT).pending().first()
    if streamed is not None and not partition.may_lack_files:
        raise ConflictError(
            f"a write of Hudi is under way that may not know of {partition.name}: try again when "
            "it is done",
            table=whole.table.uri,
            instant=streamed.time,
        )


def make_partition(
    partition: MetadataPartition,
    records: Records,
    whole: WholeTable,
    guard: Guard = unguarded,
) -> None:
    """Make a partition with its initial records, while Hudi builds none.

    Raises ConflictError while a write of Hudi's is under way that may leave it out, or where
    another process took the partition out of the list of those in work; what `guard` raises, and as
    `MetadataWriter`.
    """
    table = whole.table
    definition = partition.definition(whole) if isinstance(partition, DefinedPartition) else None
    writer = MetadataWriter(table, guard)
    build = writer.next_build()
    guard()
    forget_failed_builds(table, whole.timeline, guard)
    in_use = table.config.metadata_partitions
    left = sorted({*table.config.metadata_partitions_in_work}.difference(in_use))
    if left:
        drop_partitions(table, left, in_use, guard)
    writer.sweep(whole.timeline)
    _require_no_streamed_write(partition, whole, writer)
    delete_folders(table, (partition.name,), guard)
    writer.make({partition: records}, build, fills_groups=True)
    table.properties.update({METADATA_PARTITIONS_INFLIGHT: partition.name}, guard)
    as_made = {
        METADATA_PARTITIONS: table.config.properties.get(METADATA_PARTITIONS, ""),
        METADATA_PARTITIONS_INFLIGHT: partition.name,
    }
    listed = {*table.config.metadata_partitions, partition.name}
    changes: dict[str, str | None] = {
        METADATA_PARTITIONS: ",".join(sorted(listed)),
        METADATA_PARTITIONS_INFLIGHT: "",
    }
    if definition is not None:
        changes[DEFINITIONS_PATH_PROPERTY] = definitions_path(table)
        define(table, partition.name, definition, guard)
    table.properties.update(changes, guard, as_made)
