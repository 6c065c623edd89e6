"""Rewriting data files from plan to commit.

1. Plan over the newest snapshot of the branch.
2. An engine rewrites the groups. A group whose new files have other numbers of rows than they must
   counts as failed.
3. Commit all groups at once; or, with partial progress, so many at a time that there are at most
   `partial-progress.max-commits`, a failed group or commit leaving the others alone.
4. With `remove-dangling-deletes` one more commit removes the delete files that are left without a
   purpose. Should anything be in its way, they stay until the next time: what was committed before
   is reported.
5. With `tideline.quiet-for-ms` groups give way where another writer has changed rows of their
   partitions by the time of the commit; the others are committed.

New files that no snapshot got are removed, except when it is unknown whether one did.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from tideline.clock import Clock, SystemClock
from tideline.errors import ConflictError, CorruptTableError, TidelineError, UnsupportedTableError
from tideline.formats.filter import ALL_ROWS, Filter
from tideline.iceberg.commit.changed_partitions import changed_by, first_changed
from tideline.iceberg.commit.rewrite_files import RewriteFiles, commit_rewrite
from tideline.iceberg.commit.validation import snapshots_since
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.owner import refuse_publication
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.benefit import benefit_of_rewrite
from tideline.iceberg.services.rewrite_data_files.dangling_deletes import find_dangling_deletes
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext
from tideline.iceberg.services.rewrite_data_files.group_outcome import (
    GroupFailed,
    GroupOutcome,
    GroupResult,
    RewriteEngine,
)
from tideline.iceberg.services.rewrite_data_files.left_files import Reason
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.ordering import row_order
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup, RewritePlan
from tideline.iceberg.services.rewrite_data_files.table_plan import plan_table_rewrite
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    Unknown,
    unknown_error,
)
from tideline.services.benefit import NO_BENEFIT, Benefit
from tideline.services.report import ServiceReport, left_undone
from tideline.wording import counted


@dataclass(frozen=True, slots=True)
class FailedCommit:
    """Groups that are written and not committed; with `unknown` they may be nevertheless, and
    their new files are still there."""

    groups: tuple[int, ...]
    reason: str
    unknown: Unknown | None = None

    @property
    def is_unknown(self) -> bool:
        return self.unknown is not None


@dataclass(frozen=True, slots=True)
class RewriteReport:
    """What a rewrite did; counts are of what was committed, `benefit` is what readers save by it.
    `deletes_left` is why delete files stay that have no purpose any more."""

    plan: RewritePlan
    snapshot_ids: tuple[int, ...] = ()
    files_rewritten: int = 0
    files_added: int = 0
    bytes_rewritten: int = 0
    bytes_added: int = 0
    deletes_removed: int = 0
    deletes_left: str = ""
    benefit: Benefit = NO_BENEFIT
    failed_groups: tuple[GroupFailed, ...] = ()
    failed_commits: tuple[FailedCommit, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """Why a part of it was left undone."""
        groups = (str(failed.error) for failed in self.failed_groups)
        commits = (failed.reason for failed in self.failed_commits)
        return (*groups, *commits, *((self.deletes_left,) if self.deletes_left else ()))

    @property
    def left(self) -> tuple[str, ...]:
        """Which files a rewrite cannot take, and why."""
        return tuple(skipped.words for skipped in self.plan.skipped if skipped.reason.is_by_name)

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        return ServiceReport(
            f"rewrote {counted(self.files_rewritten, 'data file')} as {self.files_added:,}",
            self.snapshot_ids[-1] if self.snapshot_ids else None,
            files_read=self.files_rewritten,
            bytes_read=self.bytes_rewritten,
            files_written=self.files_added,
            bytes_written=self.bytes_added,
            benefit=self.benefit,
            notes=(*left_undone(self.failures), *self.left),
        )

    def to_json_object(self) -> dict[str, Any]:
        """What was done, for machines."""
        return {
            "snapshots": [str(snapshot_id) for snapshot_id in self.snapshot_ids],
            "files_rewritten": self.files_rewritten,
            "files_added": self.files_added,
            "bytes_rewritten": self.bytes_rewritten,
            "bytes_added": self.bytes_added,
            "delete_files_removed": self.deletes_removed,
            "delete_files_left": self.deletes_left,
        }


def rewrite_data_files(
    table: IcebergTable,
    options: RewriteOptions,
    engine: RewriteEngine,
    *,
    where: Filter = ALL_ROWS,
    branch: str = MAIN,
    summary: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> RewriteReport:
    """Plan, write and commit; `summary` goes into the snapshots' summaries.

    Raises ConfigError for a table that a Hudi table is published as, UnsupportedTableError for one
    with columns of types that are not rewritten, ConflictError when another
    writer's change makes the rewrite void or another table has this one's place, the error of
    a group that failed, and UnknownOutcomeError when the store went away while the commit became
    visible. With partial progress these are in the report instead, until there are more failed
    commits than `partial-progress.max-failed-commits`.
    """
    table.refresh()
    refuse_publication(table.metadata)
    now_ms = (clock or SystemClock()).now_ms()
    plan = plan_table_rewrite(
        table.io, table.metadata, options, where=where, branch=branch, now_ms=now_ms
    )
    if not plan.groups:
        _refuse_column_types(table, plan)
        return RewriteReport(plan)
    starting = table.metadata.snapshot(plan.starting_snapshot_id)
    assert starting is not None, "only a table with a snapshot has files to rewrite"
    run = _Run(table, options, plan, starting, branch, dict(summary or {}), clock)
    if options.partial_progress:
        run.in_parts(engine)
    else:
        run.at_once(engine)
    if options.remove_dangling_deletes:
        run.remove_dangling_deletes()
    return run.report()


@dataclass(slots=True)
class _Run:
    """One rewrite on its way."""

    table: IcebergTable
    options: RewriteOptions
    plan: RewritePlan
    starting: Snapshot
    branch: str
    summary: Mapping[str, str]
    clock: Clock | None
    snapshot_ids: list[int] = field(default_factory=list)
    rewritten: list[FileScanTask] = field(default_factory=list)
    added: list[DataFile] = field(default_factory=list)
    deletes_removed: int = 0
    deletes_left: str = ""
    failed_groups: list[GroupFailed] = field(default_factory=list)
    failed_commits: list[FailedCommit] = field(default_factory=list)

    def at_once(self, engine: RewriteEngine) -> None:
        """Everything in one commit, or nothing, but for groups that give way."""
        written: list[GroupResult] = []
        try:
            with closing(self._outcomes(engine, None)) as outcomes:
                for outcome in outcomes:
                    if isinstance(outcome, GroupResult):
                        written.append(outcome)
                    else:
                        self.failed_groups.append(outcome)
            if self.failed_groups:
                raise self.failed_groups[0].error
        except BaseException:
            self._remove(written)
            raise
        self._commit(written)
        for failed in self.failed_commits:
            if failed.unknown is not None:
                raise self._unknown(failed.unknown)
            if not self.snapshot_ids:
                message = f"the rewrite is void: {failed.reason}"
                raise ConflictError(message, table=self.table.metadata.location)

    def in_parts(self, engine: RewriteEngine) -> None:
        """Some groups per commit."""
        size = math.ceil(len(self.plan.groups) / self.options.commits_max)
        written: list[GroupResult] = []
        try:
            with closing(self._outcomes(engine, size)) as outcomes:
                for outcome in outcomes:
                    if isinstance(outcome, GroupFailed):
                        self.failed_groups.append(outcome)
                        continue
                    written.append(outcome)
                    if len(written) == size:
                        batch, written = written, []
                        self._commit_part(batch)
        except BaseException:
            self._remove(written)
            raise
        if written:
            self._commit_part(written)
        if len(self.failed_commits) > self.options.failed_commits_max:
            reasons = "; ".join(failed.reason for failed in self.failed_commits)
            message = (
                f"{counted(len(self.failed_commits), 'commit')} of a rewrite failed: {reasons}"
            )
            unknown = next(
                (
                    failed_commit.unknown
                    for failed_commit in self.failed_commits
                    if failed_commit.unknown
                ),
                None,
            )
            if unknown is not None:
                raise self._unknown(replace(unknown, reason=message))
            raise ConflictError(message, table=self.table.metadata.location)

    def _unknown(self, outcome: Unknown) -> TidelineError:
        table = self.table.metadata.location
        return unknown_error(outcome, table=table, what="the rewrite is committed")

    def remove_dangling_deletes(self) -> None:
        """A commit of its own, as Iceberg's action makes one. Raises nothing that is known: other
        commits may have taken place."""
        try:
            self._remove_dangling_deletes()
        except TidelineError as error:
            self.deletes_left = str(error)

    def _remove_dangling_deletes(self) -> None:
        head = self.table.metadata.ref_snapshot(self.branch)
        if head is None:
            return
        dangling = find_dangling_deletes(self.table.io, self.table.metadata, head)
        if not dangling:
            return
        rewrite = RewriteFiles(
            head.snapshot_id,
            removed_deletes=dangling,
            branch=self.branch,
            summary_extra=self.summary,
        )
        outcome = commit_rewrite(self.table.operations, rewrite, clock=self.clock)
        match outcome:
            case Committed(loaded):
                self.table.take(loaded)
                self.deletes_removed = len(dangling)
            case Conflicted(reason) | Unknown(reason):
                self.deletes_left = reason

    def report(self) -> RewriteReport:
        bytes_added = sum(file.file_size_bytes for file in self.added)
        return RewriteReport(
            plan=self.plan,
            snapshot_ids=tuple(self.snapshot_ids),
            files_rewritten=len(self.rewritten),
            files_added=len(self.added),
            bytes_rewritten=sum(task.data_file.file_size_bytes for task in self.rewritten),
            bytes_added=bytes_added,
            deletes_removed=self.deletes_removed,
            deletes_left=self.deletes_left,
            benefit=benefit_of_rewrite(
                self.rewritten, files_after=len(self.added), bytes_after=bytes_added
            ),
            failed_groups=tuple(self.failed_groups),
            failed_commits=tuple(self.failed_commits),
        )

    def _outcomes(self, engine: RewriteEngine, size: int | None) -> Generator[GroupOutcome]:
        metadata = self.table.metadata
        context = RewriteContext.of(
            metadata,
            write_id=str(uuid.uuid4()),
            order=row_order(self.options, metadata),
        )
        io = self.table.io
        # Closed at once when it is no longer wanted, so that no new file is left.
        with closing(engine(io, context, self.plan.groups, groups_per_job=size)) as outcomes:
            yield from self._checked(outcomes)

    def _checked(self, outcomes: Iterable[GroupOutcome]) -> Iterator[GroupOutcome]:
        """Groups with a wrong number of rows have failed."""
        for outcome in outcomes:
            if isinstance(outcome, GroupResult):
                error = _row_error(self.plan.groups[outcome.index], outcome.added)
                if error is not None:
                    self._remove([outcome])
                    outcome = GroupFailed(outcome.index, error)
            yield outcome

    def _commit_part(self, written: Sequence[GroupResult]) -> None:
        try:
            self._commit(written)
        except TidelineError as error:
            groups = tuple(result.index for result in written)
            self.failed_commits.append(FailedCommit(groups, str(error)))

    def _commit(self, written: Sequence[GroupResult]) -> None:
        """Raises when certainly nothing was committed; then the new files are removed."""
        outcome = self._settle(written)
        while isinstance(outcome, Conflicted) and written:
            staying = self._not_in_the_way(written)
            kept = staying if len(staying) < len(written) else ()
            self._give_up(
                [
                    group_result
                    for group_result in written
                    if group_result not in staying or not kept
                ],
                outcome.reason,
            )
            written = kept
            outcome = self._settle(written) if written else outcome

    def _give_up(self, written: Sequence[GroupResult], reason: str) -> None:
        self._remove(written)
        indices = tuple(result.index for result in written)
        self.failed_commits.append(FailedCommit(indices, reason))

    def _not_in_the_way(self, written: Sequence[GroupResult]) -> Sequence[GroupResult]:
        """The groups in whose partitions no other writer has changed rows since the plan."""
        if not self.options.quiet_for_ms:
            return written
        metadata = self.table.operations.load().metadata
        head = metadata.ref_snapshot(self.branch)
        if head is None:
            return written
        since = snapshots_since(metadata, head, self.starting.snapshot_id) or ()
        changed = changed_by(self.table.io, since)
        return [
            group_result
            for group_result in written
            if first_changed(changed, self._replaced(group_result)) is None
        ]

    def _replaced(self, written: GroupResult) -> Iterator[DataFile]:
        return (task.data_file for task in self.plan.groups[written.index].tasks)

    def _settle(self, written: Sequence[GroupResult]) -> CommitOutcome:
        """Commit once, and note what came of it, but for a conflict."""
        indices = tuple(result.index for result in written)
        groups = [self.plan.groups[index] for index in indices]
        tasks = [task for group in groups for task in group.tasks]
        removed = tuple(task.data_file for task in tasks)
        added = tuple(file for result in written for file in result.added)
        try:
            outcome = self._publish(removed, added)
        except TidelineError:
            self._remove(written)
            raise
        match outcome:
            case Committed(loaded, snapshot_id):
                self.table.take(loaded)
                assert snapshot_id is not None, "a rewrite makes a snapshot"
                self.snapshot_ids.append(snapshot_id)
                self.rewritten += tasks
                self.added += added
            case Conflicted():
                pass
            case Unknown(reason) as unknown:
                self.failed_commits.append(FailedCommit(indices, reason, unknown))
        return outcome

    def _publish(self, removed: tuple[DataFile, ...], added: tuple[DataFile, ...]) -> CommitOutcome:
        keeps_number = self.options.use_starting_sequence_number
        rewrite = RewriteFiles(
            starting_snapshot_id=self.starting.snapshot_id,
            removed_data=removed,
            added_data=added,
            sequence_number=self.starting.sequence_number if keeps_number else None,
            branch=self.branch,
            summary_extra=self.summary,
            gives_way=self.options.quiet_for_ms > 0,
        )
        return commit_rewrite(self.table.operations, rewrite, clock=self.clock)

    def _remove(self, written: Sequence[GroupResult]) -> None:
        remove_quietly(
            self.table.io,
            (file.file_path for group_result in written for file in group_result.added),
        )


def _refuse_column_types(table: IcebergTable, plan: RewritePlan) -> None:
    for skipped in plan.skipped:
        if skipped.reason is Reason.COLUMN_TYPE:
            message = f"the table's data files are not rewritten: {skipped.reason.value}"
            location = table.metadata.location
            raise UnsupportedTableError(message, table=location, value=", ".join(skipped.named))


def _row_error(group: FileGroup, added: Sequence[DataFile]) -> CorruptTableError | None:
    """What is wrong with the numbers of rows: without deletes they are equal, else never more."""
    rows = sum(file.record_count for file in added)
    has_deletes = any(task.deletes for task in group.tasks)
    if rows == group.rows or (has_deletes and rows < group.rows):
        return None
    first = group.tasks[0].data_file.file_path
    message = f"a file group has {counted(group.rows, 'row')} by its metadata, {rows:,} as read"
    return CorruptTableError(message, path=first)
