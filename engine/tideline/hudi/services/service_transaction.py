"""The transaction around every service that moves rows: one planned instant, run to its commit.

1. `begin`, under the table lock: a process that already runs the instant is left alone while its
   heartbeat is alive; a dead attempt is rolled back to its plan. Then our heartbeat, then the
   inflight instant.
2. The engine writes data files, a marker before each.
3. `commit`, under the lock again: heartbeat and instant are still ours, nothing is in the way,
   leftovers of retried tasks go, the commit goes into the metadata table, the instant completes.
4. `abort` rolls this attempt back to its plan, which stays for the next run; or gives the plan up.

What a death leaves. In 1 before inflight: a plan, and a heartbeat that no process renews. Until 3
completes the instant: an attempt that readers ignore; the next run of the service rolls it back to
its plan, files and all, and runs it again. After 3: a visible commit, whose markers and
heartbeat the next writer sweeps away.
Source: Hudi's BaseHoodieTableServiceClient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tideline.errors import ConflictError
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.commit.carried_metadata import carried_metadata
from tideline.hudi.commit.compared_keys import comparison_of_keys
from tideline.hudi.commit.completion import CommitState
from tideline.hudi.commit.conflict import find_undoing
from tideline.hudi.commit.finalize import delete_unreported_files
from tideline.hudi.commit.outcome import Unknown, unknown_error
from tideline.hudi.commit.own_instant import OwnInstant
from tideline.hudi.commit.schema_carry import save_history, unchanged_history
from tideline.hudi.file_group.stored_contents import StoredContents
from tideline.hudi.metadata_table.index_build import require_none_started
from tideline.hudi.metadata_table.keep import record_commit
from tideline.hudi.recovery.execute import (
    execute_attempt_rollback,
    execute_rollback,
    remove_files_of,
)
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.resource_usage import ResourceUsage
from tideline.storage.heartbeat import is_heartbeat_dead
from tideline.tracing import traced_commit


@dataclass(frozen=True, slots=True)
class ServiceCommit:
    """The run is visible. `leftovers_deleted` are files of retried tasks."""

    instant: Instant
    metadata: CommitMetadata
    leftovers_deleted: tuple[str, ...] = ()


class ServiceTransaction:
    """One attempt at a planned instant, from inflight to completion or back to its plan."""

    def __init__(
        self,
        table: HoodieTable,
        config: ServiceConfig,
        *,
        pending: OwnInstant,
        timeline: ActiveTimeline,
        keeps_plan: bool,
    ) -> None:
        self.table = table
        self.timeline = timeline
        """The timeline as it was at the start."""
        self._config = config
        self._pending = pending
        self._keeps_plan = keeps_plan
        self._committed: ServiceCommit | None = None
        self._commit_again: Callable[[], ServiceCommit] | None = None
        self._was_withdrawn = False
        self.started_s = table.clock.monotonic_s()
        self.spent_before = ResourceUsage.so_far()

    @property
    def instant(self) -> InstantTime:
        return self._pending.time

    @classmethod
    def begin(
        cls,
        table: HoodieTable,
        requested: Instant,
        config: ServiceConfig,
        *,
        operation: Permission,
        keeps_plan: bool = True,
    ) -> ServiceTransaction:
        """Take the planned instant on; what a dead attempt left is rolled back first.

        An attempt that is rolled back goes back to its plan, or with its plan.
        Raises ConflictError when another process runs it, or it is not pending any more;
        UnsupportedTableError when the table must not be written, ConfigError when its zone must be
        declared.
        """
        with table.lock(config.lock_timing).acquire():
            timeline = admit(table, operation)
            now = require_pending(table, timeline, requested)
            if not _is_dead(table, now, config):
                raise ConflictError(
                    "another process is running this service: try again when it has ended",
                    table=table.location.uri,
                    instant=requested,
                )
            if now.state is State.INFLIGHT:
                _undo(table, now, keeps_plan=keeps_plan)
                timeline = table.timeline()
                now = require_pending(table, timeline, requested)
            pending = OwnInstant.take_on(
                table, now, heartbeat=config.heartbeat, settle_s=config.settle_s
            )
        return cls(table, config, pending=pending, timeline=timeline, keeps_plan=keeps_plan)

    def commit(
        self,
        stats: Sequence[WriteStat],
        *,
        operation_type: str,
        schema_json: str,
        history: SchemaHistory | None = None,
        extra_metadata: Mapping[str, str],
        replaced: Mapping[str, Sequence[str]] | None = None,
        check: Callable[[ActiveTimeline], None] | None = None,
    ) -> ServiceCommit:
        """Complete the instant.

        `schema_json` is that of the rows; the commit says the table's as it is by then. `history`
        gives the version they are written as, which must still be in force. `check` is called under
        the lock with the timeline as it is then; it raises ConflictError when something is in the
        way. Raises ConflictError as well when this process was given up by others; call `fail`
        after any error.
        """
        self._commit_again = lambda: self._commit(
            stats,
            operation_type=operation_type,
            schema_json=schema_json,
            history=history,
            extra_metadata=extra_metadata,
            replaced=replaced,
            check=check,
        )
        with traced_commit(self.table.location.uri, self.instant):
            return self._commit_again()

    def _commit(
        self,
        stats: Sequence[WriteStat],
        *,
        operation_type: str,
        schema_json: str,
        history: SchemaHistory | None,
        extra_metadata: Mapping[str, str],
        replaced: Mapping[str, Sequence[str]] | None,
        check: Callable[[ActiveTimeline], None] | None,
    ) -> ServiceCommit:
        self._pending.require_alive()
        with self.table.lock(self._config.lock_timing).acquire() as lease:
            timeline = self.table.timeline(own=self.instant)
            self._require_ours(timeline)
            if check is not None:
                check(timeline)
            carried = carried_metadata(self.table, timeline, extra_metadata)
            # A write that began before us may have added a column since our rows were read.
            before = timeline.before(self.instant)
            schema_json = self.table.schemas.newest_json(before) or schema_json
            kept = unchanged_history(self.table, before, history, self.instant)
            version = save_history(self.table, timeline, self.instant, kept) if kept else {}
            metadata = CommitMetadata.of_stats(
                stats,
                operation_type=operation_type,
                extra_metadata={**carried, **extra_metadata, SCHEMA_KEY: schema_json, **version},
                compacted=self._pending.instant.action is Action.COMPACTION,
                replaced=replaced,
            )
            leftovers = delete_unreported_files(self.table.store, self.instant, stats)
            completed = self._pending.completed_now(timeline)
            guard = self._pending.guard(lease)
            wanted = self._config.metadata_table
            keys = comparison_of_keys(self.table, metadata)
            contents = StoredContents(self.table.store)
            record_commit(self.table, completed, metadata, timeline, wanted, guard, keys, contents)
            self._committed = ServiceCommit(completed, metadata, leftovers)
            body = self.table.timelines.layout.encode_commit(metadata)
            require_none_started(self.table, timeline)
            self._pending.complete(completed, body, lease)
        self._pending.tidy_up()
        return self._committed

    def abort(
        self, *, gives_up_plan: bool = False, patiently: bool = True
    ) -> ServiceCommit | Unknown | None:
        """Undo this attempt and stop its heartbeat; never raises errors of its own.

        The plan stays to be run again, unless it is given up. Returns the commit when it turns
        out to have taken place after all, Unknown when that could not be found out. Without
        patience the store is asked only once.
        """
        return self._pending.settle(lambda: self._settle(gives_up_plan), patiently=patiently)

    def fail(self, error: BaseException, *, gives_up_plan: bool = False) -> None:
        """Abort because of `error`, and raise it, unless the commit took place after all.

        Raises ConflictError instead where another process withdrew the instant: with it went the
        files that the engine was writing, and its failure is a consequence of that. Raises
        UnknownOutcomeError where it is unknown whether the commit took place.
        """
        is_error = isinstance(error, Exception)
        outcome = self.abort(gives_up_plan=gives_up_plan, patiently=is_error)
        if isinstance(outcome, Unknown) and is_error:
            raise unknown_error(outcome, table=self.table.location.uri) from error
        if self._was_withdrawn and is_error:
            raise self._rolled_back() from error
        if outcome is None or not is_error:
            raise error

    def _settle(self, gives_up_plan: bool) -> ServiceCommit | CommitState:
        now = self.table.timeline().find(self.instant)
        is_ours = now is not None and now.state is State.INFLIGHT
        if is_ours and self._pending.may_still_take_place:
            assert self._commit_again is not None, "a request to complete was sent"
            return self._commit_again()
        with self.table.lock(self._config.lock_timing).acquire():
            now = self.table.timeline().find(self.instant)
            if now is not None and now.is_completed:
                return self._settle_completed(now)
            if now is None:
                # Undone for good while we worked, markers and all; what was written since is known
                # to us alone, and must be gone before the instant counts as archived.
                self._was_withdrawn = True
                remove_files_of(self.table, self.instant)
                return CommitState.UNDONE
            # An attempt that others rolled back while we slept may be theirs by now.
            if self._pending.is_expired:
                # So may be the heartbeat by now, which has the instant's name.
                self._pending.lapse()
                return CommitState.UNDONE
            if now.state is State.INFLIGHT:
                _undo(self.table, now, keeps_plan=self._keeps_plan)
            if gives_up_plan:
                self.table.timelines.remove(now.in_state(State.REQUESTED))
        return CommitState.UNDONE

    def _settle_completed(self, completed: Instant) -> ServiceCommit | CommitState:
        """Either our reply was lost, or another process took us for dead and ran the plan again."""
        if self._pending.is_sent and self._committed is not None:
            self._pending.tidy_up()
            return self._committed
        theirs = self.table.timelines.read_commit(completed)
        delete_unreported_files(self.table.store, self.instant, theirs.write_stats)
        self._pending.tidy_up()
        return CommitState.UNDONE

    def _require_ours(self, timeline: ActiveTimeline) -> None:
        now = timeline.find(self.instant)
        if now is None or now.state is not State.INFLIGHT:
            raise self._rolled_back()
        if find_undoing(timeline, now, self.table.timelines.read) is not None:
            raise self._rolled_back()

    def _rolled_back(self) -> ConflictError:
        return ConflictError(
            "this service was rolled back by another process; run it again",
            table=self.table.location.uri,
            instant=self.instant,
        )


def _undo(table: HoodieTable, inflight: Instant, *, keeps_plan: bool) -> None:
    if keeps_plan:
        execute_attempt_rollback(table, inflight)
    else:
        execute_rollback(table, inflight)


def _is_dead(table: HoodieTable, instant: Instant, config: ServiceConfig) -> bool:
    return is_heartbeat_dead(table.store, str(instant.time), table.clock, config.heartbeat)


def require_pending(
    table: HoodieTable, timeline: ActiveTimeline, planned: Instant | InstantTime
) -> Instant:
    """The planned instant as it is now. Raises ConflictError when it is done, or gone."""
    now = timeline.find(planned.time if isinstance(planned, Instant) else planned)
    if now is None or now.is_completed:
        raise ConflictError(
            "this service is done already" if now else "the plan of this service is gone",
            table=table.location.uri,
            instant=planned,
        )
    return now
