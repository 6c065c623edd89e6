"""Which partitions of the metadata table the next commit keeps, and what that takes of each commit.

A partition says it itself (`MetadataPartition.upkeep`), given what was listed; nothing is read but
the definitions of indexes and the table's schema. What only rows tell, such as NaN in a column, may
still end one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tideline.hudi.adoption.table_state import PartitionState
from tideline.hudi.metadata_table.index_names import needed_by
from tideline.hudi.metadata_table.partition import CannotFollow, StoredSizes, WholeTable
from tideline.hudi.metadata_table.registry import kept_partitions
from tideline.hudi.table.file_counts import FileCounts
from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    EXPRESSION_INDEX,
    FILES,
    METADATA_TABLE_PATH,
)
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.storage.object_store import ObjectInfo

_LOSES_ROWS = "queries of Hudi 1.2 lose rows where a table has an expression index"
_UNKNOWN = "it is of no kind that is kept in tables of this version"


def read_partitions(
    table: HoodieTable,
    timeline: ActiveTimeline,
    objects: Iterable[ObjectInfo],
    files: FileCounts,
) -> tuple[PartitionState, ...]:
    """Of every partition but `files`, by name; nothing where the metadata table is not kept.

    `objects` are those of the table's folder, `files` what readers see of it. Raises
    CorruptTableError where the definitions of indexes cannot be read.
    """
    config = table.config
    if not config.keeps_metadata_table:
        return ()
    stored = _stored_below(objects)
    kept = kept_partitions(table)
    whole = WholeTable(table, timeline)
    counts = StoredSizes(files.partitions, files.file_groups, files.base_files, files.size_bytes)
    found: dict[str, PartitionState] = {}
    for name in sorted({*config.metadata_partitions} - {FILES}):
        groups, size_bytes = stored.get(name, (0, 0))
        if name in kept:
            sizes = replace(counts, index_file_groups=groups, index_bytes=size_bytes)
            upkeep = kept[name].upkeep(whole, sizes)
            found[name] = (
                PartitionState(name, why_dropped=upkeep.reason)
                if isinstance(upkeep, CannotFollow)
                else PartitionState(name, upkeep.reads, upkeep.writes)
            )
        elif name.startswith(EXPRESSION_INDEX):
            found[name] = PartitionState(name, why_dropped=_LOSES_ROWS)
        else:
            found[name] = PartitionState(name, why_dropped=_UNKNOWN)
    return tuple(_without_others(found))


def _without_others(found: dict[str, PartitionState]) -> Iterator[PartitionState]:
    """One that is looked up in another goes with it."""
    for name, partition in found.items():
        gone = [other for other in needed_by(name) if other in found and found[other].is_dropped]
        reason = f"it is of no use without {', '.join(gone)}"
        yield PartitionState(name, why_dropped=reason) if gone else partition


def _stored_below(objects: Iterable[ObjectInfo]) -> dict[str, tuple[int, int]]:
    """How many file groups each partition of the metadata table has, and what its files take."""
    groups: dict[str, set[str]] = {}
    sizes: dict[str, int] = {}
    for info in objects:
        folder, name = split_path(info.path)
        above, _, partition = folder.rpartition("/")
        file = name.lstrip(".")
        if above != METADATA_TABLE_PATH or file.startswith("hoodie_"):
            continue
        groups.setdefault(partition, set()).add(file.partition("_")[0])
        sizes[partition] = sizes.get(partition, 0) + info.size_bytes
    return {name: (len(found), sizes[name]) for name, found in groups.items()}
