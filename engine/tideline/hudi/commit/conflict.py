"""Did another writer conflict with us while we were writing?

1. At its start a writer remembers every completed and every pending write.
2. Before it completes, the candidates are the writes completed since, and pending clustering and
   compaction plans.
3. A candidate conflicts when it writes or replaces a file group that we write or replace, or when
   both may have inserted the same new key. The later committer loses; its write is undone and may
   be retried.
4. Anything that undoes what we started from is a conflict as well: a pending rollback of our
   instant, a pending restore, a completed write that is gone, writes that were archived unseen.
5. So is a commit of the same ingest with a checkpoint as new as ours: it took in the same files.

Stricter than Hudi where Hudi loses or doubles rows: the file groups that delete_partition replaces
count; an insert_overwrite conflicts with new files in the partitions it overwrites; in a bucket
index two new file groups of one bucket conflict; new keys conflict (docs/decisions/0009); a write
that began before ours under a clock that runs behind is a candidate too. Everything here is pure:
what must be read comes through the callables given.
Source: Hudi `TransactionUtils`, `SimpleConcurrentFileWritesConflictResolutionStrategy`,
`BucketIndexConcurrentFileWritesConflictResolutionStrategy`, `ConcurrentOperation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import decode_container
from tideline.hudi.index.bucket import bucket_of_file_id
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried_value import CARRIER_KEY, carried_key, generation
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

_OVERWRITES = frozenset({"INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"})
_COMPACT = "COMPACT"
_LOG_COMPACT = "LOG_COMPACT"
_CLUSTER = "CLUSTER"
_SERVICES = frozenset({_COMPACT, _LOG_COMPACT, _CLUSTER})
"""Operations that move rows without adding any."""


class UniqueKeys(Enum):
    """Within what a write promises that no key is stored twice."""

    NOWHERE = "nowhere"
    PARTITION = "partition"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class TransactionStart:
    """The writes that were completed and those that were pending when a write began."""

    completed: frozenset[InstantTime] = frozenset()
    pending: frozenset[InstantTime] = frozenset()

    @classmethod
    def of(cls, timeline: ActiveTimeline) -> TransactionStart:
        writes = timeline.writes()
        return cls(
            frozenset(instant.time for instant in writes.completed()),
            frozenset(instant.time for instant in writes.pending()),
        )


@dataclass(frozen=True, slots=True)
class WriteFootprint:
    """What one instant writes or replaces.

    `written_partitions` received data files; `overwritten_partitions` are those of them whose
    former content the instant replaces as a whole; `groups_with_new_keys` received inserts.
    """

    instant: Instant
    operation_type: str
    file_groups: frozenset[FileGroupId]
    written_partitions: frozenset[str] = field(default_factory=frozenset)
    overwritten_partitions: frozenset[str] = field(default_factory=frozenset)
    groups_with_new_keys: frozenset[FileGroupId] = field(default_factory=frozenset)

    @property
    def is_clustering_plan(self) -> bool:
        """Whether it is a clustering that has not completed."""
        return self.operation_type == _CLUSTER and self.instant.is_pending

    @classmethod
    def of_commit(cls, instant: Instant, metadata: CommitMetadata) -> WriteFootprint:
        """Footprint of a completed write, or of one about to complete with `metadata`."""
        stats = metadata.partition_to_write_stats
        replaced = metadata.partition_to_replace_file_ids or {}
        written = frozenset(partition for partition, files in stats.items() if files)
        groups = {
            FileGroupId(partition, stat.file_id)
            for partition, files in stats.items()
            for stat in files
            if stat.file_id
        }
        groups |= {FileGroupId(part, file_id) for part, ids in replaced.items() for file_id in ids}
        operation = _COMPACT if metadata.compacted else metadata.operation_type
        inserted = frozenset(
            FileGroupId(partition, stat.file_id)
            for partition, files in stats.items()
            for stat in files
            if stat.file_id and stat.num_inserts and operation not in _SERVICES
        )
        return cls(
            instant,
            operation,
            frozenset(groups),
            written,
            written if operation in _OVERWRITES else frozenset(),
            inserted,
        )

    @classmethod
    def of_compaction_plan(cls, instant: Instant, plan: Mapping[str, Any]) -> WriteFootprint:
        """Footprint of a pending compaction (a HoodieCompactionPlan record)."""
        operations = plan.get("operations") or ()
        groups = frozenset(
            FileGroupId(operation["partitionPath"] or "", operation["fileId"])
            for operation in operations
        )
        return cls(instant, _COMPACT, groups)

    @classmethod
    def of_replace_plan(cls, instant: Instant, requested: Mapping[str, Any]) -> WriteFootprint:
        """Footprint of a pending replacecommit (a HoodieRequestedReplaceMetadata record).

        Only clustering names its file groups beforehand; an overwrite has an empty footprint.
        """
        plan = requested.get("clusteringPlan") or {}
        groups = frozenset(
            FileGroupId(item["partitionPath"] or "", item["fileId"])
            for group in plan.get("inputGroups") or ()
            for item in group.get("slices") or ()
        )
        return cls(instant, _CLUSTER if plan else "UNKNOWN", groups)


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Another writer's instant got in the way, on these file groups of its own.

    `file_groups` is empty when the other instant is already archived and cannot be compared.
    """

    other: Instant
    file_groups: tuple[FileGroupId, ...] = ()


