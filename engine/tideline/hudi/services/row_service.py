"""What services that move rows have in common: a plan is written first, then run by an engine.

1. `schedule` writes the plan as a requested instant under the lock.
2. `execute` finishes the plans of dead runs, schedules what is due and runs that.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from tideline.errors import ConflictError, ObjectNotFoundError
from tideline.hudi.services.audit import ServiceDone
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.engine import ServiceEngine
from tideline.hudi.services.run_metrics import estimate_run
from tideline.hudi.services.service import TableService
from tideline.hudi.services.table_history import past_runs
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.write.config import WriteConfig
from tideline.services.explanation import Estimate, Explanation, NotDue
from tideline.services.run import ServiceRun


class RowService(TableService):
    """A service whose plans an engine runs. `completed_as` is the action of its commits."""

    moves_rows = True
    completed_as: ClassVar[Action]

    @abstractmethod
    def write_plan(
        self, context: ServiceContext, timeline: ActiveTimeline, *, is_async: bool
    ) -> Instant | NotDue:
        """Write the plan if it is due. Called under the table lock; see `schedule`."""

    @abstractmethod
    def execute_plan(
        self,
        table: HoodieTable,
        instant: Instant,
        engine: ServiceEngine,
        *,
        config: ServiceConfig,
        write_config: WriteConfig,
    ) -> ServiceDone:
        """Run a pending plan to its commit.

        Raises ConflictError when another process runs it, CorruptTableError when plan or files are
        broken, ObjectNotFoundError when the plan is gone.
        """

    def schedule(self, context: ServiceContext, *, is_async: bool = False) -> Instant | NotDue:
        with context.planning(self.permission) as timeline:
            return self.write_plan(context, timeline, is_async=is_async)

    def execute(self, context: ServiceContext) -> ServiceRun:
        before = self.finish_pending(context)
        scheduled = self.schedule(context)
        if isinstance(scheduled, NotDue):
            not_due = None if before.done else scheduled
            return ServiceRun(self, before.done, not_due, before.left_alone)
        done = self._execute(context, scheduled)
        return ServiceRun(self, (*before.done, done), None, before.left_alone)

    def finish_pending(self, context: ServiceContext) -> ServiceRun:
        pending = [
            (instant, context.is_alive(instant))
            for instant in self.pending(context.table, context.table.timeline())
        ]
        done = tuple(
            self._execute(context, instant)
            for instant, is_alive in pending
            if not is_alive and not self.gave_up(context, instant)
        )
        left_alone = tuple(instant.time for instant, is_alive in pending if is_alive)
        return ServiceRun(self, done, None if done else NotDue("nothing is pending"), left_alone)

    def gave_up(self, context: ServiceContext, instant: Instant) -> bool:
        """Whether a dead run is not finished, and was rolled back instead."""
        return False

    def estimate(self, table: HoodieTable, timeline: ActiveTimeline, due: Explanation) -> Estimate:
        past = past_runs(table, timeline, self.completed_as, self.name)
        return estimate_run(past, due.bytes_read)

    def _execute(self, context: ServiceContext, instant: Instant) -> ServiceDone:
        try:
            return self.execute_plan(
                context.table,
                instant,
                context.engine,
                config=context.config,
                write_config=context.write_config,
            )
        except ObjectNotFoundError as gone:
            if context.table.timeline().find(instant.time) is not None:
                raise
            raise ConflictError(
                "the plan of this service was withdrawn by another process; run it again",
                table=context.table.location.uri,
                instant=instant,
            ) from gone
