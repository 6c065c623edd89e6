"""Each service of one table, behind the same verbs: plan, schedule, run.

`plan` changes nothing; `schedule` writes the plan of a service that moves rows and leaves it to be
run from elsewhere; `run` finishes what is pending and nobody is at, then schedules and executes
what is due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tideline.errors import ConfigError, ConflictError, ObjectNotFoundError
from tideline.hudi.index.bucket_layout import BucketEngine, BucketLayout, KnownFrom
from tideline.hudi.index.bucket_recognition import names_layout
from tideline.hudi.nature.guard import require
from tideline.hudi.nature.judgement import Facts, refusal_of
from tideline.hudi.nature.refusal import Refusal
from tideline.hudi.recovery.execute import (
    FailedWrites,
    RolledBack,
    execute_failed_writes_rollback,
    execute_rollback,
    find_failed_writes,
    plan_instant_rollback,
)
from tideline.hudi.recovery.sweep import sweep_leftovers
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table, plan_table_archival
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import (
    clean_table,
    plan_table_cleaning,
    schedule_cleaning,
)
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.execute import (
    execute_clustering,
    plan_due_clustering,
    schedule_clustering,
)
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.execute import (
    execute_compaction,
    plan_due_compaction,
    schedule_compaction,
)
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.engine import EngineOnDemand, OpenEngine
from tideline.hudi.services.explanation import Explanation, NotDue
from tideline.hudi.services.figures import estimate_by_amount, estimate_seconds
from tideline.hudi.services.log_compaction.execute import (
    execute_log_compaction,
    plan_due_log_compaction,
    schedule_log_compaction,
)
from tideline.hudi.services.log_compaction.plan import LogCompactionConfig
from tideline.hudi.services.partition_ttl.config import PartitionTtlConfig
from tideline.hudi.services.partition_ttl.execute import plan_table_partition_ttl
from tideline.hudi.services.service import Service
from tideline.hudi.services.table_history import clusterings, past_cleans, past_runs
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig
from tideline.storage.heartbeat import is_heartbeat_dead


class Done(Protocol):
    """What a finished run tells."""

    def to_json_object(self) -> dict[str, Any]:
        """The audit: every file and what was done with it."""
        ...


ExpirePartitions = Callable[[], Done | NotDue]
"""Drops the partitions that outlived their time: a write, so it comes from above."""

_KNOWN_FROM = {
    BucketEngine.SIMPLE: KnownFrom.FILE_IDS,
    BucketEngine.CONSISTENT_HASHING: KnownFrom.HASHING_METADATA,
}
"""What says that there are buckets where properties do not."""


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A planned instant of a service. `is_alive`: somebody is running it."""

    instant: Instant
    is_alive: bool


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What a service would do now, and what of it is pending already.

    `warning` is what a person should know of the table first.
    """

    service: Service
    outcome: Explanation | NotDue
    pending: tuple[PendingRun, ...] = ()
    warning: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether running the service now would do anything."""
        waiting = any(not run.is_alive for run in self.pending)
        return waiting or isinstance(self.outcome, Explanation)

    def to_json_object(self) -> dict[str, Any]:
        """The plan for machines."""
        pending = [
            {
                "instant": str(run.instant.time),
                "state": run.instant.state.value.lower(),
                "running": run.is_alive,
            }
            for run in self.pending
        ]
        return {
            "service": self.service.value,
            **self.outcome.to_json_object(),
            "pending": pending,
            "warning": self.warning,
        }


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """What a run of a service did. `left_alone` are pending instants that others are running."""

    service: Service
    done: tuple[Done, ...] = ()
    not_due: NotDue | None = None
    left_alone: tuple[InstantTime, ...] = ()

    def to_json_object(self) -> dict[str, Any]:
        """The audit of the run."""
        return {
            "service": self.service.value,
            "done": [done.to_json_object() for done in self.done],
            "not_due": self.not_due.reason if self.not_due else None,
            "left_alone": [str(time) for time in self.left_alone],
        }


@dataclass(frozen=True, slots=True)
class UndoneWrite:
    """A rolled back write, as an audit."""

    undone: RolledBack

    def to_json_object(self) -> dict[str, Any]:
        return {
            "service": Service.ROLLBACK.value,
            "instant": str(self.undone.instant),
            "action": str(self.undone.action),
            "files": [{"path": path, "what": "deleted"} for path in self.undone.deleted]
            + [{"path": path, "what": "written", "bytes": size_bytes}
               for path, size_bytes in self.undone.command_logs.items()],
        }  # fmt: skip


