"""Does the metadata table list the files that a listing finds, and does it have what is listed?

Readers with a metadata table on believe it: a committed file that it lacks is rows that they miss,
one that is not there fails them. So does a partition that is listed and not there, and an index
that is defined and has no partition. The metadata table was read after the listing; what has been
cleaned or written in between is looked for once more.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.hudi.check.finding import Finding, Repair, RepairKind, error
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.metadata_table.files_partition import FilesPartition
from tideline.hudi.metadata_table.index_definitions import (
    believed_without_partition,
    definitions_path,
)
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.table.file_group import join_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.table_config import FILES, METADATA_TABLE_PATH
from tideline.hudi.timeline.instant import Action

NAME = "metadata table"
_REBUILD = Repair(RepairKind.REBUILD_METADATA_TABLE)


def check_metadata_table(seen: Inspection) -> Iterator[Finding]:
    """Findings about indexes, and about the partition `files`, where it is listed."""
    table = seen.table
    yield from _without_partition(seen)
    if not table.config.keeps_metadata_table:
        return
    try:
        files = MetadataTable(table.store, table.clock).files()
    except (CorruptTableError, UnsupportedTableError, ObjectNotFoundError) as broken:
        if table.reload_config().keeps_metadata_table:
            yield error(
                NAME,
                f"it is in use, and cannot be read: {broken}",
                path=METADATA_TABLE_PATH,
                repair=_REBUILD,
            )
        return
    yield from _not_listed(seen, files)
    yield from _listed_and_gone(seen, files)


def _without_partition(seen: Inspection) -> Iterator[Finding]:
    """Partitions that are listed without a folder, and indexes that are defined without either.

    What is wrong with `files` is said where that is read.
    """
    table = seen.table
    repair = _REBUILD if table.config.keeps_metadata_table else None
    listed = table.config.metadata_partitions
    folders = table.store.list_directory(METADATA_TABLE_PATH).directories if listed else ()
    present = {path.rstrip("/").rpartition("/")[2] for path in folders}
    for name in listed:
        if name != FILES and name not in present:
            yield error(
                NAME,
                f"{name} is listed, and has no folder: Hudi cannot use the metadata table",
                path=f"{METADATA_TABLE_PATH}/{name}",
                repair=repair,
                advice="" if repair else "the next commit here switches the metadata table off",
            )
    for name in believed_without_partition(table, listed):
        yield error(
            NAME,
            f"the index {name} is defined, and the metadata table does not list it: queries of "
            "Hudi that use it fail, or miss rows",
            path=definitions_path(table),
            repair=repair,
            advice="" if repair else "drop the index with Hudi (DROP INDEX)",
        )


def _not_listed(seen: Inspection, files: FilesPartition) -> Iterator[Finding]:
    """Files of the table that readers with a metadata table do not see, or see too short."""
    for partition in seen.view.partitions:
        listed = dict(files.files(partition))
        groups = seen.view.all_file_groups(partition)
        for file in (file for group in groups for piece in group.slices for file in piece.files):
            size_bytes = listed.get(file.name)
            if size_bytes == file.size_bytes:
                continue
            if size_bytes is None and seen.table.store.head(file.path) is None:
                continue  # cleaned since it was listed
            found = "does not list it" if size_bytes is None else f"says {size_bytes:,} bytes"
            yield error(
                NAME,
                f"{found}: readers with a metadata table miss rows of this file of "
                f"{file.size_bytes:,} bytes",
                path=file.path,
                instant=file.instant,
                repair=_REBUILD,
            )


def _listed_and_gone(seen: Inspection, files: FilesPartition) -> Iterator[Finding]:
    """Files that are listed and not there; a clean under way may have just deleted some."""
    if len(seen.timeline.of(Action.CLEAN).pending()):
        return
    for partition, listed in files.listing().items():
        for name, size_bytes in listed:
            file = parse_data_file(partition, name, size_bytes)
            if file is None or not seen.timeline.is_committed(file.instant):
                continue
            path = join_path(partition, name)
            if seen.is_still_missing(path):
                yield error(
                    NAME,
                    "lists a file that is not there: readers with a metadata table may fail",
                    path=path,
                    instant=file.instant,
                    repair=_REBUILD,
                )
