"""Whether a table service is due, and why: from the timeline and what its instants say. Pure.

The triggers are the services' own (`tideline.services`), so the plan that an operation makes later
agrees with them. Nothing here lists files. A service is due when

1. a plan of a dead run waits for it, or
2. `spec.rerun` has a number for it that has not been run, or
3. its trigger says so.

What the table's nature refuses (`Adoption.left_out`) is never due, and says why.

Ingests go first, unless waiting would hurt: a compaction that is due (log files pile up) and a
service that would have been due `PATIENCE_COMMITS` writes ago are urgent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tideline.errors import TidelineError
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.plan import ArchivalFacts, plan_archival
from tideline.hudi.services.archival.plan import LastClean as ArchivalClean
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.retention import plan_retention
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.plan import find_due as find_clustering_due
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.plan import find_due as find_compaction_due
from tideline.hudi.services.explanation import NotDue
from tideline.hudi.services.log_compaction.plan import LogCompactionConfig
from tideline.hudi.services.log_compaction.plan import find_due as find_log_compaction_due
from tideline.hudi.services.service import Service
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, WRITE_ACTIONS, Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import AGE_UNKNOWN
from tideline.iceberg.service import IcebergService
from tideline_operator.decide.observed import ObservedTable, TableHistory
from tideline_operator.decide.service_settings import (
    SPEC_NAMES,
    service_settings,
    wanted_services,
)
from tideline_operator.resources.lake_table import LakeTableSpec
from tideline_operator.resources.status import LakeTableStatus, ServiceStatus

PATIENCE_COMMITS = 5
"""For how many writes of ingests a service that is due lets them go first."""
TTL_EVERY_MS = 86_400_000
"""Partitions do not grow old faster than days pass."""
_MERGE_ON_READ = "MERGE_ON_READ"
_LOG_SERVICES = (Service.COMPACTION, Service.LOG_COMPACTION)


@dataclass(frozen=True, slots=True)
class ServiceNeed:
    """Whether a service is due, and why. `name` is what the resource calls it.

    `resumes` are plans of dead runs; `rerun` is the number of the run that was asked for;
    `problem` is the error that keeps its trigger from being asked.
    """

    service: Service | IcebergService
    is_due: bool
    reason: str
    is_urgent: bool = False
    resumes: tuple[str, ...] = ()
    rerun: int | None = None
    problem: TidelineError | None = None

    @property
    def name(self) -> str:
        return SPEC_NAMES[self.service]


def service_needs(
    spec: LakeTableSpec, status: LakeTableStatus, table: ObservedTable, now_ms: int
) -> tuple[ServiceNeed, ...]:
    """Of every service that is wanted, whether it is due; in the order in which they run."""
    return tuple(_need(item, spec, status, table, now_ms) for item in wanted_services(spec))


def newest_instant(history: TableHistory) -> str:
    """The newest instant of the timeline in any state: what a plan made now works from."""
    newest = history.timeline.newest_time()
    return "" if newest is None else str(newest)


def restore_basis(history: TableHistory, target: InstantTime) -> str | None:
    """The newest instant that a restore to `target` has to undo; None when there is nothing to do.

    What ran after a restore stays, such as services beside the fence. But a commit of one of our
    ingests can only be there because `restoreTo` was taken away in between: now it is wanted anew.
    """
    unfinished = history.timeline.of(Action.RESTORE).pending().last()
    if unfinished is not None:
        return str(unfinished.time)
    done = history.timeline.of(Action.RESTORE).completed().last()
    later = [item.time for item in history.timeline.of(*WRITE_ACTIONS).after(target)]
    undone = [time for time in later if done is None or time < done.time or time in history.ingests]
    return str(max(undone)) if undone else None


def _need(
    service: Service,
    spec: LakeTableSpec,
    status: LakeTableStatus,
    table: ObservedTable,
    now_ms: int,
) -> ServiceNeed:
    name = SPEC_NAMES[service]
    known = status.services.get(name, ServiceStatus())
    refused = table.adoption.left_out.get(service)
    if refused is not None:
        return ServiceNeed(service, False, f"left out: {refused}")
    pending = [item for item in table.pending if item.service is service]
    idle = tuple(item.time for item in pending if item.is_idle)
    if idle:
        reason = f"the plan {', '.join(idle)} is still to be executed"
        return ServiceNeed(service, True, reason, is_urgent=True, resumes=idle)
    if pending:
        return ServiceNeed(service, False, f"{pending[0].time} is being executed elsewhere")
    settings = {**table.history.properties, **service_settings(spec)}
    wanted = spec.rerun.get(name, 0)
    if wanted > known.rerun:
        return ServiceNeed(service, True, f"spec.rerun asks for run {wanted}", rerun=wanted)
    try:
        found = _ask(service, table, settings, known, now_ms)
    except TidelineError as error:
        return ServiceNeed(service, False, str(error), problem=error)
    if isinstance(found, NotDue):
        return ServiceNeed(service, False, found.reason)
    is_urgent = service in _LOG_SERVICES or _was_due(service, table, settings, known, now_ms)
    return ServiceNeed(service, True, found, is_urgent=is_urgent)


def _ask(
    service: Service,
    table: ObservedTable,
    settings: Mapping[str, str],
    known: ServiceStatus,
    now_ms: int,
) -> str | NotDue:
    """Why the trigger of a service says yes, or why not. Raises ConfigError, CorruptTableError."""
    history, read = table.history, Settings(settings)
    timeline = history.timeline
    if not len(timeline.of(*COMMIT_ACTIONS).completed()):
        return NotDue("nothing has been written yet")
    match service:
        case Service.COMPACTION:
            due = find_compaction_due(
                timeline,
                CompactionConfig.from_settings(read),
                history.zone.zone.next_time(now_ms, timeline.newest_time()),
                completed_at={},
                clusterings=history.clusterings,
                is_single_writer=table.is_single_writer,
                known=history.zone,
            )
            return due if isinstance(due, NotDue) else due.reason
        case Service.LOG_COMPACTION:
            config = LogCompactionConfig.from_settings(read)
            return find_log_compaction_due(timeline, config, done=history.log_compactions)
        case Service.CLUSTERING:
            clustering = ClusteringConfig.from_settings(read)
            return find_clustering_due(
                timeline,
                clustering,
                clusterings=history.clusterings,
                commits_max=clustering.async_commits_max,
            )
        case Service.CLEANING:
            return _ask_cleaning(history, CleaningConfig.from_settings(read), now_ms)
        case Service.ARCHIVAL:
            return _ask_archival(table, ArchivalConfig.from_settings(read))
        case Service.TTL:
            return _ask_ttl(history, known, now_ms)
        case Service.ROLLBACK:
            return NotDue("dead writers are rolled back before anything else")


def _ask_cleaning(history: TableHistory, config: CleaningConfig, now_ms: int) -> str | NotDue:
    retention = plan_retention(history.timeline, history.last_clean, config, now_ms, history.zone)
    if isinstance(retention, NotDue):
        return retention
    if retention.written == ():
        return NotDue("what is older than the commits to keep has been cleaned")
    kept = f" what was replaced before {retention.earliest.time}" if retention.earliest else ""
    since = f" since clean {history.last_clean.time}" if history.last_clean else ""
    count = "all" if retention.written is None else len(retention.written)
    return f"nobody needs{kept or ' old file versions'}; {count} commits to look at{since}"


def _ask_archival(table: ObservedTable, config: ArchivalConfig) -> str | NotDue:
    clean = table.history.last_clean
    facts = ArchivalFacts(
        is_merge_on_read=table.table_type == _MERGE_ON_READ,
        last_clean=ArchivalClean(clean.time, clean.earliest_retained) if clean else None,
    )
    found = plan_archival(table.history.timeline, config, facts)
    return found if isinstance(found, NotDue) else found.explain().reason


def _ask_ttl(history: TableHistory, known: ServiceStatus, now_ms: int) -> str | NotDue:
    if not history.zone.tells_age:
        return NotDue(AGE_UNKNOWN)
    if known.last_run is not None and now_ms - known.last_run.ms < TTL_EVERY_MS:
        return NotDue("partitions were looked over within a day")
    return "partitions are looked over once a day"


def _was_due(
    service: Service,
    table: ObservedTable,
    settings: Mapping[str, str],
    known: ServiceStatus,
    now_ms: int,
) -> bool:
    """Whether it would have been due without the newest writes of ingests."""
    history = table.history
    writes = [
        item.time
        for item in history.timeline.of(*COMMIT_ACTIONS).completed()
        if not _is_by_service(table, item.time, item.action)
    ]
    timeline = _without(history.timeline, frozenset(writes[-PATIENCE_COMMITS:]))
    earlier = replace(table, history=replace(history, timeline=timeline))
    return not isinstance(_ask(service, earlier, settings, known, now_ms), NotDue)


def _is_by_service(table: ObservedTable, time: InstantTime, action: Action) -> bool:
    is_compaction = table.table_type == _MERGE_ON_READ and action is Action.COMMIT
    history = table.history
    return is_compaction or time in history.clusterings or time in history.log_compactions


def _without(timeline: ActiveTimeline, times: frozenset[InstantTime]) -> ActiveTimeline:
    return ActiveTimeline(
        tuple(
            item for item in timeline if item.time not in times or item.action not in COMMIT_ACTIONS
        )
    )
