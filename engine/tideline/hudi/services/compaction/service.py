"""The service `compaction`: log files are merged into new base files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.execute import (
    NAME,
    execute_compaction,
    plan_due_compaction,
    schedule_compaction,
)
from tideline.hudi.services.compaction.plan import compaction_due
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts, next_time
from tideline.hudi.services.row_service import RowService
from tideline.hudi.services.service import InlineStep
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.service import Concurrency


class Compaction(RowService):
    """Merges the log files of merge-on-read tables."""

    name = NAME
    permission = Permission.COMPACTION
    goes_first = True
    merges_logs = True
    pending_action = Action.COMPACTION
    concurrency = Concurrency.LATER_WRITES
    completed_as = Action.COMMIT
    execute_plan = staticmethod(execute_compaction)
    inline_settings = ("hoodie.compact.inline", "hoodie.compact.schedule.inline")
    whenever_asked: ClassVar[Mapping[str, str]] = {
        "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS",
        "hoodie.compact.inline.max.delta.commits": "1",
    }

    def settings(self, read: Settings) -> CompactionConfig:
        return CompactionConfig.from_settings(read)

    def turns(self, read: Settings, *, compacts_by_default: bool) -> frozenset[InlineStep]:
        others = ("hoodie.compact.schedule.inline", "hoodie.datasource.compaction.async.enable")
        by_default = compacts_by_default and not any(read.boolean(name) for name in others)
        wanted = {
            InlineStep.RUN: read.boolean("hoodie.compact.inline", by_default),
            InlineStep.SCHEDULE: read.boolean("hoodie.compact.schedule.inline"),
        }
        return frozenset(turn for turn, is_wanted in wanted.items() if is_wanted)

    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:
        found = compaction_due(facts, self.settings(read), next_time(facts))
        return found if isinstance(found, NotDue) else Due(found.reason)

    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        table, config = context.table, self.settings(context.settings)
        plan = plan_due_compaction(table, timeline, config, table.instants.next_time(timeline))
        return plan if isinstance(plan, NotDue) else plan.explain()

    def write_plan(
        self, context: ServiceContext, timeline: ActiveTimeline, *, is_async: bool
    ) -> Instant | NotDue:
        return schedule_compaction(context.table, self.settings(context.settings), timeline)


COMPACTION = Compaction()
