"""Operations that look after a table: services, savepoints, restores.

Each is one call of the table's own; what is here turns it into a result. Running a service plans
anew: whatever happened since the operation was written down, only what is due is done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tideline.clock import Clock
from tideline.hudi.services.archival.execute import ArchivalDone
from tideline.hudi.services.audit import ServiceDone
from tideline.hudi.services.cleaning.execute import CleaningDone
from tideline.hudi.services.partition_ttl.execute import PartitionsExpired
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.runs import Done, ServiceRun
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.services.service import Service
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.execute.table_access import Progress, SessionFactory, locate, open_table
from tideline.ingest.operation.operation import MakeSavepoint, Operation, RestoreTable, RunService
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.wording import counted

SAVEPOINT_USER = "tideline"


@dataclass(frozen=True, slots=True)
class _Told:
    """One finished run in words and figures; sizes are bytes."""

    words: str
    instant: InstantTime | None = None
    bytes_read: int = 0
    files_written: int = 0
    bytes_written: int = 0
    rows_written: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0


def execute_service(
    operation: Operation,
    work: RunService,
    *,
    session_factory: SessionFactory,
    clock: Clock,
    progress: Progress,
) -> OperationResult:
    """Finish what dead runs of the service left, then do what is due.

    Raises ConflictError when another process got in the way, CorruptTableError,
    StorageUnavailableError.
    """
    table = open_table(operation.table, operation.writer)
    if table is None:
        return OperationResult(operation.id, Outcome.NOTHING, "there is no table")
    started_s = clock.monotonic_s()
    progress(f"running {work.service}")
    places = (locate(operation.table.location),)
    spark = session_factory(places) if work.service.moves_rows else None
    run = table.run(work.service.value, options=work.settings, spark=spark)
    result = _service_result(operation.id, run)
    return replace(result, seconds=round(clock.monotonic_s() - started_s, 3))


def execute_savepoint(operation: Operation, work: MakeSavepoint) -> OperationResult:
    """Make the savepoint. Raises ConfigError when files of the instant have been cleaned."""
    table = open_table(operation.table, operation.writer)
    if table is None:
        return OperationResult(operation.id, Outcome.NOTHING, "there is no table")
    made = create_savepoint(
        table.hoodie_table,
        InstantTime.parse(work.instant),
        user=SAVEPOINT_USER,
        comment=work.name,
    )
    if made.comment != work.name:
        message = f"{made.instant} is savepointed as {made.comment!r} already"
        return OperationResult(operation.id, Outcome.NOTHING, message)
    return OperationResult(
        operation.id,
        Outcome.SUCCEEDED,
        f"{made.file_count} files are kept as of this instant",
        instant=str(made.instant),
    )


def execute_restore(operation: Operation, work: RestoreTable) -> OperationResult:
    """Go back to the savepoint, or finish going there. Raises as restore_table does."""
    table = open_table(operation.table, operation.writer)
    if table is None:
        return OperationResult(operation.id, Outcome.NOTHING, "there is no table")
    done = restore_table(table.hoodie_table, InstantTime.parse(work.instant))
    return OperationResult(
        operation.id,
        Outcome.SUCCEEDED,
        f"the table is as it was at {done.savepoint}, "
        f"{counted(len(done.undone), 'instant')} undone",
        instant=str(done.instant) if done.instant else None,
        files_deleted=sum(len(item.deleted) for item in done.undone),
        bytes_deleted=done.bytes_deleted,
        seconds=done.elapsed_ms / 1000,
        audit=(done.to_json_object(),),
    )


def _service_result(operation_id: str, run: ServiceRun) -> OperationResult:
    notes = tuple(f"{time} is being executed elsewhere" for time in run.left_alone)
    if not run.done:
        reason = run.not_due.reason if run.not_due is not None else "nothing to do"
        return OperationResult(operation_id, Outcome.NOTHING, reason, notes=notes)
    told = [_tell(done) for done in run.done]
    instants = [one.instant for one in told if one.instant is not None]
    return OperationResult(
        operation_id,
        Outcome.SUCCEEDED,
        message="; ".join(one.words for one in told),
        instant=str(instants[-1]) if instants else None,
        files_written=sum(one.files_written for one in told),
        rows_written=sum(one.rows_written for one in told),
        bytes_written=sum(one.bytes_written for one in told),
        bytes_read=sum(one.bytes_read for one in told),
        files_deleted=sum(one.files_deleted for one in told),
        bytes_deleted=sum(one.bytes_deleted for one in told),
        notes=notes,
        audit=tuple(done.to_json_object() for done in run.done),
    )


def _tell(done: Done) -> _Told:
    match done:
        case ServiceDone():
            return _tell_rewrite(done)
        case CleaningDone():
            return _Told(
                f"deleted {counted(len(done.files), 'file')} that nobody needs any more",
                done.instant,
                files_deleted=len(done.files),
                bytes_deleted=done.bytes_deleted,
            )
        case ArchivalDone():
            archived = len(done.instants) + len(done.resumed)
            return _Told(
                f"moved {counted(archived, 'instant')} to the archive",
                files_written=len(done.archives),
                bytes_written=sum(file.size_bytes for file in done.archives),
                files_deleted=done.objects_deleted,
            )
        case PartitionsExpired():
            groups = counted(done.file_groups, "file group")
            return _Told(f"dropped partitions of {groups}", done.instant)
        case _:
            return _Told("done")


def _tell_rewrite(done: ServiceDone) -> _Told:
    taken = [file for file in done.files if file.what != "written"]
    written = [file for file in done.files if file.what == "written"]
    logs = sum(1 for file in taken if file.path.rpartition("/")[2].startswith("."))
    match done.service:
        case Service.COMPACTION:
            words = f"merged {counted(logs, 'log file')} into {counted(len(written), 'base file')}"
        case Service.LOG_COMPACTION:
            words = f"merged {counted(logs, 'log file')} into {len(written)}"
        case _:
            words = f"rewrote {counted(len(taken), 'file')} as {len(written)}"
    figures = done.figures
    return _Told(
        words,
        done.instant,
        bytes_read=figures.bytes_read,
        files_written=len(written),
        bytes_written=figures.bytes_written,
        rows_written=figures.rows_written,
    )
