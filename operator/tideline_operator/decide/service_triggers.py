"""Whether a table service is due, and why: from the timeline and the content of its instants. Pure.

The triggers are the services' own (`TableService.due`), fed with what was observed, so the plan
that an operation makes later agrees with them. Nothing here lists files. A service is due when

1. a plan of a dead run waits for it, or
2. `spec.rerun` has a number for it that has not been run, or
3. its trigger says so.

A service that the table's capabilities refuse (`Adoption.left_out`) is never due, and says why.
A stream that only inserts makes no log files: what merges them is not due where there are none.
After a run that found nothing to merge its trigger counts the writes since.

Ingests go first, unless waiting would do harm: a compaction that is due (log files pile up) and a
service that would have been due `PATIENCE_COMMITS` writes ago are urgent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tideline.errors import TidelineError
from tideline.hudi.services.registry import TableService
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, WRITE_ACTIONS, Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.iceberg.services.due_facts import IcebergFacts, RewriteOutlook
from tideline.iceberg.services.registry import IcebergService
from tideline.services.explanation import Due
from tideline.services.service import Service
from tideline_operator.decide.iceberg_settings import (
    iceberg_settings,
    pause_of,
    wanted_iceberg_services,
)
from tideline_operator.decide.observed import ObservedTable, TableHistory
from tideline_operator.decide.observed_facts import ObservedFacts, is_merge_on_read
from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.decide.service_settings import (
    service_settings,
    spec_name,
    wanted_services,
)
from tideline_operator.resources.lake_table import LakeTableSpec
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.status import LakeTableStatus, ServiceStatus

PATIENCE_COMMITS = 5
"""For how many writes of ingests a due service waits."""


@dataclass(frozen=True, slots=True)
class ServiceNeed:
    """Whether a service is due, and why. `name` is what the resource calls it.

    `resumes` are plans of dead runs; `rerun` is the number of the run that was asked for;
    `problem` is the error that its trigger raised; `outlook` is what a rewrite would do.
    """

    service: Service
    is_due: bool
    reason: str
    is_urgent: bool = False
    resumes: tuple[str, ...] = ()
    rerun: int | None = None
    problem: TidelineError | None = None
    outlook: RewriteOutlook | None = None

    @property
    def name(self) -> str:
        return spec_name(self.service)


def service_needs(
    spec: LakeTableSpec, status: LakeTableStatus, table: ObservedTable, now_ms: int
) -> tuple[ServiceNeed, ...]:
    """For every wanted service, whether it is due; in the order in which they run."""
    return tuple(_need(item, spec, status, table, now_ms) for item in wanted_services(spec))


def iceberg_needs(
    spec: LakeTableSpec, status: LakeTableStatus, table: ObservedIceberg, now_ms: int
) -> tuple[ServiceNeed, ...]:
    """The same of an Iceberg table. As long as the files of its newest snapshot are not counted,
    what depends on them waits."""
    facts = IcebergFacts(table.metadata, now_ms, table.files)

    def ask(service: IcebergService) -> ServiceNeed:
        found = service.due(facts, iceberg_settings(spec, service))
        outlook = None if facts.files is None else facts.files.outlooks.get(service.name)
        return ServiceNeed(service, isinstance(found, Due), found.reason, outlook=outlook)

    def need(service: IcebergService) -> ServiceNeed:
        if refused := service.refusal(table.metadata):
            return ServiceNeed(service, False, refused)
        return _answer(partial(ask, service), service, spec, status, now_ms)

    return tuple(map(need, wanted_iceberg_services(spec)))


def newest_instant(history: TableHistory) -> str:
    """The newest instant of the timeline in any state: what a plan made now is based on."""
    newest = history.timeline.newest_time()
    return "" if newest is None else str(newest)


def restore_basis(history: TableHistory, target: InstantTime) -> str | None:
    """The newest instant that a restore to `target` has to undo; None when there is nothing to do.

    What ran after a restore stays, such as services while the table is fenced. But a commit of one
    of our ingests shows that `restoreTo` was removed in between: the restore is wanted again.
    """
    unfinished = history.timeline.of(Action.RESTORE).pending().last()
    if unfinished is not None:
        return str(unfinished.time)
    done = history.timeline.of(Action.RESTORE).completed().last()
    later = [item.time for item in history.timeline.of(*WRITE_ACTIONS).after(target)]
    undone = [time for time in later if done is None or time < done.time or time in history.ingests]
    return str(max(undone)) if undone else None


def _need(
    service: TableService,
    spec: LakeTableSpec,
    status: LakeTableStatus,
    table: ObservedTable,
    now_ms: int,
) -> ServiceNeed:
    refused = table.adoption.left_out.get(service)
    if refused is not None:
        return ServiceNeed(service, False, f"left out: {refused}")
    pending = [item for item in table.pending if item.service == service]
    idle = tuple(item.time for item in pending if item.is_idle)
    if idle:
        reason = f"the plan {', '.join(idle)} is not executed yet"
        return ServiceNeed(service, True, reason, is_urgent=True, resumes=idle)
    if pending:
        return ServiceNeed(service, False, f"another process is executing {pending[0].time}")
    settings = {**table.history.properties, **service_settings(spec)}
    seen = _since_last_run(service, status, table)

    def ask() -> ServiceNeed:
        if service.merges_logs and table.history.lacks_logs:
            return ServiceNeed(service, False, "the table has no log files")
        found = service.due(ObservedFacts(seen, now_ms), Settings(settings))
        is_due = isinstance(found, Due)
        is_urgent = is_due and (service.goes_first or _was_due(service, table, settings, now_ms))
        return ServiceNeed(service, is_due, found.reason, is_urgent=is_urgent)

    return _answer(ask, service, spec, status, now_ms)


def _answer(
    ask: Callable[[], ServiceNeed],
    service: Service,
    spec: LakeTableSpec,
    status: LakeTableStatus,
    now_ms: int,
) -> ServiceNeed:
    """The run that `spec.rerun` asks for, or else what the trigger says, unless the service rests
    from its last run."""
    name = spec_name(service)
    known, wanted = status.services.get(name, ServiceStatus()), spec.rerun.get(name, 0)
    if wanted > known.rerun:
        return ServiceNeed(service, True, f"spec.rerun asks for run {wanted}", rerun=wanted)
    try:
        need = ask()
    except TidelineError as error:
        return ServiceNeed(service, False, str(error), problem=error)
    pause_ms, last = pause_of(spec, service), known.last_run
    if not need.is_due or pause_ms is None or last is None or now_ms - last.ms >= pause_ms:
        return need
    since, every = Duration(max(1_000, (now_ms - last.ms) // 1_000 * 1_000)), Duration(pause_ms)
    return ServiceNeed(service, False, f"the last run was {since} ago; one is due every {every}")


def _was_due(
    service: TableService,
    table: ObservedTable,
    settings: Mapping[str, str],
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
    return isinstance(service.due(ObservedFacts(earlier, now_ms), Settings(settings)), Due)


def _since_last_run(
    service: TableService, status: LakeTableStatus, table: ObservedTable
) -> ObservedTable:
    """The table without the writes in which the last run found nothing to do."""
    known = status.services.get(spec_name(service), ServiceStatus())
    last_ms = known.found_nothing_ms
    if last_ms is None or not service.merges_logs:
        return table
    history = table.history
    earlier = {
        item.time
        for item in history.timeline.of(Action.DELTACOMMIT).completed()
        if history.zone.zone.epoch_ms(item.time) <= last_ms
    }
    timeline = _without(history.timeline, frozenset(earlier))
    return replace(table, history=replace(history, timeline=timeline))


def _is_by_service(table: ObservedTable, time: InstantTime, action: Action) -> bool:
    is_compaction = is_merge_on_read(table) and action is Action.COMMIT
    history = table.history
    return is_compaction or time in history.clusterings or time in history.log_compactions


def _without(timeline: ActiveTimeline, times: frozenset[InstantTime]) -> ActiveTimeline:
    return ActiveTimeline(
        tuple(
            item for item in timeline if item.time not in times or item.action not in COMMIT_ACTIONS
        ),
        made_ms=timeline.made_ms,
    )
