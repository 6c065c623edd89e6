"""What runs by itself after a commit, and in which order.

1. Clean, then archive; both are on unless switched off.
2. Compaction: inline it finishes pending plans, then schedules and runs what is due; scheduled
   inline only a plan is written, for somebody else to run, and only while none is pending.
3. Log compaction, then clustering, likewise.
4. Partitions that outlived their time.

What the table is not for, by its properties or its index, is left out, and the report says why.
The commit is visible already. What fails here is told and logged, not raised: whoever believed that
the write failed would write it again. It is raised where
`hoodie.fail.writes.on.inline.table.service.exception` is set to true.
Source: Hudi's BaseHoodieWriteClient.postCommit, runTableServicesInline.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.explanation import NotDue
from tideline.hudi.services.runs import ServiceRun, TableServices
from tideline.hudi.services.service import Service
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import TableConfig, TableType
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Which services run after a commit (`*_inline`), and which are only scheduled then."""

    cleans: bool = True
    archives: bool = True
    compacts_inline: bool = False
    schedules_compaction: bool = False
    compacts_logs_inline: bool = False
    clusters_inline: bool = False
    schedules_clustering: bool = False
    expires_partitions: bool = False
    raises_failures: bool = False

    def moving_no_rows(self) -> SchedulerConfig:
        """The same without the services that need an engine, for a commit made without one."""
        return replace(
            self, compacts_inline=False, compacts_logs_inline=False, clusters_inline=False
        )

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
            # Hudi cleans and archives beside the write; here it is done after the commit, by the
            # same process, so that they say nothing new.
            read.boolean(name)
        if not read.boolean("hoodie.table.services.enabled"):
            return cls(cleans=False, archives=False)
        others = ("hoodie.compact.schedule.inline", "hoodie.datasource.compaction.async.enable")
        by_default = compacts_by_default and not any(read.boolean(name) for name in others)
        schedules = read.boolean("hoodie.compact.schedule.inline")
        clusters_later = read.boolean("hoodie.clustering.schedule.inline")
        return cls(
            cleans=read.boolean("hoodie.clean.automatic"),
            archives=read.boolean("hoodie.archive.automatic"),
            compacts_inline=read.boolean("hoodie.compact.inline", by_default),
            schedules_compaction=schedules,
            compacts_logs_inline=read.boolean("hoodie.log.compaction.inline"),
            clusters_inline=read.boolean("hoodie.clustering.inline"),
            schedules_clustering=clusters_later or read.boolean("hoodie.clustering.async.enabled"),
            expires_partitions=read.boolean("hoodie.partition.ttl.inline"),
            raises_failures=read.boolean("hoodie.fail.writes.on.inline.table.service.exception"),
        )


@dataclass(frozen=True, slots=True)
class AfterCommit:
    """What a service did after a commit: a run, a plan left for others, or why it failed.

    `left_out` is why the table is not for a service that settings ask for.
    """

    service: Service
    run: ServiceRun | None = None
    scheduled: InstantTime | None = None
    failure: str | None = None
    left_out: str | None = None

    @property
    def is_telling(self) -> bool:
        """Whether it did something, or did not for a reason that is worth a word."""
        has_run = self.run is not None and bool(self.run.done)
        told = (self.scheduled, self.failure, self.left_out)
        return has_run or any(one is not None for one in told)

    def to_json_object(self) -> dict[str, Any]:
        """What happened, for machines."""
        return {
            "service": self.service.value,
            "scheduled": str(self.scheduled) if self.scheduled else None,
            "failure": self.failure,
            "left_out": self.left_out,
            "done": [done.to_json_object() for done in self.run.done] if self.run else [],
        }


def run_after_commit(services: TableServices, config: SchedulerConfig) -> tuple[AfterCommit, ...]:
    """Run or schedule what settings ask for; tells of what was done, and of what may not be."""
    wanted: list[tuple[Service, Callable[[], AfterCommit]]] = []
    if config.cleans:
        wanted.append((Service.CLEANING, lambda: _run(services, Service.CLEANING)))
    if config.archives:
        wanted.append((Service.ARCHIVAL, lambda: _run(services, Service.ARCHIVAL)))
    if config.compacts_inline:
        wanted.append((Service.COMPACTION, lambda: _run(services, Service.COMPACTION)))
    elif config.schedules_compaction:
        wanted.append((Service.COMPACTION, lambda: _schedule(services, Service.COMPACTION)))
    if config.compacts_logs_inline:
        wanted.append((Service.LOG_COMPACTION, lambda: _run(services, Service.LOG_COMPACTION)))
    if config.clusters_inline:
        wanted.append((Service.CLUSTERING, lambda: _run(services, Service.CLUSTERING)))
    elif config.schedules_clustering:
        wanted.append((Service.CLUSTERING, lambda: _schedule(services, Service.CLUSTERING)))
    if config.expires_partitions:
        wanted.append((Service.TTL, lambda: _run(services, Service.TTL)))
    outcomes = [_admitted(services, service, act, config) for service, act in wanted]
    return tuple(outcome for outcome in outcomes if outcome.is_telling)


def _run(services: TableServices, service: Service) -> AfterCommit:
    return AfterCommit(service, run=services.run(service))


def _schedule(services: TableServices, service: Service) -> AfterCommit:
    if services.pending(service, services.table.timeline()):
        return AfterCommit(service)
    commits_max = None
    if service is Service.CLUSTERING:
        commits_max = ClusteringConfig.from_settings(services.settings).async_commits_max
    outcome: Instant | NotDue = services.schedule(service, commits_max=commits_max)
    if isinstance(outcome, NotDue):
        return AfterCommit(service)
    return AfterCommit(service, scheduled=outcome.time)


def _admitted(
    services: TableServices,
    service: Service,
    act: Callable[[], AfterCommit],
    config: SchedulerConfig,
) -> AfterCommit:
    refusal = services.refusal(service)
    if refusal is not None:
        return AfterCommit(service, left_out=refusal.reason)
    return _guarded(service, act, config)


def _guarded(
    service: Service, act: Callable[[], AfterCommit], config: SchedulerConfig
) -> AfterCommit:
    try:
        return act()
    except Exception as error:
        # Whatever it is, an engine's failure included: the commit itself took place.
        if config.raises_failures:
            raise
        _log.warning("The write is committed, but %s failed after it: %s", service, error)
        return AfterCommit(service, failure=str(error))
