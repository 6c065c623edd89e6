"""The service engine on Spark. See `tideline.hudi.services.engine.ServiceEngine`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tideline.hudi.services.engine import RowArrangement, ServiceWork
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.spark.services.clustering import cluster_groups
from tideline.spark.services.compaction import compact_slices
from tideline.spark.session.spark_session import spark_session


@dataclass(frozen=True, slots=True)
class SparkServiceEngine:
    """Runs the services of one table in a Spark session."""

    spark: SparkSession
    table: HoodieTable

    def compact(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        return compact_slices(self.spark, self.table, work, slices, only_logs=False)

    def compact_logs(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        return compact_slices(self.spark, self.table, work, slices, only_logs=True)

    def cluster(self, work: ServiceWork, arrangement: RowArrangement) -> Sequence[WriteStat]:
        return cluster_groups(self.spark, self.table, work, arrangement)


def open_service_engine(
    table: HoodieTable, spark: SparkSession | None = None
) -> SparkServiceEngine:
    """An engine for a table, in the given session or the running one or a new one."""
    session = spark or spark_session("tideline services", locations=[table.location])
    return SparkServiceEngine(session, table)
