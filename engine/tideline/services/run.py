"""What a service would do to a table now, and what a run of it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tideline.resource_usage import NOTHING, ResourceUsage
from tideline.services.benefit import NO_BENEFIT, Benefit
from tideline.services.explanation import Explanation, NotDue
from tideline.services.ranking import ranked
from tideline.services.report import Done
from tideline.services.service import Service
from tideline.storage.kept_versions import notes_on_versions
from tideline.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A planned instant of a timeline. `is_alive`: a process is running it."""

    instant: Any
    is_alive: bool


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What a service would do now, and what of it is pending already.

    `warning` is what a person should know of the table first.
    """

    service: Service
    outcome: Explanation | NotDue
    pending: tuple[PendingRun, ...] = ()
    warning: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether running the service now would do anything."""
        waiting = any(not run.is_alive for run in self.pending)
        return waiting or isinstance(self.outcome, Explanation)

    @property
    def benefit_per_core_second(self) -> float | None:
        """What running it now saves for what it takes; None where a waiting plan says neither."""
        return None if isinstance(self.outcome, NotDue) else self.outcome.benefit_per_core_second

    def to_json_object(self) -> dict[str, Any]:
        """The plan for machines."""
        pending = [
            {
                "instant": str(run.instant.time),
                "state": run.instant.state.value.lower(),
                "running": run.is_alive,
            }
            for run in self.pending
        ]
        return {
            "service": self.service.name,
            **self.outcome.to_json_object(),
            "pending": pending,
            "warning": self.warning,
        }


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """What a run of a service did, and what it took of processors and store (`spent`).

    `left_alone` are pending instants that others are running, `notes` what else a person should
    know.
    """

    service: Service
    done: tuple[Done, ...] = ()
    not_due: NotDue | None = None
    left_alone: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    spent: ResourceUsage = NOTHING

    @property
    def benefit(self) -> Benefit:
        """What all of it saves."""
        return sum((done.report().benefit for done in self.done), NO_BENEFIT)

    def finished(self, before: ResourceUsage, store: ObjectStore) -> ServiceRun:
        """The same, with what was spent since `before`, and what is to be said where it deleted
        files of a store."""
        deletes_files = any(done.report().files_deleted for done in self.done)
        notes = notes_on_versions(store) if deletes_files else ()
        spent = ResourceUsage.so_far().since(before)
        return replace(self, spent=spent, notes=(*self.notes, *notes))

    def to_json_object(self) -> dict[str, Any]:
        """The audit of the run."""
        return {
            "service": self.service.name,
            "done": [done.to_json_object() for done in self.done],
            "not_due": self.not_due.reason if self.not_due else None,
            "left_alone": [str(time) for time in self.left_alone],
            "notes": [*self.notes, *(note for done in self.done for note in done.report().notes)],
            "saved": self.benefit.to_json_object(),
            **self.spent.to_json_object(),
        }


def in_order(plans: Sequence[ServicePlan]) -> tuple[ServicePlan, ...]:
    """Plans of one table in the order in which to run them, then those that are not due."""
    due = ranked(
        [plan for plan in plans if plan.is_due],
        lambda plan: plan.benefit_per_core_second,
        lambda service_plan, other: service_plan.service.goes_after(other.service),
    )
    return (*due, *(plan for plan in plans if not plan.is_due))