def find_undoing(
    now: ActiveTimeline, mine: Instant, read_plan: Callable[[Instant], bytes]
) -> Instant | None:
    """A pending restore, or a pending rollback of `mine`; None when there is none.

    The process that began it may have deleted files of `mine` already, and it will be finished.
    """
    for undoing in now.pending().of(Action.ROLLBACK, Action.RESTORE):
        if undoing.action is Action.RESTORE or _undoes(undoing, mine, read_plan):
            return undoing
    return None


def find_write_conflict(
    start: TransactionStart,
    now: ActiveTimeline,
    mine: Instant,
    metadata: CommitMetadata,
    *,
    read_commit: Callable[[Instant], CommitMetadata],
    read_plan: Callable[[Instant], bytes],
    by_bucket: bool = False,
    unique_keys: UniqueKeys = UniqueKeys.NOWHERE,
    wins_over_clustering: bool = False,
) -> Conflicted | None:
    """The first conflict of `mine`, about to complete with `metadata`; None when there is none.

    `now` is the timeline read under the table lock. `by_bucket` is whether the table has a bucket
    index, whose file groups are compared by bucket; `unique_keys` is what `mine` promises.
    `wins_over_clustering`: a clustering that is still pending is no conflict.
    """
    lost = _lost_sight_of(start, now)
    if lost is not None:
        return Conflicted(Instant(lost, Action.COMMIT, State.COMPLETED))
    undoing = find_undoing(now, mine, read_plan)
    if undoing is not None:
        return Conflicted(undoing)
    faster = _faster_ingest(now, metadata, read_commit)
    if faster is not None:
        return Conflicted(faster)
    others = (
        _footprint(candidate, read_commit, read_plan)
        for candidate in candidate_instants(start, now, mine)
    )
    return find_conflict(
        WriteFootprint.of_commit(mine, metadata),
        (
            other
            for other in others
            if other is not None and not (wins_over_clustering and other.is_clustering_plan)
        ),
        by_bucket=by_bucket,
        unique_keys=unique_keys,
    )


def candidate_instants(
    start: TransactionStart, now: ActiveTimeline, mine: Instant
) -> tuple[Instant, ...]:
    """Instants that may conflict with `mine`, in timeline order."""

    def is_candidate(instant: Instant) -> bool:
        if instant.time == mine.time:
            return False
        if instant.is_completed:
            return instant.action in COMMIT_ACTIONS and instant.time not in start.completed
        if instant.action in (Action.REPLACECOMMIT, Action.CLUSTERING):
            return True
        return instant.action is Action.COMPACTION and instant.time > mine.time

    return tuple(instant for instant in now if is_candidate(instant))


def find_conflict(
    mine: WriteFootprint,
    others: Iterable[WriteFootprint],
    *,
    by_bucket: bool = False,
    unique_keys: UniqueKeys = UniqueKeys.NOWHERE,
) -> Conflicted | None:
    """The first of `others` that overlaps `mine` and is not allowed to."""
    if mine.operation_type == _LOG_COMPACT:
        return None
    for other in others:
        overlapping = _overlap(mine, other, by_bucket) | _new_keys(mine, other, unique_keys)
        if overlapping and not _is_earlier_compaction(other, mine):
            return Conflicted(other.instant, tuple(sorted(overlapping)))
    return None


