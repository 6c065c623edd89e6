"""What a table service is: one object, in a folder of its own, named on one line of `registry`.

Who runs services goes through the registry and asks each of them:

- `turns`: what settings want of it after a commit,
- `due`: whether its trigger says yes, by facts that list no files (pure; the operator asks it),
- `plan`: what it would do now, and why; changes nothing,
- `schedule`: write the plan and leave it to be run,
- `execute`: finish what is pending, then do what is due; each `Done` reports what came of it.

Rolling back dead writes is a service as well, which goes before all others. Savepoints and restores
are none: they happen when a person asks for them, and are never due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar

from tideline.errors import ConfigError
from tideline.hudi.nature.permission import Permission
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.explanation import UNKNOWN, Due, Estimate, Explanation, NotDue
from tideline.hudi.services.report import Done
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.saving import NO_SAVING, Saving
from tideline.spending import NOTHING, Spending


class Turn(Enum):
    """What settings want of a service after a commit. SCHEDULE: only its plan is written."""

    SCHEDULE = "schedule"
    RUN = "run"


class Company(Enum):
    """What may go on in a table while a service runs; `together` has the rules.

    ANY_ROWS: a write or a service that moves rows. LATER_WRITES: writes that begin once its plan
    stands.
    """

    NONE = "none"
    ANY_ROWS = "any rows"
    LATER_WRITES = "later writes"


@dataclass(frozen=True, slots=True)
class Pace:
    """At most one run in `every_ms`; `resting` is why it is not due in between."""

    every_ms: int
    resting: str


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """What a run of a service did, and what it took of processors and store (`spent`).

    `left_alone` are pending instants that others are running.
    """

    service: TableService
    done: tuple[Done, ...] = ()
    not_due: NotDue | None = None
    left_alone: tuple[InstantTime, ...] = ()
    spent: Spending = NOTHING

    @property
    def saving(self) -> Saving:
        """What all of it saves."""
        return sum((done.report().saving for done in self.done), NO_SAVING)

    def to_json_object(self) -> dict[str, Any]:
        """The audit of the run."""
        return {
            "service": self.service.name,
            "done": [done.to_json_object() for done in self.done],
            "not_due": self.not_due.reason if self.not_due else None,
            "left_alone": [str(time) for time in self.left_alone],
            "saved": self.saving.to_json_object(),
            **self.spent.to_json_object(),
        }


class TableService(ABC):
    """One table service. It has no state: two objects of one name are equal.

    `name` is its one spelling: in code, on the command line and in JSON. `permission` is what has
    to be allowed of the table.
    """

    name: ClassVar[str]
    permission: ClassVar[Permission]
    moves_rows: ClassVar[bool] = False
    """Whether it needs an engine that reads and writes rows."""
    goes_first: ClassVar[bool] = False
    """Whether it is better done before more rows come in."""
    follows: ClassVar[frozenset[str]] = frozenset({"rollback"})
    """Services that are run first where they are due as well, whatever each of them saves."""
    asks_for_buckets: ClassVar[bool] = False
    """Whether a bucket index may refuse it."""
    pending_action: ClassVar[Action | None] = None
    """What its pending instants are called in layout 1; None when it makes none of its own."""
    inline_settings: ClassVar[tuple[str, ...]] = ()
    """The settings that give it a turn after a commit; all of them false, it has none."""
    whenever_asked: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Settings over all others for a run that a person asked for: its trigger says yes."""
    company: ClassVar[Company] = Company.NONE
    """What may go on in the table while it runs."""
    refuses_updates: ClassVar[bool] = False
    """Whether its plan may refuse writes that update rows."""
    pace: ClassVar[Pace | None] = None
    """How often it is worth running where its trigger cannot know."""

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

    def turns(self, read: Settings, *, compacts_by_default: bool) -> frozenset[Turn]:
        """What settings want of it after a commit: to run, where one of its switches is on.

        `compacts_by_default`: a batch that compacts unless settings say otherwise. Wanted to run
        and to be scheduled, it runs.
        """
        is_on = any(read.boolean(name) for name in self.inline_settings)
        return frozenset({Turn.RUN}) if is_on else frozenset()

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

    def goes_after(self, other: TableService) -> bool:
        """Whether it waits for another service that is due as well."""
        return other.name in self.follows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableService) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<service {self.name}>"
