"""The transaction around every write, whichever engine moves the rows.

1. `begin`, under the table lock: roll back and sweep up what dead writers left, remember what is
   completed and pending, start the heartbeat, create the requested instant.
2. `to_inflight`: the workload profile is saved before a data file exists.
3. The engine writes data files, a marker before each.
4. `commit`, under the lock again: is the heartbeat alive, is the instant still ours, did another
   writer complete a write on our file groups; delete what retried tasks left; put the commit
   into the metadata table, or switch that off; complete the instant.
5. `abort` undoes everything when any of this fails or conflicts.

What a death leaves. In 1, between heartbeat and requested: a heartbeat, which the next writer
sweeps away. Until 4 completes the instant: a pending instant that readers ignore; once its
heartbeat is dead the next writer rolls it back, files and all. After the completed object is there:
the commit is visible, and markers and heartbeat lie around unused until the next writer sweeps.

When the reply to the completing write is lost, the write is repeated and the object read back, for
as long as that is allowed, under a new lock if need be. If the store stays away even then the
outcome is Unknown, and nothing is undone: the request may still be on its way, and a commit without
its files would be worse than a pending instant. The heartbeat lapses, and who finds the instant
pending after that rolls it back.

A write with a token looks for it under both locks: in 1 an earlier write with the same token means
that there is nothing to do (`Repeated`), in 4 that another one was faster.

Source: Hudi's BaseHoodieWriteClient.commitStats and TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tideline.errors import ConflictError, InvalidDataError, UnsupportedTableError
from tideline.formats.avro import encode_container
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.commit.carried_metadata import carried_metadata
from tideline.hudi.commit.compared_keys import comparison_of_keys
from tideline.hudi.commit.completion import CommitState
from tideline.hudi.commit.conflict import Conflicted, TransactionStart, find_write_conflict
from tideline.hudi.commit.finalize import delete_unreported_files
from tideline.hudi.commit.outcome import Committed, CompletedByAnother, Unknown
from tideline.hudi.commit.own_instant import OwnInstant
from tideline.hudi.commit.schema_carry import history_after, save_history, unchanged_history
from tideline.hudi.file_group.stored_contents import StoredContents
from tideline.hudi.metadata_table.index_build import require_none_started
from tideline.hudi.metadata_table.keep import record_commit
from tideline.hudi.recovery.execute import (
    FailedWrites,
    RolledBack,
    execute_rollback,
    remove_files_of,
)
from tideline.hudi.recovery.recover import execute_recovery
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.concurrent_schema_change import agree_on_schema, hides
from tideline.hudi.write.config import ClusteringUpdates, WriteConfig
from tideline.hudi.write.matched_rows import MatchedRows
from tideline.hudi.write.unique_keys import require_agreed_uniqueness, unique_keys
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import Repeated, WriteRequest, WrittenFiles
from tideline.tracing import traced_commit

SCHEMA_KEY = "schema"


def begin_write(
    table: HoodieTable, request: WriteRequest, failed_writes: FailedWrites
) -> WriteTransaction | Repeated:
    """Start a write, after `failed_writes` were rolled back, unless its token says it took place.

    Raises ConflictError when the lock is not to be had or was lost, or a pending write has the
    token; UnsupportedTableError when the table changed into something we refuse, or a restore is
    pending; ConfigError when its zone must be declared.
    """
    config, operation = request.config, request.operation
    with table.lock(config.lock_timing).acquire() as lease:
        timeline = admit(table, operation.permission)
        rolled_back = execute_recovery(table, timeline, failed_writes)
        if rolled_back:
            timeline = table.timeline()
        if request.token is not None:
            found = request.token.find(timeline, is_locked=True)
            if found is not None:
                return Repeated(found, rolled_back)
            request.token.require_not_pending(timeline, config.heartbeat)
        _refuse_blocked(table, timeline)
        # Read before the heartbeat starts: what fails here leaves nothing behind.
        start = _Start.of(table, timeline, request.matched)
        action = operation.action(table.config.table_type)
        pending = OwnInstant.request(
            table,
            table.instants.reserve_time(timeline),
            action,
            _requested_body(action),
            heartbeat=config.heartbeat,
            settle_s=config.settle_s,
            lease=lease,
        )
    return WriteTransaction(table, request, failed_writes, start, pending, rolled_back)


@dataclass(frozen=True, slots=True)
class _Start:
    """What a write began with, as long as no other writer changes it."""

    timeline: ActiveTimeline
    writes: TransactionStart
    schema_json: str | None
    history: SchemaHistory | None

    @classmethod
    def of(
        cls, table: HoodieTable, timeline: ActiveTimeline, matched: MatchedRows | None
    ) -> _Start:
        return cls(
            timeline,
            TransactionStart.of(timeline) if matched is None else matched.seen,
            table.schemas.newest_json(timeline),
            schema_history(table, timeline),
        )


class WriteTransaction:
    """One pending write, from its requested instant to completion or abort."""

    def __init__(
        self,
        table: HoodieTable,
        request: WriteRequest,
        failed_writes: FailedWrites,
        start: _Start,
        pending: OwnInstant,
        rolled_back: Sequence[RolledBack],
    ) -> None:
        self.table = table
        self.request = request
        self.pending = pending
        self.rolled_back = list(rolled_back)
        """What of others was undone on the way."""
        self._failed_writes = failed_writes
        self._start = start
        self._was_rolled_back = False
        self._completing: Committed | None = None
        self._commit_again: Callable[[], Committed | Conflicted | Repeated] | None = None

    @property
    def instant(self) -> InstantTime:
        return self.pending.time

    @property
    def timeline(self) -> ActiveTimeline:
        """The timeline as it was at the start, without our own instant."""
        return self._start.timeline

    @property
    def operation(self) -> WriteOperation:
        return self.request.operation

    @property
    def config(self) -> WriteConfig:
        return self.request.config

    def withdraw(self, clusterings: Sequence[InstantTime]) -> None:
        """Have pending clusterings rolled back for good, so that they do not get in the way.

        Call before a data file of this write exists. Dying in between leaves some of them, and this
        write pending, as dying before does.
        """
        with self.table.lock(self.config.lock_timing).acquire():
            timeline = self.table.timeline()
            for time in clusterings:
                clustering = timeline.pending().find(time)
                if clustering is None:
                    continue
                is_alive = not self._failed_writes.is_dead(self.table, time)
                undone = execute_rollback(self.table, clustering, is_alive=is_alive)
                if undone is not None:
                    self.rolled_back.append(undone)

    def to_inflight(self, profile: CommitMetadata | None = None) -> None:
        """Save the workload profile (None for a bulk insert). No data file may exist before.

        The token stands in it, so that others find it while this write is pending.
        """
        if self.request.token is not None:
            profile = profile or CommitMetadata({}, self.operation.json_name)
            named = {**profile.extra_metadata, **self.request.token.extra_metadata}
            profile = replace(profile, extra_metadata=named)
        encode = self.table.timelines.layout.encode_commit
        self.pending.to_inflight(encode(profile) if profile else b"")

    def commit(self, written: WrittenFiles) -> Committed | Conflicted | Repeated:
        """Complete the instant, unless another writer got in the way, or had the same token.

        After anything but Committed, and after any error, call `abort`, which knows what became of
        it. Raises ConflictError when this writer was given up: rolled back by another, heartbeat or
        lease expired; and what the request's requirement raises.
        """
        self._commit_again = lambda: self._commit(written)
        with traced_commit(self.table.location.uri, self.instant) as span:
            outcome = self._commit_again()
            if not isinstance(outcome, Committed):
                span.fail(str(outcome))
            return outcome

    def _commit(self, written: WrittenFiles) -> Committed | Conflicted | Repeated:
        self.pending.require_alive()
        encode_commit = self.table.timelines.layout.encode_commit
        with self.table.lock(self.config.lock_timing).acquire() as lease:
            timeline = self.table.timeline(own=self.instant)
            self._require_pending(timeline)
            if self.request.token is not None:
                found = self.request.token.find(timeline, is_locked=True)
                if found is not None:
                    return Repeated(found, tuple(self.rolled_back))
            metadata = CommitMetadata.of_stats(
                written.stats,
                operation_type=self.operation.json_name,
                extra_metadata=self._extra_metadata(timeline),
                replaced=written.replaced,
            )
            conflict = self._conflict(timeline, metadata)
            if conflict is not None:
                return conflict
            metadata = self._with_schema_of_both(metadata, timeline)
            require_agreed_uniqueness(self.table, self.operation, self.config)
            metadata = self._with_history(metadata, timeline)
            leftovers = delete_unreported_files(self.table.store, self.instant, written.stats)
            completed = self.pending.completed_now(timeline)
            wanted, guard = self.config.metadata_table, self.pending.guard(lease)
            keys = comparison_of_keys(self.table, metadata)
            contents = StoredContents(self.table.store)
            kept = record_commit(
                self.table, completed, metadata, timeline, wanted, guard, keys, contents
            )
            committed = Committed(completed, metadata, leftovers, kept)
            self._completing = committed
            require_none_started(self.table, timeline)
            self.pending.complete(completed, encode_commit(metadata), lease)
        self.pending.tidy_up()
        return committed

    def abort(self, *, patiently: bool = True) -> Committed | CompletedByAnother | Unknown | None:
        """Undo this write and stop its heartbeat; never raises errors of its own.

        Returns the commit when it turns out to have taken place after all, Unknown when that could
        not be found out, CompletedByAnother when the store let another writer complete the instant.
        Without patience the store is asked only once.
        """
        return self.pending.settle(self._settle, patiently=patiently)

    def _settle(self) -> Committed | CompletedByAnother | CommitState:
        now = self.table.timeline().find(self.instant)
        if now is None:
            # What is left of it is no other writer's business, and the lock may be hard to get.
            remove_files_of(self.table, self.instant)
            return CommitState.UNDONE
        if now.is_pending and self.pending.may_still_take_place:
            return self._complete_under_new_lock()
        if now.is_pending:
            with self.table.lock(self.config.lock_timing).acquire():
                now = self.table.timeline().find(self.instant)
                if now is None:
                    remove_files_of(self.table, self.instant)
                    return CommitState.UNDONE
                if now.is_pending:
                    # Once others may have rolled it back its markers are not to be relied on.
                    was_given_up = self._was_rolled_back or self.pending.is_expired
                    execute_rollback(self.table, now, lists_files=was_given_up)
                    return CommitState.UNDONE
        if self._completing is None or not self.pending.is_sent:
            # Its files have our instant as well: what is theirs cannot be told from ours.
            return CompletedByAnother(self.instant)
        self.pending.tidy_up()
        return self._completing

    def _complete_under_new_lock(self) -> Committed | CommitState:
        """Repeat the whole commit: once it succeeds, or is refused, nothing is in doubt."""
        assert self._commit_again is not None, "a request to complete was sent"
        outcome = self._commit_again()
        return outcome if isinstance(outcome, Committed) else CommitState.OPEN

    def _extra_metadata(self, timeline: ActiveTimeline) -> Mapping[str, str]:
        """What the commit says of itself, under the lock. Raises what the requirement raises."""
        request = self.request
        if request.require is not None:
            request.require(timeline)
        carried = carried_metadata(self.table, timeline, request.extra_metadata)
        named = request.token.extra_metadata if request.token is not None else {}
        return {**carried, **request.extra_metadata, **named, SCHEMA_KEY: request.schema_json}

    def _conflict(self, timeline: ActiveTimeline, metadata: CommitMetadata) -> Conflicted | None:
        config = self.config
        return find_write_conflict(
            self._start.writes,
            timeline,
            self.pending.instant,
            metadata,
            read_commit=self.table.timelines.read_commit,
            read_plan=self.table.timelines.read,
            by_bucket=config.index.numbers_file_ids,
            unique_keys=unique_keys(self.operation, config),
            wins_over_clustering=config.clustering_updates is ClusteringUpdates.ALLOW
            and not config.withdraws_clustering,
        )

    def _with_schema_of_both(
        self, metadata: CommitMetadata, timeline: ActiveTimeline
    ) -> CommitMetadata:
        """The metadata with the columns that another writer added concurrently.

        Raises ConflictError when the two cannot be one, or ours would be hidden behind a later
        instant.
        """
        mine = metadata.extra_metadata.get(SCHEMA_KEY, "")
        now = self.table.schemas.newest_json(timeline)
        try:
            both = agree_on_schema(self._start.schema_json, now, mine, table=self.table.config.name)
        except InvalidDataError as error:
            raise ConflictError(
                f"another writer changed the table's schema: {error.message}",
                table=self.table.location.uri,
                instant=self.instant,
                value=error.value,
            ) from error
        later = timeline.of(*COMMIT_ACTIONS).completed().after(self.instant)
        if len(later) and both and hides(now, both):
            raise ConflictError(
                "a concurrent write completed with the schema from before ours; write again",
                table=self.table.location.uri,
                instant=self.instant,
                value=later.last(),
            )
        return replace(metadata, extra_metadata={**metadata.extra_metadata, SCHEMA_KEY: both})

    def _with_history(self, metadata: CommitMetadata, timeline: ActiveTimeline) -> CommitMetadata:
        """The metadata with the version of the schema history that our files have.

        Raises ConflictError when the version that we began with is not in force any more.
        """
        history = unchanged_history(self.table, timeline, self._start.history, self.instant)
        if history is None:
            return metadata
        extra = dict(metadata.extra_metadata)
        if self.operation is WriteOperation.DELETE_PARTITION:
            # It moves no rows, and what it carries may have been read before an ALTER.
            extra[SCHEMA_KEY] = self._start.schema_json or ""
        elif extra[SCHEMA_KEY] not in ("", self._start.schema_json):
            history = history_after(self.table, history, self.instant, extra[SCHEMA_KEY])
        extra |= save_history(self.table, timeline, self.instant, history)
        return replace(metadata, extra_metadata=extra)

    def _require_pending(self, timeline: ActiveTimeline) -> None:
        """Raise ConflictError when another process rolled this write back.

        That removes the inflight object first and the requested one next. Only the requested one
        is never made twice: an inflight object alone may be ours, made just after the rollback.
        """
        now = timeline.find(self.instant)
        requested = self.table.timelines.path(self.pending.instant.in_state(State.REQUESTED))
        if (
            now is None
            or now.state is not self.pending.instant.state
            or self.table.store.head(requested) is None
        ):
            self._was_rolled_back = True
            raise ConflictError(
                "this write was rolled back by another writer; write again",
                table=self.table.location.uri,
                instant=self.instant,
            )


def _refuse_blocked(table: HoodieTable, timeline: ActiveTimeline) -> None:
    restore = timeline.pending().of(Action.RESTORE).first()
    if restore is not None:
        raise UnsupportedTableError(
            "a restore is unfinished; finish it with `tideline restore` before writing",
            table=table.location.uri,
            instant=restore.time,
        )


def _requested_body(action: Action) -> bytes:
    """Empty for a commit; a replacecommit's requested object is an Avro record of nulls."""
    if action is not Action.REPLACECOMMIT:
        return b""
    return encode_container(
        "HoodieRequestedReplaceMetadata",
        {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": None},
    )
