"""The file slices that a change of a table touches, before and after it.

Partitions of the metadata table that say something of rows or of whole partitions compare them.
Files are those that `files` lists, and those of the change itself: no folder is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tideline.hudi.metadata_table.files_partition import FILES_PARTITION, key_of_files
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    SlicePair,
    StoredRecords,
    TableChange,
    WholeTable,
)
from tideline.hudi.table.file_group import (
    FileGroupId,
    FileSlice,
    join_path,
    replaced_groups,
    split_path,
)
from tideline.hudi.table.file_system_view import Listing
from tideline.hudi.timeline.commit_metadata import WriteStat

if TYPE_CHECKING:
    import pyarrow as pa

Slices = Mapping[FileGroupId, FileSlice]
"""The newest slice of each live file group of the partitions that are touched."""


def touched_partitions(change: TableChange) -> frozenset[str]:
    """The partitions whose live files a change adds to or replaces."""
    if change.written is None:
        return frozenset()
    replaced = change.written.partition_to_replace_file_ids or {}
    return frozenset((*change.written.partition_to_write_stats, *replaced))


def written_files(change: TableChange) -> tuple[WriteStat, ...]:
    """The stats of the files that a change adds."""
    stats = change.written.write_stats if change.written is not None else ()
    return tuple(stat for stat in stats if stat.path)


def slices_before(change: TableChange, stored: StoredRecords) -> Slices:
    """The slices that the table has before a change.

    Names of logs do not say everywhere that the change wrote them.
    """
    added = {stat.path for stat in written_files(change)}
    listing = {
        partition: tuple(file for file in files if join_path(partition, file[0]) not in added)
        for partition, files in change.once(_listed, stored).items()
    }
    view = change.table.files.view_of(listing, change.timeline)
    return {file_slice.group: file_slice for file_slice in view.all_latest_slices()}


def slices_after(change: TableChange, stored: StoredRecords) -> Slices:
    """Those that it has once the change is completed."""
    replaced = dict(change.table.commits.replaced_groups(change.timeline))
    if change.written is not None:
        replaced |= dict.fromkeys(replaced_groups(change.written), change.completed.time)
    listed = change.once(_listed, stored)
    view = change.table.files.view_of(listed, change.timeline_after, replaced)
    return {file_slice.group: file_slice for file_slice in view.all_latest_slices()}


def keys_of_table(
    whole: WholeTable, value_column: str | None = None
) -> list[tuple[FileSlice, pa.Array]] | CannotFollow:
    """The keys of each slice that a table has, as `CompareKeys` compares them; of none that has
    none."""
    if whole.compare_keys is None:
        return CannotFollow("rows are not looked at")
    slices = whole.table.files.view(whole.timeline).all_latest_slices()
    pairs = [SlicePair(None, file_slice) for file_slice in slices]
    found = whole.compare_keys(whole.timeline, whole.timeline, pairs, value_column)
    return [
        (file_slice, keys.added)
        for file_slice, keys in zip(slices, found, strict=True)
        if keys.added is not None
    ]


def _listed(change: TableChange, stored: StoredRecords) -> Listing:
    """All files of the touched partitions, those of the change among them."""
    partitions = touched_partitions(change)
    keys = [key_of_files(partition) for partition in partitions]
    listed = FILES_PARTITION.look_up(stored.look_up(FILES_PARTITION, keys)).listing(partitions)
    sizes = {partition: dict(files) for partition, files in listed.items()}
    for stat in written_files(change):
        partition, name = split_path(stat.path or "")
        sizes[partition][name] = stat.file_size_in_bytes
    return {partition: tuple(files.items()) for partition, files in sizes.items()}
