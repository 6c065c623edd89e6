"""The service `archival`: old instants move from the active timeline to the archive."""

from __future__ import annotations

from typing import ClassVar

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table, plan_table_archival
from tideline.hudi.services.archival.lock_loss import lock_guard
from tideline.hudi.services.archival.metadata_archival import archive_metadata_table
from tideline.hudi.services.archival.plan import ArchivalFacts, plan_archival
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.service import TableService
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.run import ServiceRun
from tideline.services.service import Concurrency


class Archival(TableService):
    """Archives old instants; on after every commit unless switched off."""

    name = "archival"
    permission = Permission.ARCHIVAL
    concurrency = Concurrency.ANY_ROWS
    follows: ClassVar[frozenset[str]] = frozenset({"rollback", "cleaning"})
    """What replaced files stays until they are cleaned."""
    inline_settings = ("hoodie.archive.automatic",)

    def settings(self, read: Settings) -> ArchivalConfig:
        return ArchivalConfig.from_settings(read)

    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:
        config = self.settings(read)
        found = plan_archival(facts.timeline, config, ArchivalFacts.of(facts, config))
        return found if isinstance(found, NotDue) else Due(found.explain().reason)

    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        plan = plan_table_archival(context.table, timeline, self.settings(context.settings))
        return plan if isinstance(plan, NotDue) else plan.explain()

    def execute(self, context: ServiceContext) -> ServiceRun:
        config, timing = self.settings(context.settings), context.config.lock_timing
        done = archive_table(context.table, config, lock_timing=timing)
        if done.archives:
            with context.table.lock(timing).acquire() as lease:
                archive_metadata_table(context.table, config, lock_guard(context.table, lease))
        did_something = bool(done.archives or done.resumed or done.merged)
        if not did_something and done.not_due is not None:
            return ServiceRun(self, not_due=done.not_due)
        return ServiceRun(self, (done,))


ARCHIVAL = Archival()
