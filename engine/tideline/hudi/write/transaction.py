"""The transaction around every write, whichever engine moves the rows.

1. `begin`, under the table lock: roll back and sweep up what dead writers left, remember what is
   completed and pending, start the heartbeat, create the requested instant.
2. `to_inflight`: the workload profile is saved before a data file exists.
3. The engine writes data files, a marker before each.
4. `commit`, under the lock again: is the heartbeat alive, is the instant still ours, did anybody
   complete a write on our file groups meanwhile; delete what retried tasks left; switch off a
   metadata table we do not maintain; complete the instant.
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

Source: Hudi's BaseHoodieWriteClient.commitStats and TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tideline.errors import (
    ConflictError,
    InvalidDataError,
    UnsupportedTableError,
)
from tideline.formats.avro import encode_container
from tideline.hudi.metadata.disable import disable_metadata_table
from tideline.hudi.nature.guard import admit
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.completion import (
    Fate,
    InstantCompletion,
    require_alive,
    require_lease,
)
from tideline.hudi.write.config import ClusteringUpdates, WriteConfig
from tideline.hudi.write.conflict import (
    Conflicted,
    TransactionStart,
    find_write_conflict,
)
from tideline.hudi.write.finalize import delete_unreported_files
from tideline.hudi.write.operation import WriteOperation
from tideline.hudi.write.outcome import Committed, Unknown
from tideline.hudi.write.schema_carry import history_after, save_history, unchanged_history
from tideline.hudi.write.schema_meanwhile import agree_on_schema, hides
from tideline.hudi.write.unique_keys import require_agreed_uniqueness, unique_keys
from tideline.storage.heartbeat import Heartbeat

SCHEMA_KEY = "schema"


class WriteTransaction:
    """One pending write, from its requested instant to completion or abort."""

    def __init__(
        self,
        table: HoodieTable,
        operation: WriteOperation,
        config: WriteConfig,
        *,
        requested: Instant,
        timeline: ActiveTimeline,
        schema_json: str | None,
        history: SchemaHistory | None,
        heartbeat: Heartbeat,
        withdraw: Callable[[Instant], None] | None = None,
        extra_metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.table = table
        self.operation = operation
        self.config = config
        self.timeline = timeline
        """The timeline as it was at the start, without our own instant."""
        self._start = TransactionStart.of(timeline)
        self._current = requested
        self._heartbeat = heartbeat
        self._schema_json = schema_json
        self._history = history
        self._withdraw = withdraw
        self._extra_metadata = extra_metadata or {}
        self._was_rolled_back = False
        self._completing: Committed | None = None
        self._commit_again: Callable[[], Committed | Conflicted] | None = None
        self._completion = InstantCompletion(table, heartbeat, settle_s=config.settle_s)

    @property
    def instant(self) -> InstantTime:
        return self._current.time

    @classmethod
    def begin(
        cls,
        table: HoodieTable,
        operation: WriteOperation,
        config: WriteConfig,
        *,
        recover: Callable[[ActiveTimeline], bool],
        withdraw: Callable[[Instant], None] | None = None,
        extra_metadata: Mapping[str, str] | None = None,
    ) -> WriteTransaction:
        """Start a write.

        `recover` rolls back failed writes and says whether it changed the timeline; it runs under
        the lock. So does `withdraw`, which rolls back a pending clustering for good.
        `extra_metadata` stands in the inflight instant, for others to read. Raises
        ConflictError when the lock is not to be had or was lost, UnsupportedTableError when the
        table changed into something we refuse, or a restore is pending, ConfigError when its zone
        must be declared.
        """
        with table.lock(config.lock_timing).acquire() as lease:
            timeline = admit(table, operation.permission)
            if recover(timeline):
                timeline = table.timeline()
            _refuse_blocked(table, timeline)
            schema_json = table.table_schema_json(timeline)
            history = schema_history(table, timeline)
            time = table.next_time(timeline)
            heartbeat = Heartbeat(
                table.store, str(time), table.clock, config.heartbeat, writer=table.writer
            )
            heartbeat.start()
            try:
                action = operation.action(table.config.table_type)
                require_lease(lease, table, time)
                requested = table.timelines.create_requested(time, action, _requested_body(action))
                return cls(
                    table,
                    operation,
                    config,
                    requested=requested,
                    timeline=timeline,
                    schema_json=schema_json,
                    history=history,
                    heartbeat=heartbeat,
                    withdraw=withdraw,
                    extra_metadata=extra_metadata,
                )
            except BaseException:
                heartbeat.stop()
                raise

    def withdraw(self, clusterings: Sequence[InstantTime]) -> None:
        """Have pending clusterings rolled back for good, so that they do not get in the way.

        Call before a data file of this write exists. Dying in between leaves some of them, and this
        write pending, as dying before does.
        """
        assert self._withdraw is not None, "this writer was given no way to do so"
        with self.table.lock(self.config.lock_timing).acquire():
            timeline = self.table.timeline()
            for time in clusterings:
                pending = timeline.pending().find(time)
                if pending is not None:
                    self._withdraw(pending)

    def to_inflight(self, profile: CommitMetadata | None = None) -> None:
        """Save the workload profile (None for a bulk insert). No data file may exist before."""
        if self._extra_metadata:
            profile = profile or CommitMetadata({}, self.operation.json_name)
            named = {**profile.extra_metadata, **self._extra_metadata}
            profile = replace(profile, extra_metadata=named)
        body = profile.encode() if profile else b""
        self._current = self.table.timelines.to_inflight(self._current, body)

    def commit(
        self,
        stats: Sequence[WriteStat],
        *,
        extra_metadata: Callable[[ActiveTimeline], Mapping[str, str]],
        replaced: Mapping[str, Sequence[str]] | None = None,
    ) -> Committed | Conflicted:
        """Complete the instant, unless another writer got in the way.

        `extra_metadata` is asked under the lock and told the timeline as it is then; it may raise
        ConflictError when that is not what this write was made for.
        After Conflicted, or any error, call `abort`, which knows what became of it. Raises
        ConflictError when this writer was given up meanwhile: rolled back by another, heartbeat or
        lease expired.
        """
        self._commit_again = lambda: self._commit(stats, extra_metadata, replaced)
        return self._commit_again()

    def _commit(
        self,
        stats: Sequence[WriteStat],
        extra_metadata: Callable[[ActiveTimeline], Mapping[str, str]],
        replaced: Mapping[str, Sequence[str]] | None,
    ) -> Committed | Conflicted:
        require_alive(self._heartbeat, self.table, self.instant)
        with self.table.lock(self.config.lock_timing).acquire() as lease:
            timeline = self.table.timeline()
            self._require_pending(timeline)
            metadata = CommitMetadata.of_stats(
                stats,
                operation_type=self.operation.json_name,
                extra_metadata=extra_metadata(timeline),
                replaced=replaced,
            )
            conflict = find_write_conflict(
                self._start,
                timeline,
                self._current,
                metadata,
                read_commit=self.table.timelines.read_commit,
                read_plan=self.table.timelines.read,
                by_bucket=self.config.index.numbers_file_ids,
                unique_keys=unique_keys(self.operation, self.config),
                wins_over_clustering=self.config.clustering_updates is ClusteringUpdates.ALLOW
                and not self.config.withdraws_clustering,
            )
            if conflict is not None:
                return conflict
            metadata = self._with_schema_of_both(metadata, timeline)
            require_agreed_uniqueness(self.table, self.operation, self.config)
            metadata = self._with_history(metadata, timeline)
            leftovers = delete_unreported_files(self.table.store, self.instant, stats)
            disabled = disable_metadata_table(self.table)
            completed = self._current.in_state(State.COMPLETED)
            committed = Committed(completed, metadata, leftovers, disabled)
            self._completing = committed
            self._completion.complete(self._current, metadata.encode(), lease)
        self._completion.tidy_up(self.instant)
        return committed

    def abort(
        self, undo: Callable[[InstantTime, Instant | None], None], *, patiently: bool = True
    ) -> Committed | Unknown | None:
        """Undo this write and stop its heartbeat; never raises on its own account.

        `undo` is given the instant as it is pending now, under the lock, or None when somebody
        else has rolled it back already, with or without the lock. Returns the commit when it turns
        out to have taken place after all, Unknown when that could not be found out. Without
        patience the store is asked only once.
        """
        return self._completion.settle(
            self.instant, lambda: self._settle(undo), patiently=patiently
        )

    def _settle(self, undo: Callable[[InstantTime, Instant | None], None]) -> Committed | Fate:
        now = self.table.timeline().find(self.instant)
        if now is None:
            # What is left of it is nobody else's business, and the lock may be hard to get.
            undo(self.instant, None)
            return Fate.UNDONE
        if now.is_pending and self._completion.may_still_take_place:
            return self._complete_under_new_lock()
        if now.is_pending:
            with self.table.lock(self.config.lock_timing).acquire():
                now = self.table.timeline().find(self.instant)
                if now is None or now.is_pending:
                    undo(self.instant, now)
                    return Fate.UNDONE
        assert self._completing is not None, "nobody else completes a write"
        self._completion.tidy_up(self.instant)
        return self._completing

    def _complete_under_new_lock(self) -> Committed | Fate:
        """Repeat the whole commit: once it succeeds, or is refused, nothing is in doubt."""
        assert self._commit_again is not None, "a request to complete was sent"
        outcome = self._commit_again()
        return outcome if isinstance(outcome, Committed) else Fate.OPEN

    @property
    def was_given_up(self) -> bool:
        """Whether others may have taken this writer for dead at some time."""
        return self._was_rolled_back or self._heartbeat.is_expired()

    def _with_schema_of_both(
        self, metadata: CommitMetadata, timeline: ActiveTimeline
    ) -> CommitMetadata:
        """The metadata with the columns that another writer added meanwhile.

        Raises ConflictError when the two cannot be one, or ours would be hidden behind a later
        instant.
        """
        mine = metadata.extra_metadata.get(SCHEMA_KEY, "")
        now = self.table.table_schema_json(timeline)
        try:
            both = agree_on_schema(self._schema_json, now, mine, table=self.table.config.name)
        except InvalidDataError as error:
            raise ConflictError(
                f"another writer changed the table's schema meanwhile: {error.message}",
                table=self.table.location.uri,
                instant=self.instant,
                value=error.value,
            ) from error
        later = timeline.of(*COMMIT_ACTIONS).completed().after(self.instant)
        if len(later) and both and hides(now, both):
            raise ConflictError(
                "another write completed meanwhile, with the schema from before ours; write again",
                table=self.table.location.uri,
                instant=self.instant,
                value=later.last(),
            )
        return replace(metadata, extra_metadata={**metadata.extra_metadata, SCHEMA_KEY: both})

    def _with_history(self, metadata: CommitMetadata, timeline: ActiveTimeline) -> CommitMetadata:
        """The metadata with the version of the schema history that our files have.

        Raises ConflictError when the version that we began with is not in force any more.
        """
        history = unchanged_history(self.table, timeline, self._history, self.instant)
        if history is None:
            return metadata
        extra = dict(metadata.extra_metadata)
        if self.operation is WriteOperation.DELETE_PARTITION:
            # It moves no rows, and what it carries may have been read before an ALTER.
            extra[SCHEMA_KEY] = self._schema_json or ""
        elif extra[SCHEMA_KEY] not in ("", self._schema_json):
            history = history_after(self.table, history, self.instant, extra[SCHEMA_KEY])
        extra |= save_history(self.table, timeline, self.instant, history)
        return replace(metadata, extra_metadata=extra)

    def _require_pending(self, timeline: ActiveTimeline) -> None:
        """Raise ConflictError when somebody rolled this write back.

        That removes the inflight object first and the requested one next. Only the requested one
        is never made twice: an inflight object alone may be ours, made just after the rollback.
        """
        now = timeline.find(self.instant)
        requested = self.table.timelines.path(self._current.in_state(State.REQUESTED))
        if (
            now is None
            or now.state is not self._current.state
            or self.table.store.head(requested) is None
        ):
            self._was_rolled_back = True
            raise ConflictError(
                "this write was rolled back by another writer meanwhile; write again",
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