def _overlap(
    mine: WriteFootprint, other: WriteFootprint, by_bucket: bool
) -> frozenset[FileGroupId]:
    """File groups of `other` that it must not share with `mine`."""
    contested = (mine.overwritten_partitions & other.written_partitions) | (
        mine.written_partitions & other.overwritten_partitions
    )
    ours = {_identity(group, by_bucket) for group in mine.file_groups}
    return frozenset(
        group
        for group in other.file_groups
        if group.partition in contested or _identity(group, by_bucket) in ours
    )


def _new_keys(
    mine: WriteFootprint, other: WriteFootprint, unique_keys: UniqueKeys
) -> frozenset[FileGroupId]:
    """File groups of `other` whose new keys may be among those that `mine` took for new."""
    ours = {group.partition for group in mine.groups_with_new_keys}
    if unique_keys is UniqueKeys.NOWHERE or not ours:
        return frozenset()
    return frozenset(
        group
        for group in other.groups_with_new_keys
        if unique_keys is UniqueKeys.TABLE or group.partition in ours
    )


def _identity(group: FileGroupId, by_bucket: bool) -> tuple[str, str | int]:
    if by_bucket:
        return group.partition, bucket_of_file_id(group.file_id)
    return group.partition, group.file_id


def _is_earlier_compaction(other: WriteFootprint, mine: WriteFootprint) -> bool:
    # Our log files were appended after the compaction's instant, on top of its result.
    return other.operation_type == _COMPACT and other.instant.time < mine.instant.time


def _lost_sight_of(start: TransactionStart, now: ActiveTimeline) -> InstantTime | None:
    """A write of the start that is gone, so that what happened since cannot be known.

    A completed one was restored away, or archived together with everything before the first active
    instant; that is harmless unless it was the newest one. A pending one may have completed and
    been archived since.
    """
    first_active = now.start
    present = {instant.time for instant in now.writes().completed()}
    gone: set[InstantTime] = set(start.completed) - present
    if first_active is not None:
        newest = max(start.completed, default=first_active)
        # A savepoint keeps its commit in front of the first active instant.
        archived = {newest} & gone if newest < first_active else set()
        unseen = {t for t in start.pending if t < first_active and now.find(t) is None}
        gone = {t for t in gone if t >= first_active} | archived | unseen
    return min(gone, default=None)


def _undoes(rollback: Instant, mine: Instant, read_plan: Callable[[Instant], bytes]) -> bool:
    """Whether a pending rollback is one of `mine`, or cannot be read."""
    try:
        plan = decode_container(read_plan(rollback.in_state(State.REQUESTED)))
    except ObjectNotFoundError:
        return False
    except CorruptTableError:
        return True
    return (plan.get("instantToRollback") or {}).get("commitTime") == str(mine.time)


def _faster_ingest(
    now: ActiveTimeline,
    metadata: CommitMetadata,
    read_commit: Callable[[Instant], CommitMetadata],
) -> Instant | None:
    """A commit that already has the files of this one, taken in by another run of its ingest."""
    owner = metadata.extra_metadata.get(CARRIER_KEY)
    if owner is None:
        return None
    key = carried_key(owner)
    ours = generation(metadata.extra_metadata.get(key))
    if ours is None:
        return None
    for instant in reversed(now.completed().of(*COMMIT_ACTIONS).instants):
        extra = read_commit(instant).extra_metadata
        theirs = generation(extra.get(key))
        if theirs is not None and theirs >= ours:
            return instant
        # Later commits may carry an older value on, those of its owner do not.
        if extra.get(CARRIER_KEY) == owner:
            return None
    return None


def _footprint(
    candidate: Instant,
    read_commit: Callable[[Instant], CommitMetadata],
    read_plan: Callable[[Instant], bytes],
) -> WriteFootprint | None:
    """What a candidate touches; None when it was rolled back while we looked."""
    try:
        if candidate.is_completed:
            return WriteFootprint.of_commit(candidate, read_commit(candidate))
        body = read_plan(candidate.in_state(State.REQUESTED))
        plan = decode_container(body) if body else {}
    except ObjectNotFoundError:
        return None
    except CorruptTableError as error:
        raise CorruptTableError(error.message, instant=candidate, value=error.value) from error
    if candidate.action is Action.COMPACTION:
        return WriteFootprint.of_compaction_plan(candidate, plan)
    return WriteFootprint.of_replace_plan(candidate, plan)
