"""Operations that maintain an Iceberg table.

Each is one call of the engine's own (rewrite/run.py, maintenance/); what is here gives it the
operation's arguments and turns what it did into a result. Every call plans again on the newest
metadata: even if the table has changed since the operation was written down, only what is due is
done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tideline.clock import Clock
from tideline.errors import ConflictError, ObjectNotFoundError, TidelineError
from tideline.iceberg.service import IcebergService
from tideline.iceberg.services.arguments import (
    expire_options,
    orphan_options,
    rewrite_arguments,
)
from tideline.iceberg.services.expire_snapshots.execute import ExpireRun, execute_expire
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanFile
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.services.rewrite_position_deletes.plan import (
    DeletePlan,
    delete_rewrite_options,
)
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Committed, Conflicted, Unknown, unknown_error
from tideline.ingest.execute.table_access import Progress, SessionFactory
from tideline.ingest.operation.operation import MaintainIceberg, Operation, TableTarget
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.saving import Saving
from tideline.wording import counted

OPERATION_PROPERTY = "tideline.operation-id"
"""In the summary of a snapshot: the operation that made it."""

_FAILURES_NAMED = 3
_ORPHANS_NAMED = 1_000


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

    Raises ConflictError when another writer got in the way, ConfigError, CorruptTableError,
    UnsupportedTableError, UnknownOutcomeError, FailedAfterCommitError and StorageUnavailableError.
    """
    try:
        table = open_iceberg_table(operation.table, clock)
    except ObjectNotFoundError:
        return OperationResult(operation.id, Outcome.NOTHING, "there is no table")
    started_s = clock.monotonic_s()
    progress(f"running {work.service}")
    run = _Run(operation, work, table, session_factory, clock)
    result = _EXECUTE[work.service](run)
    return replace(result, seconds=round(clock.monotonic_s() - started_s, 3))


def open_iceberg_table(target: TableTarget, clock: Clock) -> IcebergTable:
    """The table in its folder or its catalog. Raises ObjectNotFoundError when there is none."""
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
    from tideline.iceberg.services.rewrite_data_files.group_outcome import RewriteEngine
    from tideline.iceberg.services.rewrite_data_files.in_process import engine_for
    from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files

    arguments = rewrite_arguments(
        run.work.arguments, run.work.options, properties=run.table.metadata.properties
    )

    def on_spark() -> RewriteEngine:
        from tideline.spark.iceberg.rewrite import execute_groups

        # Tasks read and write through our own clients: Spark itself need not reach the table.
        return partial(execute_groups, run.session_factory(()))

    report = rewrite_data_files(
        run.table,
        arguments.options,
        engine_for(arguments.options, on_spark),
        where=arguments.where,
        summary={OPERATION_PROPERTY: run.operation.id},
        clock=run.clock,
    )
    failures = [str(failed.error) for failed in report.failed_groups]
    failures += [failed.reason for failed in report.failed_commits]
    failures += [report.deletes_left] if report.deletes_left else []
    left = tuple(one.words for one in report.plan.skipped if one.reason.is_by_name)
    notes = (*(f"left undone: {reason}" for reason in failures[:_FAILURES_NAMED]), *left)
    if not report.files_rewritten:
        open_ones = (failed.unknown for failed in report.failed_commits if failed.unknown)
        if unknown := next(open_ones, None):
            raise _unknown(run, unknown, "a part of the rewrite is committed")
        if failures:
            raise ConflictError(f"no part of the rewrite was committed: {failures[0]}")
        message = "; ".join(("no files are worth rewriting", *left))
        return OperationResult(run.operation.id, Outcome.NOTHING, message)
    return OperationResult(
        run.operation.id,
        Outcome.SUCCEEDED,
        f"rewrote {counted(report.files_rewritten, 'data file')} as {report.files_added:,}",
        instant=str(report.snapshot_ids[-1]),
        files_read=report.files_rewritten,
        bytes_read=report.bytes_rewritten,
        files_written=report.files_added,
        bytes_written=report.bytes_added,
        saved=report.saving,
        notes=notes,
    )


def _unknown(run: _Run, outcome: Unknown, what: str) -> TidelineError:
    return unknown_error(outcome, table=run.table.metadata.location, what=what)


def _expire(run: _Run) -> OperationResult:
    options = expire_options(run.work.arguments, now_ms=run.clock.now_ms())
    done: ExpireRun = execute_expire(run.table.operations, options, clock=run.clock)
    match done.outcome:
        case None:
            return OperationResult(run.operation.id, Outcome.NOTHING, "no snapshot is old enough")
        case Conflicted(reason=reason):
            raise ConflictError(f"other writers always committed first: {reason}")
        case Unknown() as unknown:
            raise _unknown(run, unknown, "the snapshots are expired")
    if done.failure is not None:
        raise done.failure
    plan = done.plan
    refs = f" and {counted(len(plan.refs), 'branch or tag')}" if plan.refs else ""
    return OperationResult(
        run.operation.id,
        Outcome.SUCCEEDED,
        f"expired {counted(len(plan.snapshot_ids), 'snapshot')}{refs}, {len(plan.kept_ids):,} stay",
        files_deleted=done.deleted.counts.total(),
        bytes_deleted=done.deleted.size_bytes,
        saved=done.saving,
        notes=done.left,
    )


