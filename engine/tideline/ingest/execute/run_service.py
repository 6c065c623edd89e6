"""Operations that maintain a table: services, savepoints, restores.

Each is one call of the table's own; what is here turns it into a result. Running a service plans
again: even if the table has changed since the operation was written down, only what is due is done.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tideline.clock import Clock
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.execute.table_access import Progress, SessionFactory, open_serviced, open_table
from tideline.ingest.locate import locate
from tideline.ingest.operation.operation import MakeSavepoint, Operation, RestoreTable, RunService
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.lake_table import LakeTable
from tideline.services.run import ServiceRun
from tideline.wording import counted
from tideline.write_and_serve import followed_after_restore

SAVEPOINT_USER = "tideline"
_COUNTS = ("files_read", "bytes_read", "files_written", "bytes_written", "rows_written",
           "files_deleted", "bytes_deleted")  # fmt: skip


def execute_service(
    operation: Operation,
    work: RunService,
    *,
    session_factory: SessionFactory,
    clock: Clock,
    progress: Progress,
) -> OperationResult:
    """Finish what dead runs of the service left, then do what is due.

    Raises ConflictError when another process got in the way, ConfigError, CorruptTableError,
    UnsupportedTableError, UnknownOutcomeError, FailedAfterCommitError, StorageUnavailableError.
    """
    started_s = clock.monotonic_s()
    progress(f"running {work.service}")
    table = open_serviced(operation, work.service, clock)
    if table is None:
        return OperationResult(operation.id, Outcome.NOTHING, "there is no table")
    # Tasks on an Iceberg table read and write through our own clients: Spark need not reach it.
    is_reached = isinstance(table, LakeTable)
    places = (locate(operation.table.location),) if is_reached else ()
    run = table.run(
        work.service.name, options=work.settings, spark=partial(session_factory, places)
    )
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
        notes=followed_after_restore(table.hoodie_table, operation.table.write_properties),
        audit=(done.to_json_object(),),
    )


def _service_result(operation_id: str, run: ServiceRun) -> OperationResult:
    left_alone = tuple(f"{time} is being executed elsewhere" for time in run.left_alone)
    notes = (*left_alone, *run.notes)
    if not run.done:
        reason = run.not_due.reason if run.not_due is not None else "nothing to do"
        return OperationResult(operation_id, Outcome.NOTHING, reason, notes=notes)
    reports = [done.report() for done in run.done]
    instants = [report.instant for report in reports if report.instant is not None]
    return OperationResult(
        operation_id,
        Outcome.SUCCEEDED,
        message="; ".join(report.words for report in reports),
        instant=str(instants[-1]) if instants else None,
        **{name: sum(getattr(report, name) for report in reports) for name in _COUNTS},
        saved=run.benefit,
        notes=(*notes, *(note for report in reports for note in report.notes)),
        audit=tuple(done.to_json_object() for done in run.done),
    )
