"""Does the metadata table list the files that a listing finds, and does it have what is listed?

Readers with a metadata table on believe it: a committed file that it lacks is rows that they miss,
one that is not there fails them. So does a partition that is listed and not there, and an index
that is defined and has no partition. The metadata table was read after the listing; what has been
cleaned or written in between is looked for once more.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, Repair, RepairKind, error
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.metadata_table.index_definitions import (
    believed_without_partition,
    definitions_path,
)
from tideline.hudi.metadata_table.partition import SeenTable
from tideline.hudi.metadata_table.reader import UNREADABLE, MetadataTable
from tideline.hudi.metadata_table.registry import kept_partitions
from tideline.hudi.recovery.undo import may_count
from tideline.hudi.table.table_config import FILES, METADATA_TABLE_PATH

NAME = "metadata table"
_REBUILD = Repair(RepairKind.REBUILD_METADATA_TABLE)


def check_metadata_table(seen: Inspection) -> Iterator[Finding]:
    """Findings about indexes, and about the partitions that are kept, where they are listed."""
    table = seen.table
    yield from _without_partition(seen)
    if not table.config.keeps_metadata_table:
        return
    sample = SeenTable(
        seen.view,
        seen.timeline,
        seen.objects,
        lambda path: table.store.head(path) is None,
        lambda log: may_count(table, log, seen.timeline),
    )
    try:
        metadata = MetadataTable(table.store, table.clock)
        for partition in kept_partitions(table).values():
            for wrong in partition.verify(metadata.read(partition), sample):
                yield error(
                    NAME, wrong.message, path=wrong.path, instant=wrong.instant, repair=_REBUILD
                )
    except UNREADABLE as broken:
        if table.properties.reload().keeps_metadata_table:
            yield error(
                NAME,
                f"it is in use, and cannot be read: {broken}",
                path=METADATA_TABLE_PATH,
                repair=_REBUILD,
            )


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
