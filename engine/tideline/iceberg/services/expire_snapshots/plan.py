"""Which branches, tags and snapshots a table no longer keeps; pure.

1. A branch or tag goes when the snapshot it leads to is older than its `max-ref-age-ms` (property
   `history.expire.max-ref-age-ms`, none by default). `main` never goes.
2. A branch that stays keeps its newest snapshot, its ancestors down to `min-snapshots-to-keep`
   (property `history.expire.min-snapshots-to-keep`, 1), and those younger than its
   `max-snapshot-age-ms` (property `history.expire.max-snapshot-age-ms`, 5 days), up to the first
   that is neither. A tag keeps its snapshot.
3. With `superseded_before_ms` a branch keeps also what was its newest snapshot at that moment or
   later: a writer that is under way may have started from it, and would fail without it.
4. A snapshot that no remaining branch or tag leads to goes when it is older than `older_than_ms`.
5. Snapshots named by id are expired too, unless a branch or tag leads to one.

Source: Iceberg's `ExpireSnapshots` and the specification, "Snapshot Retention Policy".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.iceberg.metadata.metadata_update import (
    AssertRefSnapshotId,
    AssertTableUuid,
    MetadataUpdate,
    RemovePartitionSpecs,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    Requirement,
)
from tideline.iceberg.metadata.snapshot import MAIN, SnapshotRef
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import whole_property

AGE_PROPERTY = "history.expire.max-snapshot-age-ms"
COUNT_PROPERTY = "history.expire.min-snapshots-to-keep"
REF_AGE_PROPERTY = "history.expire.max-ref-age-ms"
AGE_MS_DEFAULT = 5 * 24 * 60 * 60 * 1000
_FOREVER_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ExpireOptions:
    """What to expire; None means the table's own setting.

    `clean_expired_metadata` also forgets partition specs and schemas that nothing uses any more.
    Without `clean_expired_files` only metadata changes, and files become orphans.
    """

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    clean_expired_metadata: bool = False
    clean_expired_files: bool = True
    superseded_before_ms: int | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        if self.retain_last is not None and self.retain_last < 1:
            raise ConfigError("retain_last must be at least 1", value=self.retain_last)


@dataclass(frozen=True, slots=True)
class UsedMetadata:
    """What manifest lists of the snapshots that stay say: which specs their manifests have, and
    whether there are delete files, which may need columns that were dropped."""

    spec_ids: frozenset[int]
    has_deletes: bool


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """What the table's metadata loses; `kept_ids` are the snapshots that stay."""

    refs: tuple[str, ...]
    snapshot_ids: tuple[int, ...]
    kept_ids: tuple[int, ...]
    spec_ids: tuple[int, ...] = ()
    schema_ids: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.refs or self.snapshot_ids or self.spec_ids or self.schema_ids)

    def updates(self) -> tuple[MetadataUpdate, ...]:
        """The plan as changes of metadata."""
        changes: list[MetadataUpdate] = [RemoveSnapshotRef(name) for name in self.refs]
        if self.snapshot_ids:
            changes.append(RemoveSnapshots(self.snapshot_ids))
        if self.spec_ids:
            changes.append(RemovePartitionSpecs(self.spec_ids))
        if self.schema_ids:
            changes.append(RemoveSchemas(self.schema_ids))
        return tuple(changes)


def plan_expire(
    metadata: TableMetadata,
    options: ExpireOptions,
    *,
    now_ms: int,
    used: UsedMetadata | None = None,
) -> ExpirePlan:
    """What to expire of the table as `metadata` has it; specs and schemas only with `used`.

    Raises ConfigError when a snapshot named by id is one that a branch or tag leads to.
    """
    retention = _Retention.of(metadata, options, now_ms)
    refs = {name: ref for name, ref in metadata.refs.items() if retention.keeps_ref(name, ref)}
    named = _named(options.snapshot_ids, refs, metadata)
    kept = retention.snapshots(refs) - named
    gone = [
        snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.snapshot_id not in kept
    ]
    plan = ExpirePlan(
        refs=tuple(name for name in metadata.refs if name not in refs),
        snapshot_ids=tuple(gone),
        kept_ids=tuple(
            snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.snapshot_id in kept
        ),
    )
    if used is None or not options.clean_expired_metadata:
        return plan
    spec_ids = used.spec_ids | {metadata.default_spec_id}
    return ExpirePlan(
        plan.refs,
        plan.snapshot_ids,
        plan.kept_ids,
        tuple(
            partition_spec.spec_id
            for partition_spec in metadata.partition_specs
            if partition_spec.spec_id not in spec_ids
        ),
        tuple(_unused_schemas(metadata, kept, spec_ids, has_deletes=used.has_deletes)),
    )


