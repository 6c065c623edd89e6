"""What a write reports to its caller: the commit, summed up over its files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tideline.hudi.metadata_table.keep import MetadataOutcome
from tideline.hudi.recovery.execute import RolledBack
from tideline.hudi.services.scheduler import AfterCommit
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.write.write_request import WriteDone
from tideline.iceberg.write.write_request import IcebergWritten
from tideline.resource_usage import ResourceUsage
from tideline.wording import counted


@dataclass(frozen=True, slots=True)
class CommitReport:
    """One commit. `rows_written` counts all rows of the new files, copied ones included.

    `core_seconds` and `requests` are what it took of this machine's processors and of the store
    (`ResourceUsage`), from the first look at the table to the commit. `index_lookups` are looks
    into an index instead of files, `index_fallbacks` looks into files though there is an index,
    which lags or cannot be read.

    `rolled_back` names the instants of dead writers that were undone first; `notes` say what a
    person should know, such as a metadata table that had to be switched off; `services` is what
    table services did after the commit. `is_repeat`: an earlier write with the same token made the
    commit, and nothing was written now. `keys_unique_in`: "partition" or "table", what an upsert of
    a partitioned table kept unique. `columns_added` names new columns with the types they were
    given, `columns_widened` others with the old and the new type; of many the first.
    """

    instant: str
    operation: str
    files_written: int
    file_groups_replaced: int
    rows_written: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    bytes_written: int
    seconds: float
    core_seconds: float = 0.0
    requests: int = 0
    index_lookups: int = 0
    index_fallbacks: int = 0
    rolled_back: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    services: tuple[AfterCommit, ...] = ()
    is_repeat: bool = False
    keys_unique_in: str | None = None
    columns_added: tuple[str, ...] = ()
    columns_widened: tuple[str, ...] = ()

    def to_json_object(self) -> dict[str, Any]:
        services = [service.to_json_object() for service in self.services]
        return {**asdict(replace(self, services=())), "services": services}


def report_write(done: WriteDone) -> CommitReport:
    """Sum up a commit."""
    committed = done.committed
    stats = _stats(committed.metadata)
    replaced = committed.metadata.partition_to_replace_file_ids or {}
    return CommitReport(
        instant=str(committed.instant.time),
        operation=done.operation.value,
        files_written=len(stats),
        file_groups_replaced=sum(len(ids) for ids in replaced.values()),
        rows_written=sum(stat.num_writes for stat in stats),
        rows_inserted=sum(stat.num_inserts for stat in stats),
        rows_updated=sum(stat.num_update_writes for stat in stats),
        rows_deleted=sum(stat.num_deletes for stat in stats),
        bytes_written=sum(stat.total_write_bytes for stat in stats),
        seconds=done.seconds,
        core_seconds=done.spent.core_seconds,
        requests=done.spent.requests,
        index_lookups=done.spent.index_lookups,
        index_fallbacks=done.spent.index_fallbacks,
        rolled_back=tuple(str(undone.instant) for undone in done.rolled_back),
        notes=_notes(done),
        is_repeat=done.is_repeat,
        keys_unique_in=done.keys_unique_in,
        columns_added=done.schema_change.added_texts,
        columns_widened=done.schema_change.widened_texts,
    )


def report_iceberg_write(
    done: IcebergWritten, seconds: float, spent: ResourceUsage
) -> CommitReport:
    """The snapshot of an Iceberg table that a write made, in the same words."""
    rows, instant = done.rows, str(done.snapshot.snapshot_id)
    note = f"this write took place already, as {instant}; nothing was written"
    return CommitReport(
        instant=instant,
        operation=done.operation.value,
        files_written=done.count("added-data-files") + done.count("added-delete-files"),
        file_groups_replaced=done.count("deleted-data-files"),
        rows_written=done.count("added-records"),
        rows_inserted=rows.inserted,
        rows_updated=rows.updated,
        rows_deleted=rows.deleted,
        bytes_written=done.count("added-files-size"),
        seconds=seconds,
        core_seconds=spent.core_seconds,
        requests=spent.requests,
        notes=(note,) if done.is_repeat else (),
        is_repeat=done.is_repeat,
    )


def _taken_back(undone: RolledBack) -> str:
    """What was appended to logs stays there, behind a command to skip it."""
    count = len(undone.command_logs)
    return f", appends to {counted(count, 'file group')} taken back" if count else ""


def _stats(metadata: CommitMetadata) -> list[WriteStat]:
    return [stat for found in metadata.partition_to_write_stats.values() for stat in found]


def _notes(done: WriteDone) -> tuple[str, ...]:
    committed, notes = done.committed, []
    if done.is_repeat:
        when = committed.instant.time
        notes.append(f"this write took place already, as {when}; nothing was written")
    notes += [
        f"rolled back {undone.instant} ({undone.action}), which a writer left unfinished: "
        f"{counted(len(undone.deleted), 'file')} deleted{_taken_back(undone)}"
        for undone in done.rolled_back
    ]
    if committed.leftovers_deleted:
        notes.append(
            f"deleted {counted(len(committed.leftovers_deleted), 'file')} of retried tasks"
        )
    return (*notes, *_metadata_notes(committed.metadata_table), *done.notes)


def _metadata_notes(outcome: MetadataOutcome) -> tuple[str, ...]:
    if outcome.is_disabled:
        return (
            "switched off the table's Hudi metadata table, which could not be kept up to date; "
            "Hudi makes it again at its next write, without the indexes that SQL created; open "
            "Spark SQL sessions need REFRESH TABLE",
        )
    if outcome.is_new:
        without = f"; no statistics, {_why_dropped(outcome)}" if outcome.dropped else ""
        return (f"made the table's Hudi metadata table, with the partition files{without}",)
    if outcome.dropped:
        names = ", ".join(outcome.dropped)
        return (
            f"dropped {names} from the table's Hudi metadata table, {_why_dropped(outcome)}; Hudi "
            "makes those of its settings again at its next write, but no secondary or expression "
            "index; open Spark SQL sessions need REFRESH TABLE",
        )
    return ()


def _why_dropped(outcome: MetadataOutcome) -> str:
    if outcome.reasons:
        return f"as {'; '.join(outcome.reasons)}"
    return "where no expression index is kept, nor one that is not known"