def _rewrite_deletes(run: _Run) -> OperationResult:
    # Work that moves no rows runs where Arrow is not installed.
    from tideline.iceberg.services.rewrite_position_deletes.execute import execute_position_deletes

    options = delete_rewrite_options(run.work.options, run.table.metadata.properties)
    done = execute_position_deletes(run.table.operations, options, clock=run.clock)
    if not done.files_removed:
        unknown = next((one for one in done.outcomes if isinstance(one, Unknown)), None)
        if unknown is not None:
            raise _unknown(run, unknown, "the deletes are rewritten")
        if done.failures:
            raise ConflictError(f"the deletes were not rewritten: {done.failures[0]}")
        message = "; ".join(("no position deletes are worth rewriting", *_left_deletes(done.plan)))
        return OperationResult(run.operation.id, Outcome.NOTHING, message)
    committed = [one for one in done.outcomes if isinstance(one, Committed)]
    return OperationResult(
        run.operation.id,
        Outcome.SUCCEEDED,
        f"rewrote {counted(done.files_removed, 'position delete file')} as {done.files_added:,}",
        instant=str(committed[-1].loaded.metadata.current_snapshot_id),
        files_read=done.files_removed,
        bytes_read=done.bytes_removed,
        files_written=done.files_added,
        bytes_written=done.bytes_added,
        saved=done.saving,
        notes=(
            *(f"left undone: {reason}" for reason in done.failures[:_FAILURES_NAMED]),
            *_left_deletes(done.plan),
        ),
    )


def _left_deletes(plan: DeletePlan) -> tuple[str, ...]:
    """Which delete files cannot be rewritten, and why."""
    return tuple(
        f"left {plan.skipped[reason]:,} {reason}: {', '.join(paths[:_FAILURES_NAMED])}"
        for reason, paths in plan.named.items()
    )


def _manifests(run: _Run) -> OperationResult:
    done = execute_manifests(run.table.operations, ManifestOptions(), clock=run.clock)
    match done.outcome:
        case None:
            message = "no manifests are worth rewriting"
            return OperationResult(run.operation.id, Outcome.NOTHING, message)
        case Conflicted(reason=reason):
            raise ConflictError(f"the manifests were not rewritten: {reason}")
        case Unknown() as unknown:
            raise _unknown(run, unknown, "the manifests are rewritten")
        case Committed(loaded=loaded):
            created = len(done.created)
            return OperationResult(
                run.operation.id,
                Outcome.SUCCEEDED,
                f"rewrote {counted(done.replaced_count, 'manifest')} as {created:,}",
                instant=str(loaded.metadata.current_snapshot_id),
                files_read=done.replaced_count,
                bytes_read=sum(group.size_bytes for group in done.groups),
                files_written=created,
                bytes_written=sum(one.length_bytes for one in done.created),
                saved=done.saving,
            )


def _orphans(run: _Run) -> OperationResult:
    options = orphan_options(run.work.arguments, now_ms=run.clock.now_ms())
    plan = plan_orphans(run.table.operations, options, clock=run.clock)
    left = "".join(f"; {one.words}" for one in plan.shared if one.files)
    if not plan.orphans:
        message = f"there are no orphan files{left}"
        return OperationResult(run.operation.id, Outcome.NOTHING, message)
    if run.work.is_dry:
        size_bytes = sum(one.size_bytes for one in plan.orphans)
        return OperationResult(
            run.operation.id,
            Outcome.SUCCEEDED,
            f"found {counted(len(plan.orphans), 'orphan file')} of {size_bytes:,} bytes that could "
            f"be deleted{left}",
            audit=(_audit(plan.orphans),),
        )
    done = execute_orphans(run.table.operations, plan)
    used_again = f", {len(done.saved):,} are used again" if done.saved else ""
    size_bytes = sum(one.size_bytes for one in done.deleted)
    return OperationResult(
        run.operation.id,
        Outcome.SUCCEEDED,
        f"deleted {counted(len(done.deleted), 'orphan file')}{used_again}{left}",
        files_deleted=len(done.deleted),
        bytes_deleted=size_bytes,
        saved=Saving(bytes_stored=size_bytes),
        audit=(_audit(done.deleted),),
    )


def _audit(orphans: tuple[OrphanFile, ...]) -> dict[str, Any]:
    return {"orphans": [one.location for one in orphans[:_ORPHANS_NAMED]]}


_EXECUTE: dict[IcebergService, Callable[[_Run], OperationResult]] = {
    IcebergService.REWRITE_DATA_FILES: _rewrite,
    IcebergService.REWRITE_POSITION_DELETES: _rewrite_deletes,
    IcebergService.REWRITE_MANIFESTS: _manifests,
    IcebergService.EXPIRE_SNAPSHOTS: _expire,
    IcebergService.REMOVE_ORPHAN_FILES: _orphans,
}
