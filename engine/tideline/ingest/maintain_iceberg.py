"""Operations that look after an Iceberg table.

Each is one call of the engine's own (rewrite/run.py, maintenance/); what is here gives it the
operation's arguments and turns what it did into a result. Every call plans anew on the newest
metadata: whatever happened since the operation was written down, only what is due is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tideline.clock import Clock
from tideline.errors import Conflict, ObjectNotFound, StorageUnavailable
from tideline.iceberg.maintenance.expire_snapshots import ExpireRun, execute_expire
from tideline.iceberg.maintenance_arguments import expire_options, rewrite_arguments
from tideline.iceberg.service import IcebergService
from tideline.iceberg.table import IcebergTable
from tideline.iceberg.table_operations import Conflicted, Unknown
from tideline.ingest.operation import MaintainIceberg, Operation, TableTarget
from tideline.ingest.operation_result import OperationResult, Outcome
from tideline.ingest.table_access import Progress, SessionFactory, locate

OPERATION_PROPERTY = "tideline.operation-id"
"""In the summary of a snapshot: the operation that made it."""

_FAILURES_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Run:
    """One operation on an opened table."""

    operation: Operation
    work: MaintainIceberg
    table: IcebergTable
    session_factory: SessionFactory
    clock: Clock


def maintain_iceberg(
    operation: Operation,
    work: MaintainIceberg,
    *,
    session_factory: SessionFactory,
    clock: Clock,
    progress: Progress,
) -> OperationResult:
    """Do what is due of one service.

    Raises Conflict when another writer got in the way, ConfigError, CorruptTable,
    UnsupportedTable and StorageUnavailable.
    """
    try:
        table = open_iceberg_table(operation.table, clock)
    except ObjectNotFound:
        return OperationResult(operation.id, Outcome.NOTHING, "there is no table")
    started_s = clock.monotonic_s()
    progress(f"running {work.service}")
    run = _Run(operation, work, table, session_factory, clock)
    result = _EXECUTE[work.service](run)
    return replace(result, seconds=round(clock.monotonic_s() - started_s, 3))


def open_iceberg_table(target: TableTarget, clock: Clock) -> IcebergTable:
    """The table in its folder or its catalog. Raises ObjectNotFound when there is none."""
    options = dict(target.location.options)
    if target.catalog is None:
        return IcebergTable.open(target.location.uri, options, clock=clock)
    entry = target.catalog
    return IcebergTable.from_catalog(
        entry.catalog,
        entry.table,
        properties=dict(entry.properties),
        storage_options=options,
        clock=clock,
    )


def _rewrite(run: _Run) -> OperationResult:
    # Work that moves no rows runs where Spark and Arrow are not installed.
    from tideline.iceberg.rewrite.run import rewrite_data_files
    from tideline.spark.iceberg_rewrite import execute_groups

    arguments = rewrite_arguments(
        run.work.arguments, run.work.options, properties=run.table.metadata.properties
    )
    places = () if run.operation.table.catalog else (locate(run.operation.table.location),)
    spark = run.session_factory(places)
    report = rewrite_data_files(
        run.table,
        arguments.options,
        partial(execute_groups, spark),
        where=arguments.where,
        summary={OPERATION_PROPERTY: run.operation.id},
        clock=run.clock,
    )
    failures = [str(failed.error) for failed in report.failed_groups]
    failures += [failed.reason for failed in report.failed_commits]
    notes = tuple(f"left undone: {reason}" for reason in failures[:_FAILURES_NAMED])
    if not report.files_rewritten:
        if failures:
            raise Conflict(f"No part of the rewrite was committed: {failures[0]}")
        return OperationResult(run.operation.id, Outcome.NOTHING, "no files are worth rewriting")
    return OperationResult(
        run.operation.id,
        Outcome.SUCCEEDED,
        f"rewrote {_count(report.files_rewritten, 'data file')} as {report.files_added:,}",
        instant=str(report.snapshot_ids[-1]),
        files_read=report.files_rewritten,
        bytes_read=report.bytes_rewritten,
        files_written=report.files_added,
        bytes_written=report.bytes_added,
        notes=notes,
    )


def _expire(run: _Run) -> OperationResult:
    options = expire_options(run.work.arguments, now_ms=run.clock.now_ms())
    done: ExpireRun = execute_expire(run.table.operations, options, clock=run.clock)
    match done.outcome:
        case None:
            return OperationResult(run.operation.id, Outcome.NOTHING, "no snapshot is old enough")
        case Conflicted(reason=reason):
            raise Conflict(f"Other writers were faster, again and again: {reason}")
        case Unknown(reason=reason):
            raise StorageUnavailable(f"The snapshots may be expired, no file was deleted: {reason}")
    plan = done.plan
    refs = f" and {_count(len(plan.refs), 'branch or tag')}" if plan.refs else ""
    return OperationResult(
        run.operation.id,
        Outcome.SUCCEEDED,
        f"expired {_count(len(plan.snapshot_ids), 'snapshot')}{refs}, {len(plan.kept_ids):,} stay",
        files_deleted=done.deleted.counts.total(),
        bytes_deleted=done.deleted.size_bytes,
        notes=done.left,
    )


_EXECUTE: dict[IcebergService, Callable[[_Run], OperationResult]] = {
    IcebergService.REWRITE_DATA_FILES: _rewrite,
    IcebergService.EXPIRE_SNAPSHOTS: _expire,
}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
