"""The services of one table, whichever there are, behind the same verbs: plan, schedule, run.

`plan` changes nothing; `schedule` writes the plan of a service that moves rows and leaves it to be
run from elsewhere; `run` finishes what is pending and no process is running, then schedules and
executes what is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideline.hudi.capabilities.guard import facts_of, require
from tideline.hudi.capabilities.refusal import Refusal
from tideline.hudi.capabilities.rules import Facts, refusal_of
from tideline.hudi.index.bucket_layout import BucketEngine, BucketLayout, KnownFrom
from tideline.hudi.index.bucket_recognition import names_layout
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.engine import ServiceEngine
from tideline.hudi.services.registry import service_named
from tideline.hudi.services.service import TableService
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.write.table_writer import TableWriter
from tideline.resource_usage import ResourceUsage
from tideline.services.explanation import Explanation, NotDue
from tideline.services.run import PendingRun, ServicePlan, ServiceRun

_KNOWN_FROM = {
    BucketEngine.SIMPLE: KnownFrom.FILE_IDS,
    BucketEngine.CONSISTENT_HASHING: KnownFrom.HASHING_METADATA,
}
"""What says that there are buckets where properties do not."""


class TableServices:
    """The services of one table under one set of settings; a service is given as a value or by
    name.

    Raises ConfigError for an unknown name, naming the known ones.
    """

    def __init__(
        self, writer: TableWriter, given: Mapping[str, str], engine: ServiceEngine
    ) -> None:
        self.table = writer.table
        self.context = ServiceContext.of(writer, given, engine)

    def plan(self, service: TableService | str) -> ServicePlan:
        """What the service would do now; changes nothing. Raises ConfigError as `run` does."""
        service = _known(service)
        timeline = self.table.timeline()
        warning = self.table.instants.require_zone(timeline).warning
        refused = self.refusal(service, timeline)
        outcome = NotDue(refused.reason) if refused else service.plan(self.context, timeline)
        if isinstance(outcome, Explanation):
            outcome = outcome.estimated(service.estimate(self.table, timeline, outcome))
        return ServicePlan(service, outcome, self.pending(service, timeline), warning)

    def refusal(
        self, service: TableService, timeline: ActiveTimeline | None = None
    ) -> Refusal | None:
        """Why the table is not for the service, by its properties and its index, which reads
        nothing, and by its schema where a timeline is given."""
        facts = Facts(self.table.config)
        if timeline is not None:
            facts = facts_of(self.table, service.permission, timeline)
        return refusal_of(service.permission, replace(facts, layout=self._layout))

    def pending(self, service: TableService, timeline: ActiveTimeline) -> tuple[PendingRun, ...]:
        """The planned instants of a service, oldest first."""
        found = service.pending(self.table, timeline)
        return tuple(PendingRun(instant, self.context.is_alive(instant)) for instant in found)

    def schedule(self, service: TableService | str, *, is_async: bool = False) -> Instant | NotDue:
        """Write the plan of a service if it is due; see `TableService.schedule`."""
        return _known(service).schedule(self.context, is_async=is_async)

    def run(self, service: TableService | str) -> ServiceRun:
        """Finish what is pending, then do what is due.

        Raises ConflictError when another process got in the way (safe to call again),
        CorruptTableError for plans or files that cannot be read, ConfigError when the table's zone
        must be declared.
        """
        service = _known(service)
        require(self.table, service.permission)
        before = ResourceUsage.so_far()
        return service.execute(self.context).finished(before, self.table.store)

    def run_pending(self, service: TableService | str) -> ServiceRun:
        """Finish what is pending of a service that moves rows, and schedule nothing."""
        before = ResourceUsage.so_far()
        return _known(service).finish_pending(self.context).finished(before, self.table.store)

    @property
    def _layout(self) -> BucketLayout | None:
        """The buckets of the table, as the settings of its writes name or recognised them."""
        index = self.context.write_config.index
        if not index.type.places_by_hash:
            return None
        is_declared = names_layout(self.table.config)
        known_from = KnownFrom.PROPERTIES if is_declared else _KNOWN_FROM[index.engine]
        return BucketLayout(index.engine, known_from)


def _known(service: TableService | str) -> TableService:
    return service_named(service) if isinstance(service, str) else service
