"""The service `cleaning`: files that no reader needs any more are deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import (
    clean_table,
    plan_table_cleaning,
    schedule_cleaning,
)
from tideline.hudi.services.cleaning.retention import find_due
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.run_metrics import estimate_by_amount
from tideline.hudi.services.service import TableService
from tideline.hudi.services.table_history import past_cleans
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.services.explanation import Due, Estimate, Explanation, NotDue
from tideline.services.run import ServiceRun
from tideline.services.service import Concurrency


class Cleaning(TableService):
    """Deletes old file versions; on after every commit unless switched off."""

    name = "cleaning"
    permission = Permission.CLEANING
    pending_action = Action.CLEAN
    concurrency = Concurrency.ANY_ROWS
    inline_settings = ("hoodie.clean.automatic",)
    whenever_asked: ClassVar[Mapping[str, str]] = {"hoodie.clean.trigger.max.commits": "1"}

    def settings(self, read: Settings) -> CleaningConfig:
        return CleaningConfig.from_settings(read)

    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:
        return find_due(facts, self.settings(read))

    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        plan = plan_table_cleaning(context.table, self.settings(context.settings), timeline)
        return plan if isinstance(plan, NotDue) else plan.explain()

    def schedule(self, context: ServiceContext, *, is_async: bool = False) -> Instant | NotDue:
        with context.planning(self.permission) as timeline:
            return schedule_cleaning(context.table, self.settings(context.settings), timeline)

    def execute(self, context: ServiceContext) -> ServiceRun:
        done = clean_table(context.table, self.settings(context.settings))
        if isinstance(done, NotDue):
            return ServiceRun(self, not_due=done)
        return ServiceRun(self, done)

    def estimate(self, table: HoodieTable, timeline: ActiveTimeline, due: Explanation) -> Estimate:
        past, files = past_cleans(table, timeline), len(due.paths)
        cores = ((clean.files, clean.core_seconds) for clean in past if clean.core_seconds)
        return Estimate(
            estimate_by_amount(((clean.files, clean.seconds) for clean in past), files),
            estimate_by_amount(cores, files),
        )


CLEANING = Cleaning()
