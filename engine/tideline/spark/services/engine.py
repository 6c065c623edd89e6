"""The service engine on Spark. See `tideline.hudi.services.engine.ServiceEngine`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tideline.hudi.services.clustering.plan import ClusteringPlan
from tideline.hudi.services.compaction.operation import CompactionOperation
from tideline.hudi.services.engine import ServiceWork
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.spark.services.clustering import cluster_groups
from tideline.spark.services.compaction import compact_operations
from tideline.spark.session.spark_session import spark_session


@dataclass(frozen=True, slots=True)
class SparkServiceEngine:
    """Runs the services of one table in a Spark session."""

    spark: SparkSession
    table: HoodieTable

    def compact(
        self, work: ServiceWork, operations: Sequence[CompactionOperation]
    ) -> Sequence[WriteStat]:
        return compact_operations(self.spark, self.table, work, operations, only_logs=False)

    def compact_logs(
        self, work: ServiceWork, operations: Sequence[CompactionOperation]
    ) -> Sequence[WriteStat]:
        return compact_operations(self.spark, self.table, work, operations, only_logs=True)

    def cluster(self, work: ServiceWork, plan: ClusteringPlan) -> Sequence[WriteStat]:
        return cluster_groups(self.spark, self.table, work, plan)


def open_service_engine(
    table: HoodieTable, spark: SparkSession | None = None
) -> SparkServiceEngine:
    """An engine for a table, in the given session or the running one or a new one."""
    session = spark or spark_session("tideline services", locations=[table.location])
    return SparkServiceEngine(session, table)
