"""Which engine moves the rows of a service: this process where the work is small, else Spark.

The plan's file slices decide, each time an engine has something to do. A session of Spark that
runs on this machine makes no difference but for the memory that Java takes: its tasks would be on
the same processors. Where it has executors only what takes no longer than a job stays here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tideline.distribution import installation
from tideline.errors import ConfigError
from tideline.hudi.services.engine import RowArrangement, ServiceEngine, ServiceWork
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.machine import memory_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tideline.in_process.service_size import MemorySharing

OpenSpark = Callable[[], "SparkSession"]
"""Gives the session that large work runs in; asked only when there is some."""

_PACKAGES = frozenset({"pyspark", "py4j", "pyarrow", "numpy"})


@dataclass(frozen=True, slots=True)
class ServiceEngineBySize:
    """See `tideline.hudi.services.engine.ServiceEngine`.

    Without `spark` large work runs in the running session, else in a new one. Raises
    ConfigError for such work where Spark is not installed.
    """

    table: HoodieTable
    spark: SparkSession | OpenSpark | None = None

    def compact(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        return self._engine(work, slices).compact(work, slices)

    def compact_logs(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        return self._engine(work, slices).compact_logs(work, slices)

    def cluster(self, work: ServiceWork, arrangement: RowArrangement) -> Sequence[WriteStat]:
        slices = [file_slice for group in arrangement.groups for file_slice in group.slices]
        return self._engine(work, slices).cluster(work, arrangement)

    def _engine(self, work: ServiceWork, slices: Sequence[FileSlice]) -> ServiceEngine:
        # Services that move no rows run where neither Arrow nor Spark is installed.
        with self._installed("it moves rows"):
            from tideline.in_process.service_engine import InProcessServiceEngine
            from tideline.in_process.service_size import MemoryBudget, why_spark
        budget = MemoryBudget.of(memory_bytes(), _sharing())
        reason = why_spark(slices, work.config, budget)
        if reason is None:
            return InProcessServiceEngine(self.table, budget=budget)
        with self._installed(reason):
            from tideline.spark.services.engine import open_service_engine
        return open_service_engine(self.table, self.spark() if callable(self.spark) else self.spark)

    @contextmanager
    def _installed(self, reason: str) -> Iterator[None]:
        """Says what to install where a module is missing, and for which `reason`."""
        try:
            yield
        except ModuleNotFoundError as missing:
            package = (missing.name or "").partition(".")[0]
            if package not in _PACKAGES:
                raise
            raise ConfigError(
                f"this service needs {package}, because {reason}: {installation('spark')}",
                table=self.table.uri,
            ) from missing


def _sharing() -> MemorySharing:
    """What runs in this process already; imports Spark only where someone has done so."""
    from tideline.in_process.service_size import MemorySharing

    if "pyspark.sql" not in sys.modules:
        return MemorySharing.ALONE
    from tideline.spark.session.spark_session import is_local, running_master

    master = running_master()
    if master is None:
        return MemorySharing.ALONE
    return MemorySharing.LOCAL_SESSION if is_local(master) else MemorySharing.EXECUTORS
