"""What a table service is: one object, in a folder of its own, named on one line of `registry`.

A caller that runs services goes through the registry and calls each of them:

- `turns`: what settings want of it after a commit,
- `due`: whether its trigger says yes, by facts that list no files (pure; the operator asks it),
- `plan`: what it would do now, and why; changes nothing,
- `schedule`: write the plan and leave it to be run,
- `execute`: finish what is pending, then do what is due; each `Done` reports what came of it.

Rolling back dead writes is a service as well, which goes before all others. Savepoints and restores
are none: they happen when a person asks for them, and are never due.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import ClassVar

from tideline.errors import ConfigError
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import UNKNOWN, Due, Estimate, Explanation, NotDue
from tideline.services.run import ServiceRun
from tideline.services.service import Service


class InlineStep(Enum):
    """What settings want of a service after a commit. SCHEDULE: only its plan is written."""

    SCHEDULE = "schedule"
    RUN = "run"


class TableService(Service):
    """A service of Hudi tables. `permission` is what has to be allowed of the table."""

    table_format = "hudi"
    leaves_plans = True
    permission: ClassVar[Permission]
    goes_first: ClassVar[bool] = False
    """Whether it is better done before more rows come in."""
    follows: ClassVar[frozenset[str]] = frozenset({"rollback"})
    merges_logs: ClassVar[bool] = False
    """Whether there is nothing for it to do while writes make no log files."""
    asks_for_buckets: ClassVar[bool] = False
    """Whether a bucket index may refuse it."""
    pending_action: ClassVar[Action | None] = None
    """What its pending instants are called in layout 1; None when it makes none of its own."""
    inline_settings: ClassVar[tuple[str, ...]] = ()
    """The settings that give it a turn after a commit; all of them false, it has none."""

    @abstractmethod
    def settings(self, read: Settings) -> object:
        """Its own settings, typed. Raises ConfigError naming the one that cannot be read."""

    @abstractmethod
    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:
        """Whether its trigger says yes. Pure; raises ConfigError as `settings` does.

        What is not due here is not due in `plan` either, which also looks at files.
        """

    @abstractmethod
    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        """What it would do now; changes nothing."""

    @abstractmethod
    def execute(self, context: ServiceContext) -> ServiceRun:
        """Finish what is pending, then do what is due.

        Raises ConflictError when another process got in the way (safe to call again),
        CorruptTableError for plans or files that cannot be read.
        """

    def turns(self, read: Settings, *, compacts_by_default: bool) -> frozenset[InlineStep]:
        """What settings want of it after a commit: to run, where one of its switches is on.

        `compacts_by_default`: a batch that compacts unless settings say otherwise. Wanted to run
        and to be scheduled, it runs.
        """
        is_on = any(read.boolean(name) for name in self.inline_settings)
        return frozenset({InlineStep.RUN}) if is_on else frozenset()

    def schedule(self, context: ServiceContext, *, is_async: bool = False) -> Instant | NotDue:
        """Write the plan if it is due; takes the lock, rolls failed writes back first.

        `is_async`: for another process to run. Raises ConfigError for a service that makes no plans
        apart from being run.
        """
        raise ConfigError("this service is not scheduled, only run", value=self)

    def finish_pending(self, context: ServiceContext) -> ServiceRun:
        """Finish plans that are pending and that no process is running; schedule nothing."""
        return ServiceRun(self, not_due=NotDue("it leaves no plans to finish"))

    def pending(self, table: HoodieTable, timeline: ActiveTimeline) -> tuple[Instant, ...]:
        """Its planned instants, oldest first."""
        if self.pending_action is None:
            return ()
        return tuple(timeline.pending().of(self.pending_action))

    def owns(self, instant: Instant, clusterings: frozenset[InstantTime]) -> bool:
        """Whether a pending instant is a plan of this service; `clusterings` as in DueFacts."""
        return instant.action is self.pending_action

    def estimate(self, table: HoodieTable, timeline: ActiveTimeline, due: Explanation) -> Estimate:
        """What the plan will take, going by past runs."""
        return UNKNOWN
