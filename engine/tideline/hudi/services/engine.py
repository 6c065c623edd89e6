"""What an engine does for a service that moves rows; plans and transactions are the same for all.

An engine belongs to one table. `tideline.spark` has the one on Spark; crash tests use an
in-process one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tideline.hudi.services.clustering.plan import ClusteringPlan
from tideline.hudi.services.compaction.operation import CompactionOperation
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig


@dataclass(frozen=True, slots=True)
class ServiceWork:
    """One run of a service, as an engine needs to know it.

    `schema_json` is the table's schema, without meta columns. `timeline` tells which log blocks
    are committed. The engine gives up with ConflictError after `seconds_max`, when given.
    """

    instant: InstantTime
    schema_json: str
    timeline: ActiveTimeline
    config: WriteConfig
    seconds_max: float | None = None


OpenEngine = Callable[[], "ServiceEngine"]
"""Gives the engine that moves rows; asked only when there is work for it."""


class ServiceEngine(Protocol):
    """Reads file slices and writes files, a marker before each; one stat per file written."""

    def compact(
        self, work: ServiceWork, operations: Sequence[CompactionOperation]
    ) -> Sequence[WriteStat]:
        """Write a base file for every operation: the rows of its slice, log files merged in."""
        ...

    def compact_logs(
        self, work: ServiceWork, operations: Sequence[CompactionOperation]
    ) -> Sequence[WriteStat]:
        """Append one log file for every operation: the blocks of its log files, merged."""
        ...

    def cluster(self, work: ServiceWork, plan: ClusteringPlan) -> Sequence[WriteStat]:
        """Write the rows of every group to new file groups, laid out as the plan says."""
        ...


@dataclass(frozen=True, slots=True)
class EngineOnDemand:
    """Opens its engine for the first work: a broken plan is told without starting one."""

    open_engine: OpenEngine

    def compact(
        self, work: ServiceWork, operations: Sequence[CompactionOperation]
    ) -> Sequence[WriteStat]:
        return self.open_engine().compact(work, operations)

    def compact_logs(
        self, work: ServiceWork, operations: Sequence[CompactionOperation]
    ) -> Sequence[WriteStat]:
        return self.open_engine().compact_logs(work, operations)

    def cluster(self, work: ServiceWork, plan: ClusteringPlan) -> Sequence[WriteStat]:
        return self.open_engine().cluster(work, plan)
