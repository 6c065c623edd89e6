"""What runs on its own after a commit, and in which order: that of the registry.

A service that settings want to run finishes pending plans, then schedules and runs what is due. One
that is only scheduled writes a plan for another process to run, and only while none is pending.
Cleaning and archival are on unless switched off.

What the table is not for, by its properties or its index, is left out, and the report says why.
The commit is visible already. What fails here is reported and logged, not raised: a caller who
believed that the write failed would write it again. It is raised where
`hoodie.fail.writes.on.inline.table.service.exception` is set to true.
Source: Hudi's BaseHoodieWriteClient.postCommit, runTableServicesInline.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tideline.hudi.services.registry import all_services
from tideline.hudi.services.runs import TableServices
from tideline.hudi.services.service import InlineStep, TableService
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import TableConfig, TableType
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue
from tideline.services.run import ServiceRun

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """What settings want of each service after a commit, in the order in which they run."""

    turns: Mapping[TableService, frozenset[InlineStep]] = field(default_factory=dict)
    raises_failures: bool = False

    def moving_no_rows(self) -> SchedulerConfig:
        """The same without running what needs an engine, for a commit made without one."""
        only_scheduled = frozenset({InlineStep.SCHEDULE})
        turns = {
            service: turns & only_scheduled if service.moves_rows else turns
            for service, turns in self.turns.items()
        }
        return replace(self, turns=turns)

    @classmethod
    def of_table(cls, table: TableConfig, given: Mapping[str, str]) -> SchedulerConfig:
        """By the table's settings, with those of a write over them. Ask before the commit:
        afterwards nothing may fail."""
        is_merge_on_read = table.table_type is TableType.MERGE_ON_READ
        settings = Settings({**table.properties, **given})
        return cls.from_settings(settings, compacts_by_default=is_merge_on_read)

    @classmethod
    def from_settings(cls, read: Settings, *, compacts_by_default: bool = False) -> SchedulerConfig:
        """Raises ConfigError naming the setting that cannot be read.

        `compacts_by_default`: a batch written to a merge-on-read table compacts what is due, as in
        Hudi, unless settings say who else does.
        """
        for name in ("hoodie.clean.async.enabled", "hoodie.archive.async"):
            # Hudi cleans and archives concurrently with the write; here it is done after the
            # commit, by the same process, so that they change nothing.
            read.boolean(name)
        if not read.boolean("hoodie.table.services.enabled"):
            return cls()
        return cls(
            {
                service: service.turns(read, compacts_by_default=compacts_by_default)
                for service in all_services()
            },
            read.boolean("hoodie.fail.writes.on.inline.table.service.exception"),
        )


@dataclass(frozen=True, slots=True)
class AfterCommit:
    """What a service did after a commit: a run, a plan left for others, or why it failed.

    `left_out` is why the table is not for a service that settings ask for.
    """

    service: TableService
    run: ServiceRun | None = None
    scheduled: InstantTime | None = None
    failure: str | None = None
    left_out: str | None = None

    @property
    def is_worth_reporting(self) -> bool:
        """Whether it did something, or did not for a reason that is worth a word."""
        has_run = self.run is not None and bool(self.run.done)
        reported = (self.scheduled, self.failure, self.left_out)
        return has_run or any(value is not None for value in reported)

    def to_json_object(self) -> dict[str, Any]:
        """What happened, for machines."""
        return {
            "service": self.service.name,
            "scheduled": str(self.scheduled) if self.scheduled else None,
            "failure": self.failure,
            "left_out": self.left_out,
            "done": [done.to_json_object() for done in self.run.done] if self.run else [],
        }


def run_after_commit(services: TableServices, config: SchedulerConfig) -> tuple[AfterCommit, ...]:
    """Run or schedule what settings ask for; returns what was done, and what may not be."""
    outcomes = [
        _outcome(services, service, turns, config)
        for service, turns in config.turns.items()
        if turns
    ]
    return tuple(outcome for outcome in outcomes if outcome.is_worth_reporting)


def _outcome(
    services: TableServices,
    service: TableService,
    turns: frozenset[InlineStep],
    config: SchedulerConfig,
) -> AfterCommit:
    moves_rows = service.permission.may_write_rows
    refusal = services.refusal(service, services.table.timeline() if moves_rows else None)
    if refusal is not None:
        return AfterCommit(service, left_out=refusal.reason)
    try:
        if InlineStep.RUN in turns:
            return AfterCommit(service, run=services.run(service))
        return _schedule(services, service)
    except Exception as error:
        # Any error, an engine's failure included: the commit itself took place.
        if config.raises_failures:
            raise
        _log.warning("the write is committed, but %s failed after it: %s", service, error)
        return AfterCommit(service, failure=str(error))


def _schedule(services: TableServices, service: TableService) -> AfterCommit:
    if services.pending(service, services.table.timeline()):
        return AfterCommit(service)
    outcome = services.schedule(service, is_async=True)
    if isinstance(outcome, NotDue):
        return AfterCommit(service)
    return AfterCommit(service, scheduled=outcome.time)
