"""Taking partitions out of a metadata table, under the lock of the table.

1. Definitions that queries of Hudi's use without the list. Died after: the list still names the
   partitions, and they go with the next commit.
2. The list. From here on no reader uses them. A record index of the whole table says that keys are
   unique there, which is kept in the same update.
3. Their folders. Died in between: what is left is not used, and goes when the partition is made
   or dropped again.
4. Definitions that count for nothing without the list.

A process that is paused in 3 until another has made the partition again deletes files by the names
that it saw under its lock. A partition that is made again has others (`MetadataWriter.next_build`).
"""

from __future__ import annotations

from collections.abc import Collection

from tideline.hudi.metadata_table.disable import kept_index
from tideline.hudi.metadata_table.index_definitions import drop_definitions, undefine
from tideline.hudi.metadata_table.index_names import needed_by
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    METADATA_TABLE_PATH,
    RECORD_INDEX,
)
from tideline.storage.lock import Guard, unguarded


def drop_partitions(
    table: HoodieTable,
    names: Collection[str],
    kept: Collection[str],
    guard: Guard = unguarded,
) -> None:
    """Take partitions out, so that the list names those that are `kept`."""
    drop_definitions(table, kept, guard)
    listed = {METADATA_PARTITIONS: ",".join(sorted(kept)), METADATA_PARTITIONS_INFLIGHT: ""}
    if RECORD_INDEX in names:
        listed |= kept_index(table)
    table.properties.update(listed, guard)
    delete_folders(table, names, guard)
    undefine(table, names, guard)


def delete_folders(table: HoodieTable, names: Collection[str], guard: Guard = unguarded) -> None:
    """Delete what partitions have that no list names."""
    folders = [f"{METADATA_TABLE_PATH}/{name}" for name in names]
    scope = table.files.delete_scope("dropping partitions of the metadata table", control=folders)
    if table.store.local_path("") is not None:
        # The kernel's lock outlives any pause, and folders that are empty are there.
        for folder in folders:
            guard()
            scope.remove_below(folder)
        return
    seen = [info.path for folder in folders for info in table.store.list(folder)]
    guard()
    scope.remove_many(seen)


def take_back(table: HoodieTable, name: str, guard: Guard = unguarded) -> None:
    """Take a partition back that was listed when the lock may have been taken over already: what
    others committed since may be missing. Call under the lock, which was acquired again."""
    listed = {*table.properties.reload().metadata_partitions}
    if name not in listed:
        return
    gone = {name, *(other for other in listed if name in needed_by(other))}
    drop_partitions(table, sorted(gone), listed - gone, guard)