class TableServices:
    """The services of one table under one set of settings."""

    def __init__(
        self,
        table: HoodieTable,
        properties: Mapping[str, str],
        *,
        write_config: WriteConfig,
        failed_writes: FailedWrites,
        open_engine: OpenEngine,
        expire_partitions: ExpirePartitions,
    ) -> None:
        self.table = table
        self.settings = Settings(properties)
        self.config = ServiceConfig.from_settings(self.settings)
        self._write_config = write_config
        self.failed_writes = failed_writes
        self._open_engine = open_engine
        self._expire_partitions = expire_partitions

    def plan(self, service: Service) -> ServicePlan:
        """What the service would do now; changes nothing. Raises ConfigError as `run` does."""
        timeline = self.table.timeline()
        warning = self.table.require_zone(timeline).warning
        refused = self.refusal(service)
        outcome = NotDue(refused.reason) if refused else self._outcome(service, timeline)
        if isinstance(outcome, Explanation):
            outcome = outcome.estimated(self._estimate(service, outcome, timeline))
        return ServicePlan(service, outcome, self.pending(service, timeline), warning)

    def refusal(self, service: Service) -> Refusal | None:
        """Why the table is not for the service, by its properties and its index; reads nothing."""
        return refusal_of(service.permission, Facts(self.table.config, layout=self._layout))

    @property
    def _layout(self) -> BucketLayout | None:
        """The buckets of the table, as the settings of its writes name or recognised them."""
        index = self._write_config.index
        if not index.type.places_by_hash:
            return None
        is_declared = names_layout(self.table.config)
        known_from = KnownFrom.PROPERTIES if is_declared else _KNOWN_FROM[index.engine]
        return BucketLayout(index.engine, known_from)

    def pending(self, service: Service, timeline: ActiveTimeline) -> tuple[PendingRun, ...]:
        """The planned instants of a service, oldest first."""
        action = service.pending_action
        if action is None or service is Service.TTL:
            return ()
        found = timeline.pending().of(action)
        if service is Service.CLUSTERING:
            known = clusterings(self.table, found)
            return tuple(self._pending_run(item) for item in found if item.time in known)
        return tuple(self._pending_run(item) for item in found)

    def _estimate(
        self, service: Service, due: Explanation, timeline: ActiveTimeline
    ) -> float | None:
        if service is Service.CLEANING:
            return estimate_by_amount(past_cleans(self.table, timeline), len(due.paths))
        if not service.moves_rows:
            return None  # nothing is kept of how long it took
        return estimate_seconds(past_runs(self.table, timeline, service), due.bytes_read)

    def schedule(self, service: Service, *, commits_max: int | None = None) -> Instant | NotDue:
        """Write the plan of a service if it is due; takes the lock, rolls failed writes back first.

        `commits_max` is for clustering: commits that make it due, else those of an inline one.
        Raises ConfigError for a service that is not scheduled apart from being run.
        """
        table, read = self.table, self.settings
        with table.lock(self.config.lock_timing).acquire():
            require(table, service.permission)
            self._roll_back_failed_writes()
            match service:
                case Service.COMPACTION:
                    return schedule_compaction(table, CompactionConfig.from_settings(read))
                case Service.LOG_COMPACTION:
                    return schedule_log_compaction(table, LogCompactionConfig.from_settings(read))
                case Service.CLUSTERING:
                    clustering = ClusteringConfig.from_settings(read)
                    return schedule_clustering(table, clustering, commits_max=commits_max)
                case Service.CLEANING:
                    return schedule_cleaning(table, CleaningConfig.from_settings(read))
                case _:
                    raise ConfigError("this service is not scheduled, only run", value=service)

    def run(self, service: Service) -> ServiceRun:
        """Finish what is pending, then do what is due.

        Raises ConflictError when another process got in the way (safe to call again),
        CorruptTableError for plans or files that cannot be read, ConfigError when the table's zone
        must be declared.
        """
        require(self.table, service.permission)
        match service:
            case Service.ROLLBACK:
                with self.table.lock(self.config.lock_timing).acquire():
                    undone = self._roll_back_failed_writes(gives_up_unreadable=True)
                nothing = None if undone else NotDue("no writer died")
                return ServiceRun(service, tuple(map(UndoneWrite, undone)), nothing)
            case Service.CLEANING:
                cleaned = clean_table(self.table, CleaningConfig.from_settings(self.settings))
                if isinstance(cleaned, NotDue):
                    return ServiceRun(service, not_due=cleaned)
                return ServiceRun(service, cleaned)
            case Service.ARCHIVAL:
                return self._archive()
            case Service.TTL:
                expired = self._expire_partitions()
                if isinstance(expired, NotDue):
                    return ServiceRun(service, not_due=expired)
                return ServiceRun(service, (expired,))
            case _:
                return self._run_planned(service)

    def run_pending(self, service: Service) -> ServiceRun:
        """Finish what is pending of a service that moves rows, and schedule nothing."""
        pending = self.pending(service, self.table.timeline())
        if service is Service.LOG_COMPACTION:
            pending = tuple(run for run in pending if not self._give_up(run))
        done = tuple(self._execute(service, run.instant) for run in pending if not run.is_alive)
        left_alone = tuple(run.instant.time for run in pending if run.is_alive)
        return ServiceRun(service, done, None if done else NotDue("nothing is pending"), left_alone)

    def _give_up(self, run: PendingRun) -> bool:
        """Roll back a dead log compaction with its plan: what it appended stays in the logs."""
        if run.is_alive or run.instant.state is not State.INFLIGHT:
            return False
        with self.table.lock(self.config.lock_timing).acquire():
            now = self.table.timeline().find(run.instant.time)
            if now is not None and now.is_pending and not self._pending_run(now).is_alive:
                execute_rollback(self.table, now)
        return True

    def _run_planned(self, service: Service) -> ServiceRun:
        before = self.run_pending(service)
        scheduled = self.schedule(service)
        if isinstance(scheduled, NotDue):
            not_due = None if before.done else scheduled
            return ServiceRun(service, before.done, not_due, before.left_alone)
        done = self._execute(service, scheduled)
        return ServiceRun(service, (*before.done, done), None, before.left_alone)

    def _execute(self, service: Service, instant: Instant) -> Done:
        execute = {
            Service.COMPACTION: execute_compaction,
            Service.LOG_COMPACTION: execute_log_compaction,
            Service.CLUSTERING: execute_clustering,
        }[service]
        try:
            return execute(
                self.table,
                instant,
                EngineOnDemand(self._open_engine),
                config=self.config,
                write_config=self._write_config,
            )
        except ObjectNotFoundError as gone:
            if self.table.timeline().find(instant.time) is not None:
                raise
            raise ConflictError(
                "the plan of this service was withdrawn by another process meanwhile",
                table=self.table.location.uri,
                instant=instant,
            ) from gone

    def _archive(self) -> ServiceRun:
        config = ArchivalConfig.from_settings(self.settings)
        done = archive_table(self.table, config, lock_timing=self.config.lock_timing)
        did_something = bool(done.archives or done.resumed or done.merged)
        if not did_something and done.not_due is not None:
            return ServiceRun(Service.ARCHIVAL, not_due=done.not_due)
        return ServiceRun(Service.ARCHIVAL, (done,))

    def _outcome(self, service: Service, timeline: ActiveTimeline) -> Explanation | NotDue:
        table, read = self.table, self.settings
        now = table.next_time(timeline)
        plan: Any
        match service:
            case Service.ROLLBACK:
                return self._explain_rollback(timeline)
            case Service.CLEANING:
                plan = plan_table_cleaning(table, CleaningConfig.from_settings(read), timeline)
            case Service.ARCHIVAL:
                plan = plan_table_archival(table, timeline, ArchivalConfig.from_settings(read))
            case Service.COMPACTION:
                compaction = CompactionConfig.from_settings(read)
                plan = plan_due_compaction(table, timeline, compaction, now)
            case Service.LOG_COMPACTION:
                logs = LogCompactionConfig.from_settings(read)
                plan = plan_due_log_compaction(table, timeline, logs)
            case Service.CLUSTERING:
                clustering = ClusteringConfig.from_settings(read)
                plan = plan_due_clustering(table, timeline, clustering, now)
            case Service.TTL:
                ttl = PartitionTtlConfig.from_settings(read)
                plan = plan_table_partition_ttl(table, ttl, timeline)
        if isinstance(plan, NotDue):
            return plan
        explanation: Explanation = plan.explain()
        return explanation

    def _explain_rollback(self, timeline: ActiveTimeline) -> Explanation | NotDue:
        policy = replace(self.failed_writes, gives_up_unreadable=True)
        failed = find_failed_writes(self.table, timeline, policy)
        if not failed:
            return NotDue("no writer died")
        plans = [plan_instant_rollback(self.table, instant) for instant in failed]
        names = ", ".join(str(instant) for instant in failed)
        paths = tuple(path for plan in plans for path in plan.deleted_paths)
        return Explanation(f"the writers of {names} are gone", paths)

    def _roll_back_failed_writes(
        self, *, gives_up_unreadable: bool = False
    ) -> tuple[RolledBack, ...]:
        timeline = self.table.timeline()
        policy = replace(self.failed_writes, gives_up_unreadable=gives_up_unreadable)
        done = execute_failed_writes_rollback(self.table, timeline, policy)
        sweep_leftovers(self.table, timeline, self.failed_writes)
        return done

    def _pending_run(self, instant: Instant) -> PendingRun:
        table, limits = self.table, self.config.heartbeat
        is_dead = is_heartbeat_dead(table.store, str(instant.time), table.clock, limits)
        return PendingRun(instant, is_alive=not is_dead)
