"""A snapshot on top of a branch, from its manifests to the request that publishes it.

The optimistic loop around it, the same for every kind of change:

1. load the newest metadata; when it lists our snapshot, an earlier attempt won although its reply
   was an error;
2. let the change validate and make its manifests; it may find that it is void;
3. write the manifest list and ask for the snapshot to be added and the branch to be moved;
4. when the table has changed, wait and begin again.

Every attempt has the same snapshot id, so any of them is recognised. Files that no published
snapshot uses are removed when that is certain, and never when the outcome is unknown
(unused_files.py).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Protocol

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.summary import with_totals
from tideline.iceberg.commit.unused_files import remove_unused
from tideline.iceberg.manifest.manifest_entry import ManifestFile
from tideline.iceberg.metadata.metadata_update import (
    AddSnapshot,
    AssertRefSnapshotId,
    AssertTableUuid,
    MetadataUpdate,
    RemoveSnapshotRef,
    SetSnapshotRef,
    apply_updates,
)
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot, SnapshotRef
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.retry import commit_retries
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    Loaded,
    TableOperations,
    Unknown,
)
from tideline.retry import RetryPolicy
from tideline.tracing import traced_commit

_FOR_EVER_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """What a new snapshot lists, and its summary without totals.

    `updates` take place before the snapshot is added: of the schema and of properties. With `onto`
    it becomes the head of that branch, which may be new, and not of the one that it is made on top
    of; this one is dropped where it `ends_branch`.
    """

    manifests: tuple[ManifestFile, ...]
    summary: dict[str, str]
    updates: tuple[MetadataUpdate, ...] = ()
    onto: str | None = None
    ends_branch: bool = False


class SnapshotChange(Protocol):
    """A change that makes the manifests of a new snapshot."""

    @property
    def operation(self) -> str:
        """`append`, `replace`, `overwrite` or `delete`."""

    @property
    def branch(self) -> str:
        """The branch to which the snapshot is added."""

    def apply(self, metadata: TableMetadata) -> SnapshotContent | Conflicted:
        """The change on top of the branch as `metadata` has it; Conflicted when it is void."""


def new_snapshot_id() -> int:
    """A random positive 63 bit number."""
    bits = uuid.uuid4().int
    return ((bits >> 64) ^ bits) & 0x7FFF_FFFF_FFFF_FFFF


def commit_snapshot(
    operations: TableOperations,
    change: SnapshotChange,
    writer: MetadataWriter,
    *,
    clock: Clock,
    retry: RetryPolicy | None = None,
) -> CommitOutcome:
    """Commit `change`, trying again as the table's properties or `retry` say.

    Raises StorageUnavailableError, CorruptTableError and ConfigError; then nothing was published
    and what was written is removed as far as possible.
    """
    try:
        with traced_commit(operations.arguments, writer.snapshot_id) as span:
            outcome = _attempt_all(operations, change, writer, clock, retry)
            if not isinstance(outcome, Committed):
                span.fail(str(outcome))
    except TidelineError:
        remove_quietly(operations.io, writer.unused(()))
        raise
    if isinstance(outcome, Conflicted):
        remove_quietly(operations.io, writer.unused(()))
    elif isinstance(outcome, Committed):
        remove_unused(operations.io, writer, outcome.loaded.metadata)
        return Committed(outcome.loaded, writer.snapshot_id)
    elif isinstance(outcome, Unknown):
        return replace(outcome, snapshot_id=writer.snapshot_id)
    return outcome


def _attempt_all(
    operations: TableOperations,
    change: SnapshotChange,
    writer: MetadataWriter,
    clock: Clock,
    retry: RetryPolicy | None,
) -> CommitOutcome:
    base = operations.load()
    policy = retry or commit_retries(base.metadata.properties)
    outcome: CommitOutcome = Conflicted("no attempt was made")
    for attempt in policy.attempts(clock):
        if attempt > 1:
            base = operations.load()
        if base.metadata.snapshot(writer.snapshot_id) is not None:
            return Committed(base)
        content = change.apply(base.metadata)
        if isinstance(content, Conflicted):
            return content
        outcome = _publish(operations, base, change, content, writer, clock)
        if not isinstance(outcome, Conflicted):
            return outcome
    return outcome


def _publish(
    operations: TableOperations,
    base: Loaded,
    change: SnapshotChange,
    content: SnapshotContent,
    writer: MetadataWriter,
    clock: Clock,
) -> CommitOutcome:
    now_ms = base.metadata.last_updated_ms
    metadata = apply_updates(base.metadata, content.updates, now_ms=now_ms)
    head = metadata.ref_snapshot(change.branch)
    snapshot = _snapshot(metadata, head, change.operation, content, writer, clock)
    onto = content.onto or change.branch
    ref = metadata.refs.get(onto) or _new_ref(onto, snapshot)
    ended = (RemoveSnapshotRef(change.branch),) if content.ends_branch else ()
    moved = dict.fromkeys((change.branch, onto))
    return operations.commit(
        base,
        (
            AssertTableUuid(metadata.table_uuid),
            *(AssertRefSnapshotId(name, _head_id(metadata, name)) for name in moved),
        ),
        (
            *content.updates,
            AddSnapshot(snapshot),
            SetSnapshotRef(onto, replace(ref, snapshot_id=snapshot.snapshot_id)),
            *ended,
        ),
    )


def _new_ref(name: str, snapshot: Snapshot) -> SnapshotRef:
    """A branch that nobody made. What a program works on is not dropped for its age."""
    return SnapshotRef(snapshot.snapshot_id, max_ref_age_ms=None if name == MAIN else _FOR_EVER_MS)


def _head_id(metadata: TableMetadata, name: str) -> int | None:
    ref = metadata.refs.get(name)
    return None if ref is None else ref.snapshot_id


def _snapshot(
    metadata: TableMetadata,
    head: Snapshot | None,
    operation: str,
    content: SnapshotContent,
    writer: MetadataWriter,
    clock: Clock,
) -> Snapshot:
    is_numbered = metadata.format_version > 1
    sequence_number = metadata.last_sequence_number + 1 if is_numbered else 0
    location, encoded = writer.write_list(
        content.manifests, metadata=metadata, parent=head, sequence_number=sequence_number
    )
    first_row_id, added_rows = metadata.next_row_id, None
    if first_row_id is not None and encoded.next_row_id is not None:
        added_rows = encoded.next_row_id - first_row_id
    return Snapshot(
        snapshot_id=writer.snapshot_id,
        parent_snapshot_id=None if head is None else head.snapshot_id,
        sequence_number=sequence_number,
        # Readers refuse a table whose log goes backwards, as it would after a clock that did.
        timestamp_ms=max(clock.now_ms(), metadata.last_updated_ms),
        operation=operation,
        summary=with_totals(content.summary, head),
        manifest_list=location,
        schema_id=metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=added_rows,
    )
