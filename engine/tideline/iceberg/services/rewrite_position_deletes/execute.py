"""Rewrite position delete files (version 2): fewer and larger ones, without what deletes nothing.

1. Plan on the newest snapshot (search.py).
2. Rewrite each group (group.py).
3. Replace the files in one commit, or in at most `partial-progress.max-commits`. New files carry
   the highest sequence number of those they replace: they must not apply to younger data.

A commit that meets another writer is tried again as long as all replaced delete files are there.
New files that no snapshot got are removed, except when it is unknown whether one did.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideline.clock import Clock
from tideline.errors import ConflictError, TidelineError
from tideline.iceberg.commit.file_identity import partition_key
from tideline.iceberg.commit.rewrite_files import AddedDelete, RewriteFiles, commit_rewrite
from tideline.iceberg.manifest.manifest_entry import ManifestEntry
from tideline.iceberg.metadata.owner import refuse_publication
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_position_deletes.group import (
    POSITIONS_MAX,
    DeleteGroupRewrite,
)
from tideline.iceberg.services.rewrite_position_deletes.plan import DeleteGroup, DeletePlan
from tideline.iceberg.services.rewrite_position_deletes.search import (
    DeletePreparation,
    prepare_position_deletes,
)
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    TableOperations,
    Unknown,
    unknown_error,
)
from tideline.services.benefit import Benefit
from tideline.services.report import ServiceReport, left_undone
from tideline.wording import counted


@dataclass(frozen=True, slots=True)
class DeleteRewriteRun:
    """What was replaced; counts are of what was committed."""

    plan: DeletePlan
    outcomes: tuple[CommitOutcome, ...] = ()
    failures: tuple[str, ...] = ()
    files_removed: int = 0
    files_added: int = 0
    positions_removed: int = 0
    positions_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0

    def refuse_failure(self, table: str) -> None:
        """Raises ConflictError or UnknownOutcomeError when nothing was certainly committed."""
        if not self.failures or self.files_removed:
            return
        unknown = next((outcome for outcome in self.outcomes if isinstance(outcome, Unknown)), None)
        if unknown is not None:
            raise unknown_error(unknown, table=table, what="the deletes are rewritten")
        raise ConflictError(f"not committed: {self.failures[0]}", table=table)

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        removed = counted(self.files_removed, "position delete file")
        committed = [
            outcome.snapshot_id for outcome in self.outcomes if isinstance(outcome, Committed)
        ]
        return ServiceReport(
            f"rewrote {removed} as {self.files_added:,}",
            committed[-1] if committed else None,
            files_read=self.files_removed,
            bytes_read=self.bytes_removed,
            files_written=self.files_added,
            bytes_written=self.bytes_added,
            benefit=self.benefit,
            notes=(*left_undone(self.failures), *self.plan.left),
        )

    def to_json_object(self) -> dict[str, Any]:
        """What was done, for machines."""
        return {
            "rewritten_delete_files": self.files_removed,
            "added_delete_files": self.files_added,
            "rewritten_positions": self.positions_removed,
            "added_positions": self.positions_added,
            "failures": self.failures,
            "skipped": self.plan.skipped,
            "named": self.plan.named,
        }

    @property
    def benefit(self) -> Benefit:
        """What readers save: fewer delete files to open and to merge."""
        files = self.files_removed - self.files_added
        size_bytes = self.bytes_removed - self.bytes_added
        return Benefit(
            files_opened=files, bytes_scanned=size_bytes, delta_files=files, delta_bytes=size_bytes
        )


def execute_position_deletes(
    operations: TableOperations,
    options: RewriteOptions,
    *,
    clock: Clock | None = None,
    positions_max: int = POSITIONS_MAX,
) -> DeleteRewriteRun:
    """Plan, write and commit.

    Raises UnsupportedTableError, CorruptTableError, ObjectNotFoundError, ConfigError and
    StorageUnavailableError; without partial progress nothing was changed then.
    """
    prepared = prepare_position_deletes(operations, options, clock=clock)
    refuse_publication(prepared.metadata)
    run = _Run(operations, prepared, options, clock, positions_max)
    for groups, dangling in run.portions():
        try:
            run.commit(groups, dangling)
        except TidelineError as error:
            if not options.partial_progress:
                raise
            run.failures.append(str(error))
    return DeleteRewriteRun(
        prepared.plan, tuple(run.outcomes), tuple(run.failures), **run.committed
    )


@dataclass(slots=True)
class _Run:
    operations: TableOperations
    prepared: DeletePreparation
    options: RewriteOptions
    clock: Clock | None
    positions_max: int
    outcomes: list[CommitOutcome] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    committed: dict[str, int] = field(default_factory=dict)

    @property
    def io(self) -> FileIO:
        return self.operations.io

    def portions(self) -> Iterator[tuple[Sequence[DeleteGroup], Sequence[ManifestEntry]]]:
        """The groups of each commit; dangling files go with the first."""
        plan = self.prepared.plan
        if plan.is_empty:
            return
        count = max(1, len(plan.groups))
        commits = self.options.commits_max if self.options.partial_progress else 1
        each = math.ceil(count / commits)
        for start in range(0, count, each):
            yield plan.groups[start : start + each], plan.dangling if start == 0 else ()

    def commit(self, groups: Sequence[DeleteGroup], dangling: Sequence[ManifestEntry]) -> None:
        """Write and commit some groups. Raises what writing and committing raise."""
        added: list[AddedDelete] = []
        kept = 0
        try:
            for group in groups:
                rewrite = self._rewrite(group)
                number = group.sequence_number
                added += (AddedDelete(file, number) for file in rewrite.write())
                kept += rewrite.positions_kept
            removed = [*dangling, *(entry for group in groups for entry in group.entries)]
            outcome = self._publish(removed, added)
        except TidelineError:
            remove_quietly(self.io, (added_delete.file.file_path for added_delete in added))
            raise
        self.outcomes.append(outcome)
        match outcome:
            case Committed():
                self._count(
                    files_removed=len(removed),
                    files_added=len(added),
                    positions_removed=sum(entry.data_file.record_count for entry in removed),
                    positions_added=kept,
                    bytes_removed=sum(entry.data_file.file_size_bytes for entry in removed),
                    bytes_added=sum(added_delete.file.file_size_bytes for added_delete in added),
                )
            case Conflicted(reason):
                remove_quietly(self.io, (added_delete.file.file_path for added_delete in added))
                self.failures.append(reason)
            case Unknown(reason):
                self.failures.append(reason)

    def _rewrite(self, group: DeleteGroup) -> DeleteGroupRewrite:
        live = self.prepared.live.get(partition_key(group.entries[0].data_file), {})
        size_bytes_max = self.options.split_size_bytes(group.input_bytes)
        return DeleteGroupRewrite(
            self.io, self.prepared.metadata, group, live, size_bytes_max, self.positions_max
        )

    def _publish(
        self, removed: Sequence[ManifestEntry], added: Sequence[AddedDelete]
    ) -> CommitOutcome:
        starting_snapshot_id = self.prepared.plan.starting_snapshot_id
        assert starting_snapshot_id is not None
        rewrite = RewriteFiles(
            starting_snapshot_id,
            removed_deletes=tuple(entry.data_file for entry in removed),
            added_deletes=tuple(added),
            gives_way=self.options.quiet_for_ms > 0,
        )
        return commit_rewrite(self.operations, rewrite, clock=self.clock)

    def _count(self, **counts: int) -> None:
        for name, count in counts.items():
            self.committed[name] = self.committed.get(name, 0) + count
