"""The service `log_compaction`: many small log blocks are merged into few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.recovery.execute import execute_rollback
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.log_compaction.config import LogCompactionConfig
from tideline.hudi.services.log_compaction.execute import (
    NAME,
    execute_log_compaction,
    plan_due_log_compaction,
    schedule_log_compaction,
)
from tideline.hudi.services.log_compaction.plan import log_compaction_due
from tideline.hudi.services.row_service import RowService
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.service import Concurrency


class LogCompaction(RowService):
    """Merges the log blocks of merge-on-read tables, where a compaction is not worth it yet."""

    name = NAME
    permission = Permission.LOG_COMPACTION
    follows: ClassVar[frozenset[str]] = frozenset({"rollback", "compaction"})
    """Logs that were compacted need no log compaction."""
    goes_first = True
    merges_logs = True
    pending_action = Action.LOGCOMPACTION
    concurrency = Concurrency.LATER_WRITES
    completed_as = Action.DELTACOMMIT
    execute_plan = staticmethod(execute_log_compaction)
    inline_settings = ("hoodie.log.compaction.inline",)
    whenever_asked: ClassVar[Mapping[str, str]] = {"hoodie.log.compaction.blocks.threshold": "2"}

    def settings(self, read: Settings) -> LogCompactionConfig:
        return LogCompactionConfig.from_settings(read)

    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:
        reason = log_compaction_due(facts, self.settings(read))
        return reason if isinstance(reason, NotDue) else Due(reason)

    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        plan = plan_due_log_compaction(context.table, timeline, self.settings(context.settings))
        return plan if isinstance(plan, NotDue) else plan.explain()

    def write_plan(
        self, context: ServiceContext, timeline: ActiveTimeline, *, is_async: bool
    ) -> Instant | NotDue:
        return schedule_log_compaction(context.table, self.settings(context.settings), timeline)

    def gave_up(self, context: ServiceContext, instant: Instant) -> bool:
        """A dead attempt goes with its plan: what it appended stays in the logs."""
        if instant.state is not State.INFLIGHT:
            return False
        table = context.table
        with table.lock(context.config.lock_timing).acquire():
            now = table.timeline().find(instant.time)
            if now is not None and now.is_pending and not context.is_alive(now):
                execute_rollback(table, now)
        return True


LOG_COMPACTION = LogCompaction()
