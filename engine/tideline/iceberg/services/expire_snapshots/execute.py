"""Expire snapshots: metadata first, then the files that nothing leads to any more.

1. Plan on the newest metadata (plan.py). Without access to the files (file_access.py)
   nothing is changed.
2. Commit. When another writer was first, plan again on what it left.
3. After a commit that certainly took place, read the table again and delete the files that the
   expired snapshots led to and no snapshot leads to now (expired_files.py).

A death or a failure in between leaves orphans, never a snapshot without its files. After an unknown
outcome nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tideline.clock import Clock, SystemClock
from tideline.errors import ConflictError, FailedAfterCommitError, TidelineError
from tideline.iceberg.manifest.manifest_entry import ManifestContent
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.metadata_update import apply_updates
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.expire_snapshots.expired_files import ExpiredFiles
from tideline.iceberg.services.expire_snapshots.file_access import check_access
from tideline.iceberg.services.expire_snapshots.plan import (
    ExpireOptions,
    ExpirePlan,
    UsedMetadata,
    plan_expire,
    requirements,
)
from tideline.iceberg.services.reachable_file import FileTally, ReachableFile
from tideline.iceberg.services.table_setting import refuse_without_gc
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.retry import commit_retries
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    Loaded,
    TableOperations,
    committed_location,
)
from tideline.iceberg.table.table_roots import TableRoots
from tideline.retry import RetryPolicy
from tideline.services.benefit import Benefit
from tideline.services.report import ServiceReport
from tideline.wording import counted

_BATCH_FILES = 1000


@dataclass(frozen=True, slots=True)
class ExpireRun:
    """What was expired. `outcome` is None when there was nothing to do; `left` says why files that
    nothing leads to are still there, for the removal of orphan files to find. `failure` is set when
    their deletion ended before its time: for the caller to raise, once it has shown the rest."""

    plan: ExpirePlan
    outcome: CommitOutcome | None
    deleted: FileTally = field(default_factory=FileTally)
    left: tuple[str, ...] = ()
    failure: FailedAfterCommitError | None = None

    def refuse_failure(self, table: str) -> None:
        """Raises ConflictError and UnknownOutcomeError for an expiry that is not certain, and the
        failure to delete files."""
        committed_location(self.outcome, table=table)
        if self.failure is not None:
            raise self.failure

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        plan = self.plan
        refs = f" and {counted(len(plan.refs), 'branch or tag')}" if plan.refs else ""
        expired = f"{counted(len(plan.snapshot_ids), 'snapshot')}{refs}"
        return ServiceReport(
            f"expired {expired}, {len(plan.kept_ids):,} stay",
            files_deleted=self.deleted.counts.total(),
            bytes_deleted=self.deleted.size_bytes,
            benefit=self.benefit,
            notes=self.left,
        )

    def to_json_object(self) -> dict[str, Any]:
        """What was done, for machines."""
        return expiry_json(self.plan, self.deleted, self.left)

    @property
    def benefit(self) -> Benefit:
        """What the store need not keep, as far as metadata says sizes."""
        return Benefit(bytes_stored=self.deleted.size_bytes)


@dataclass(frozen=True, slots=True)
class ExpirePreview:
    """What would be expired, and every file that would be deleted."""

    plan: ExpirePlan
    files: tuple[ReachableFile, ...]
    left: tuple[str, ...]


def expiry_json(plan: ExpirePlan, deleted: FileTally, left: tuple[str, ...]) -> dict[str, Any]:
    """An expiry for machines; `deleted` are its files."""
    return {
        "expired_snapshots": plan.snapshot_ids,
        "kept_snapshots": len(plan.kept_ids),
        "removed_refs": plan.refs,
        "removed_specs": plan.spec_ids,
        "removed_schemas": plan.schema_ids,
        **{f"deleted_{name}": count for name, count in deleted.json().items()},
        "left": left,
    }


def preview_expire(
    operations: TableOperations, options: ExpireOptions, *, clock: Clock | None = None
) -> ExpirePreview:
    """Plan, and find the files, but change nothing.

    Raises ConfigError, CorruptTableError, ObjectNotFoundError and StorageUnavailableError.
    """
    now_ms = (clock or SystemClock()).now_ms()
    metadata = operations.load().metadata
    plan = _plan(operations.io, metadata, options, now_ms)
    if not options.clean_expired_files:
        return ExpirePreview(plan, (), ())
    after = apply_updates(metadata, plan.updates(), now_ms=now_ms)
    search = ExpiredFiles(operations.io)
    files = tuple(search.find(_expired(plan, metadata, after), metadata, after))
    return ExpirePreview(plan, files, _reasons(search))


def execute_expire(
    operations: TableOperations,
    options: ExpireOptions,
    *,
    clock: Clock | None = None,
    retry: RetryPolicy | None = None,
) -> ExpireRun:
    """Expire snapshots and delete their files.

    Raises ConfigError, CorruptTableError, ObjectNotFoundError and StorageUnavailableError, then
    nothing was changed; ConflictError when another table has this one's place: then no file was
    deleted. A deletion that failed after the commit is the run's `failure`.
    """
    clock = clock or SystemClock()
    base, plan, outcome = _commit(operations, options, clock, retry)
    if not isinstance(outcome, Committed) or not options.clean_expired_files:
        return ExpireRun(plan, outcome)
    deleted = FileTally()
    search = ExpiredFiles(operations.io)
    failure: FailedAfterCommitError | None = None
    try:
        after = _still_the_table(operations)
        files = search.find(_expired(plan, base.metadata, after), base.metadata, after)
        roots = TableRoots.of(operations.io, after)
        for batch in _batches(files):
            roots.remove_many((file.location for file in batch), "the expiry")
            deleted.add(batch)
    except ConflictError:
        raise
    except TidelineError as error:
        failure = _failure(operations, deleted, error)
    return ExpireRun(plan, outcome, deleted, _reasons(search), failure)


def _failure(
    operations: TableOperations, deleted: FileTally, error: TidelineError
) -> FailedAfterCommitError:
    files = counted(deleted.counts.total(), "file")
    return FailedAfterCommitError(
        f"the snapshots are expired, and the deletion of their files failed after {files}: {error}."
        f" Do not repeat it; `tideline iceberg remove-orphans {operations.arguments}` deletes the "
        "rest",
        table=operations.io.location.uri,
    )


def _still_the_table(operations: TableOperations) -> TableMetadata:
    """The table after the commit. Raises ConflictError when another one has its place: what is live
    in a table that was renamed, that one does not list."""
    try:
        return operations.load().metadata
    except ConflictError as error:
        message = f"the snapshots are expired, and no file was deleted: {error.message}"
        raise ConflictError(message, table=error.table) from error


def _commit(
    operations: TableOperations,
    options: ExpireOptions,
    clock: Clock,
    retry: RetryPolicy | None,
) -> tuple[Loaded, ExpirePlan, CommitOutcome | None]:
    base = operations.load()
    policy = retry or commit_retries(base.metadata.properties)
    plan = ExpirePlan((), (), ())
    outcome: CommitOutcome | None = None
    for attempt in policy.attempts(clock):
        if attempt > 1:
            base = operations.load()
        plan = _plan(operations.io, base.metadata, options, clock.now_ms())
        if plan.is_empty:
            return base, plan, None
        if attempt == 1 and options.clean_expired_files:
            check_access(operations.io, base.metadata)
        outcome = operations.commit(base, requirements(base.metadata), plan.updates())
        if not isinstance(outcome, Conflicted):
            break
    return base, plan, outcome


def _plan(io: FileIO, metadata: TableMetadata, options: ExpireOptions, now_ms: int) -> ExpirePlan:
    refuse_without_gc(metadata)
    plan = plan_expire(metadata, options, now_ms=now_ms)
    if not options.clean_expired_metadata:
        return plan
    used = _used(io, metadata, plan.kept_ids)
    return plan_expire(metadata, options, now_ms=now_ms, used=used)


def _used(io: FileIO, metadata: TableMetadata, snapshot_ids: Iterable[int]) -> UsedMetadata:
    spec_ids: set[int] = set()
    has_deletes = False
    for snapshot_id in snapshot_ids:
        for manifest in manifests_of(io, metadata.snapshot(snapshot_id)):
            spec_ids.add(manifest.spec_id)
            has_deletes = has_deletes or manifest.content is ManifestContent.DELETES
    return UsedMetadata(frozenset(spec_ids), has_deletes)


def _expired(plan: ExpirePlan, before: TableMetadata, after: TableMetadata) -> list[Snapshot]:
    kept = {snapshot.snapshot_id for snapshot in after.snapshots}
    gone = set(plan.snapshot_ids) - kept
    return [snapshot for snapshot in before.snapshots if snapshot.snapshot_id in gone]


def _reasons(search: ExpiredFiles) -> tuple[str, ...]:
    reasons = []
    if search.unreadable:
        named = ", ".join(search.unreadable[:3])
        reasons.append(f"{len(search.unreadable)} expired lists or manifests are gone: {named}")
    reasons += [f"{location}: {reason}" for location, reason in search.left_alone.items()]
    unnamed = search.foreign_count - len(search.left_alone)
    if unnamed:
        reasons.append(f"{counted(unnamed, 'more file')} that are not this table's to delete")
    return tuple(reasons)


def _batches(files: Iterable[ReachableFile]) -> Iterator[list[ReachableFile]]:
    batch: list[ReachableFile] = []
    for file in files:
        batch.append(file)
        if len(batch) == _BATCH_FILES:
            yield batch
            batch = []
    if batch:
        yield batch