def requirements(metadata: TableMetadata) -> tuple[Requirement, ...]:
    """What a plan made from `metadata` takes for granted: branches and tags have not moved."""
    refs = metadata.refs.items()
    return (
        AssertTableUuid(metadata.table_uuid),
        *(AssertRefSnapshotId(name, ref.snapshot_id) for name, ref in refs),
    )


@dataclass(frozen=True, slots=True)
class _Retention:
    metadata: TableMetadata
    now_ms: int
    older_than_ms: int
    count_min: int
    ref_age_ms_max: int
    superseded_before_ms: int | None

    @classmethod
    def of(cls, metadata: TableMetadata, options: ExpireOptions, now_ms: int) -> _Retention:
        properties = metadata.properties
        older_than_ms, count_min = options.older_than_ms, options.retain_last
        if older_than_ms is None:
            older_than_ms = now_ms - whole_property(properties, AGE_PROPERTY, AGE_MS_DEFAULT)
        if count_min is None:
            count_min = whole_property(properties, COUNT_PROPERTY, 1)
        ref_age_ms_max = whole_property(properties, REF_AGE_PROPERTY, _FOREVER_MS)
        return cls(
            metadata,
            now_ms,
            older_than_ms,
            count_min,
            ref_age_ms_max,
            options.superseded_before_ms,
        )

    def keeps_ref(self, name: str, ref: SnapshotRef) -> bool:
        if name == MAIN:
            return True
        snapshot = self.metadata.snapshot(ref.snapshot_id)
        limit_ms = self.ref_age_ms_max if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        return snapshot is not None and self.now_ms - snapshot.timestamp_ms <= limit_ms

    def snapshots(self, refs: dict[str, SnapshotRef]) -> set[int]:
        kept = {ref.snapshot_id for ref in refs.values()}
        referenced = set(kept)
        for ref in refs.values():
            if ref.type == "branch":
                kept.update(self._of_branch(ref))
                ancestors = self.metadata.ancestors(ref.snapshot_id)
                referenced.update(ancestor.snapshot_id for ancestor in ancestors)
        kept.update(
            snapshot.snapshot_id
            for snapshot in self.metadata.snapshots
            if snapshot.snapshot_id not in referenced
            and snapshot.timestamp_ms >= self.older_than_ms
        )
        return kept

    def _of_branch(self, ref: SnapshotRef) -> Iterator[int]:
        older_than_ms, count_min = self.older_than_ms, self.count_min
        if ref.max_snapshot_age_ms is not None:
            older_than_ms = self.now_ms - ref.max_snapshot_age_ms
        if ref.min_snapshots_to_keep is not None:
            count_min = ref.min_snapshots_to_keep
        next_ms = self.now_ms
        for number, snapshot in enumerate(self.metadata.ancestors(ref.snapshot_id)):
            is_old = number >= count_min and snapshot.timestamp_ms < older_than_ms
            if is_old and not self._was_newest_lately(next_ms):
                return
            yield snapshot.snapshot_id
            next_ms = snapshot.timestamp_ms

    def _was_newest_lately(self, until_ms: int) -> bool:
        return self.superseded_before_ms is not None and until_ms >= self.superseded_before_ms


def _named(
    snapshot_ids: Iterable[int], refs: dict[str, SnapshotRef], metadata: TableMetadata
) -> set[int]:
    """Snapshots to expire by their ids; those that are gone already are no mistake."""
    named = set(snapshot_ids)
    for name, ref in refs.items():
        if ref.snapshot_id in named:
            message = f"a snapshot that {name} leads to cannot be expired"
            raise ConfigError(message, table=metadata.location, value=ref.snapshot_id)
    return named


def _unused_schemas(
    metadata: TableMetadata, kept: set[int], spec_ids: Iterable[int], *, has_deletes: bool
) -> Iterator[int]:
    used = {metadata.current_schema_id}
    used.update(
        snapshot.schema_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id in kept and snapshot.schema_id is not None
    )
    # A spec's source column, and the columns of equality deletes, may be found in old schemas only.
    used.update(metadata.partition_schema(metadata.spec(spec_id)).schema_id for spec_id in spec_ids)
    current = metadata.schema().leaves()
    for schema in metadata.schemas:
        is_needed = has_deletes and not schema.leaves().keys() <= current.keys()
        if schema.schema_id not in used and not is_needed:
            yield schema.schema_id
