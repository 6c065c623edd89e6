"""Operations that maintain a table: services, savepoints, restores.

Each is one call of the table's own; what is here turns it into a result. Running a service plans
again: even if the table has changed since the operation was written down, only what is due is done.
"""

from __future__ import annotations

from dataclasses import replace

from tideline.clock import Clock
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.services.service import ServiceRun
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.execute.table_access import Progress, SessionFactory, locate, open_table
from tideline.ingest.operation.operation import MakeSavepoint, Operation, RestoreTable, RunService
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.settings.setting import Place
from tideline.wording import counted
from tideline.write_and_serve import open_services, published, published_after_restore

SAVEPOINT_USER = "tideline"


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
    given = table.writer.given(work.settings, Place.SERVICE)
    place = locate(operation.table.location)
    services = open_services(table.writer, given, lambda: session_factory((place,)))
    result = _service_result(operation.id, services.run(work.service))
    result = replace(result, notes=(*result.notes, *published(table.hoodie_table, given)))
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
        f"kept {counted(made.file_count, 'file')} as of this instant",
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
        notes=published_after_restore(table.hoodie_table, operation.table.write_properties),
        audit=(done.to_json_object(),),
    )


def _service_result(operation_id: str, run: ServiceRun) -> OperationResult:
    notes = tuple(f"{time} is being executed elsewhere" for time in run.left_alone)
    if not run.done:
        reason = run.not_due.reason if run.not_due is not None else "nothing to do"
        return OperationResult(operation_id, Outcome.NOTHING, reason, notes=notes)
    reports = [done.report() for done in run.done]
    instants = [one.instant for one in reports if one.instant is not None]
    return OperationResult(
        operation_id,
        Outcome.SUCCEEDED,
        message="; ".join(one.words for one in reports),
        instant=str(instants[-1]) if instants else None,
        files_written=sum(one.files_written for one in reports),
        rows_written=sum(one.rows_written for one in reports),
        bytes_written=sum(one.bytes_written for one in reports),
        bytes_read=sum(one.bytes_read for one in reports),
        files_deleted=sum(one.files_deleted for one in reports),
        bytes_deleted=sum(one.bytes_deleted for one in reports),
        saved=run.saving,
        notes=notes,
        audit=tuple(done.to_json_object() for done in run.done),
    )
