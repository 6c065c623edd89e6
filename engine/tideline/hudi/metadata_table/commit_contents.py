"""What commits to a metadata table, and plans of its compactions, say of files; which commits are
newer than the last compaction."""

from __future__ import annotations

from collections.abc import Iterable

from tideline.hudi.metadata_table.record import record_schema_json
from tideline.hudi.table.file_group import FileSlice, LogFile
from tideline.hudi.table.pending_plan import operation_record
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime

_COMPACTION_PLAN_VERSION = 2


def log_stat(
    written: tuple[LogFile, FileSlice | None], time: InstantTime, records: int
) -> WriteStat:
    """What a commit at `time` says of a log it wrote on top of a slice."""
    log, file_slice = written
    base_instant = time if file_slice is None else file_slice.base_instant
    return WriteStat(
        file_id=log.file_id,
        path=log.path,
        prev_commit=str(base_instant),
        num_writes=records,
        num_update_writes=records,
        total_write_bytes=log.size_bytes,
        partition_path=log.partition,
        file_size_in_bytes=log.size_bytes,
        log_version=log.version,
        base_file="",
        log_files=(log.name,),
    )


def commit_of(
    stats: Iterable[WriteStat], *, operation_type: str = "UPSERT_PREPPED", compacted: bool = False
) -> CommitMetadata:
    """The metadata of a commit to the metadata table."""
    extra = {SCHEMA_KEY: record_schema_json()}
    return CommitMetadata.of_stats(
        stats, operation_type=operation_type, extra_metadata=extra, compacted=compacted
    )


def plan_of(slices: Iterable[FileSlice]) -> dict[str, object]:
    """The plan of a compaction of these slices."""
    return {
        "operations": [operation_record(file_slice, {}) for file_slice in slices],
        "extraMetadata": {},
        "version": _COMPACTION_PLAN_VERSION,
        "preserveHoodieMetadata": False,
        "missingSchedulePartitions": [],
    }


def since_compaction(timeline: ActiveTimeline) -> list[Instant]:
    """The commits that completed since the last compaction."""
    last = timeline.of(Action.COMMIT).completed().last()
    return [
        instant
        for instant in timeline.of(Action.DELTACOMMIT).completed()
        if last is None or (instant.completed_at or instant.time) > last.time
    ]
