"""What every change of a table does to its metadata table, before it becomes visible.

Readers of Hudi's believe a metadata table without checking, so that each commit either goes into it
or switches it off. Under the lock of the table, when nothing can refuse the commit any more:

1. While Hudi builds an index, which it lists when it is done, the commit is a conflict: it would
   take the index's partition away under it. The instant of a build that failed is deleted.
2. Where none is listed, what lies in its folder is deleted, or one is made where that is wanted.
3. Partitions that are not maintained, or cannot follow the commit, are taken out of the list, then
   deleted. Stale statistics and indexes would hide rows, or make two of one. Definitions that
   queries believe without the list go before. Died in between: what is left is not believed.
4. The commit goes into the partitions that are maintained (`registry`, `writer`).
5. A metadata table that cannot be continued is switched off (`disable`).

Hudi's next writer adds the statistics that its settings enable, and no index that was made by SQL.
Raises ConflictError, and what the store raises: then nothing was committed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from tideline.errors import CorruptTableError
from tideline.hudi.metadata_table.begin_statistics import begin_statistics
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.config import (
    KEEP_AS_IT_IS,
    MetadataTableConfig,
    MetadataTableMode,
)
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.index_build import require_no_index_build
from tideline.hudi.metadata_table.index_build_ending import forget_failed_builds
from tideline.hudi.metadata_table.index_dropping import drop_partitions
from tideline.hudi.metadata_table.index_names import needed_by
from tideline.hudi.metadata_table.many_records import Records
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    CompareKeys,
    MetadataPartition,
    StoredRecords,
    TableChange,
    TableContents,
)
from tideline.hudi.metadata_table.reader import UNREADABLE
from tideline.hudi.metadata_table.registry import kept_partitions, partitions_of_every_table
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS, FILES
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.lock import Guard, unguarded

Changes = Mapping[MetadataPartition, Records]

_NEVER = sys.maxsize

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MetadataOutcome:
    """What became of the metadata table at a commit; `dropped` are partitions, `reasons` why those
    of them went that are kept otherwise."""

    is_disabled: bool = False
    is_new: bool = False
    dropped: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


UNTOUCHED = MetadataOutcome()


def record_commit(
    table: HoodieTable,
    completed: Instant,
    metadata: CommitMetadata,
    timeline: ActiveTimeline,
    config: MetadataTableConfig = KEEP_AS_IT_IS,
    guard: Guard = unguarded,
    compare_keys: CompareKeys | None = None,
    contents: TableContents | None = None,
) -> MetadataOutcome:
    """Make the metadata table ready for a commit that is about to become visible as `completed`,
    in `timeline` as it is under the lock. `contents` reads back what tasks did not measure; without
    `compare_keys` a record index is dropped. Raises what `guard` raises, which is asked before each
    step that others would believe, and ConflictError while Hudi builds an index."""
    change = TableChange(
        table,
        completed,
        timeline,
        written=metadata,
        contents=contents,
        compare_keys=compare_keys,
    )
    return _record(change, config, guard)


def record_clean(
    table: HoodieTable,
    completed: Instant,
    deleted: Iterable[str],
    emptied: Iterable[str],
    timeline: ActiveTimeline,
    config: MetadataTableConfig = KEEP_AS_IT_IS,
    guard: Guard = unguarded,
) -> MetadataOutcome:
    """The same for a clean that deleted these paths, and took these partitions away."""
    change = TableChange(table, completed, timeline, deleted=tuple(deleted), emptied=tuple(emptied))
    return _record(change, config, guard)


def record_rollback(table: HoodieTable, completed: Instant, appended: Mapping[str, int]) -> None:
    """Make the metadata table ready for a rollback that is about to complete and leaves these logs,
    by path with their sizes in bytes: what was undone in them, and the commands that say so.

    It changes no row, so that it goes into `files` alone, also while Hudi builds an index.
    """
    if not appended or not table.properties.reload().keeps_metadata_table:
        return
    timeline = table.timeline()
    change = TableChange(table, completed, timeline, appended=appended)
    records: Changes = {FILES_PARTITION: FILES_PARTITION.changes(change)}
    try:
        MetadataWriter(table, commits_per_compaction=_NEVER).commit(completed, records, timeline)
    except UNREADABLE as error:
        _log.warning("the metadata table is switched off: %s", error)
        disable_metadata_table(table)


def undo_in_metadata_table(table: HoodieTable, time: InstantTime) -> None:
    """Take an instant out of the metadata table that is about to be rolled back.

    Call under the lock, before anything of the instant goes: as long as it is pending readers leave
    it out. Where it cannot be taken out the metadata table is switched off; raises ConflictError
    where Hudi builds an index in it. Died after: as before, for the process that continues the
    rollback.
    """
    if not table.properties.reload().metadata_partitions:
        return
    try:
        is_undone = MetadataWriter(table).undo(time)
    except UNREADABLE as error:
        _log.warning("the metadata table is switched off: %s", error)
        is_undone = False
    if not is_undone:
        disable_metadata_table(table)


def drop_values(table: HoodieTable) -> tuple[str, ...]:
    """Drop the partitions whose records hold values of rows, which are all but `files`; their
    names. Call under the lock."""
    if not table.properties.reload().keeps_metadata_table:
        return ()
    require_no_index_build(table, table.timeline())
    return _drop_others(table, (FILES,), unguarded)


def sweep_metadata_table(table: HoodieTable, timeline: ActiveTimeline) -> None:
    """Take out what writers left there that were rolled back in their sleep. Under the lock."""
    if not table.config.keeps_metadata_table:
        return
    try:
        MetadataWriter(table).sweep(timeline)
    except UNREADABLE as error:
        _log.warning("the metadata table cannot be swept: %s", error)


def _record(change: TableChange, config: MetadataTableConfig, guard: Guard) -> MetadataOutcome:
    table, timeline = change.table, change.timeline
    require_no_index_build(table, timeline)
    forget_failed_builds(table, timeline, guard)
    try:
        made = _followed(partitions_of_every_table(), change, None)[0]
    except CorruptTableError as error:
        _log.warning("the metadata table is switched off: %s", error)
        return MetadataOutcome(is_disabled=disable_metadata_table(table, guard))
    mode, per_compaction = config.mode, config.commits_per_compaction
    may_be_kept = mode is not MetadataTableMode.OFF
    is_kept = may_be_kept and table.properties.reload().keeps_metadata_table
    if not may_be_kept or (not is_kept and mode is not MetadataTableMode.ON):
        is_disabled = disable_metadata_table(table, guard, is_current=may_be_kept)
        return MetadataOutcome(is_disabled=is_disabled)
    if is_kept:
        try:
            return _continue(change, made, per_compaction, guard)
        except UNREADABLE as error:
            _log.warning("the metadata table cannot be continued: %s", error)
            if mode is not MetadataTableMode.ON:
                return MetadataOutcome(is_disabled=disable_metadata_table(table, guard))
    bootstrap_metadata_table(table, timeline, guard)
    if config.begins_statistics and table.layout.keeps_partition(COLUMN_STATS):
        begin_statistics(change, config.statistics, guard)
    return replace(_continue(change, made, per_compaction, guard), is_new=True)


def _continue(
    change: TableChange, made: Changes, per_compaction: int, guard: Guard
) -> MetadataOutcome:
    """Steps 3 and 4 for a metadata table that is there; `made` are the records of the partitions
    that every table has. Where another one cannot be read, all others are dropped."""
    writer = MetadataWriter(change.table, guard, per_compaction)
    kept = kept_partitions(change.table)
    others = {name: partition for name, partition in kept.items() if partition not in made}
    try:
        records, left_out = _followed(others, change, writer.metadata)
        return _commit(change, writer, {**made, **records}, left_out, guard)
    except UNREADABLE as error:
        if not others:
            raise
        left_out = dict.fromkeys(others, f"it cannot be read: {error}")
        return _commit(change, writer, made, left_out, guard)


def _commit(
    change: TableChange,
    writer: MetadataWriter,
    records: Changes,
    left_out: Mapping[str, str],
    guard: Guard,
) -> MetadataOutcome:
    """Drop what is not among the partitions with records, then commit these."""
    for name, reason in left_out.items():
        _log.warning("%s is dropped from the metadata table: %s", name, reason)
    names = sorted(partition.name for partition in records)
    dropped = _drop_others(change.table, names, guard)
    writer.commit(change.completed, records, change.timeline)
    return MetadataOutcome(dropped=dropped, reasons=tuple(dict.fromkeys(left_out.values())))


def _followed(
    partitions: Mapping[str, MetadataPartition], change: TableChange, stored: StoredRecords | None
) -> tuple[Changes, Mapping[str, str]]:
    """The records of the partitions that follow a change, and why others do not."""
    records: dict[MetadataPartition, Records] = {}
    left_out: dict[str, str] = {}
    for name, partition in partitions.items():
        found = partition.changes(change, stored)
        if isinstance(found, CannotFollow):
            left_out[name] = found.reason
        else:
            records[partition] = found
    for partition in tuple(records):
        for needed in needed_by(partition.name):
            if needed in left_out:
                left_out[partition.name] = f"it is of no use without {needed}"
                records.pop(partition, None)
    return records, left_out


def _drop_others(table: HoodieTable, kept: Collection[str], guard: Guard) -> tuple[str, ...]:
    """Take every partition that is not kept out of the metadata table; the names of what went."""
    others = tuple(sorted({*table.config.metadata_partitions_in_work}.difference(kept)))
    if others:
        drop_partitions(table, others, kept, guard)
    return others
