"""What runs in the process of our side: one warm Spark session, answering the benches' requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.data import ORDERING, PARTITION_BY, RECORD_KEY
from tideline.iceberg.services.rewrite_data_files.in_process import engine_for
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.table.open_table import IcebergTable
from tideline.lake_table import LakeTable
from tideline.spark.iceberg.rewrite import execute_groups
from tideline.spark.session.spark_session import spark_session
from tideline.testing.json_line_server import claim_standard_output, serve


class BenchOperations:
    """The requests this process answers; every method is one."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def create(
        self,
        table: str,
        source: str,
        table_type: str,
        table_version: int,
        properties: Mapping[str, str],
    ) -> None:
        """Create an empty table for rows like those of a parquet file."""
        LakeTable.create(
            table,
            schema=pq.read_schema(source),
            record_key=[RECORD_KEY],
            partition_by=[PARTITION_BY],
            ordering=[ORDERING],
            table_type=table_type,
            table_version=table_version,
            properties=properties,
        )

    def load(self, table: str, source: str) -> None:
        """Fill an empty table with one file per partition."""
        rows = self._spark.read.parquet(source).repartition(PARTITION_BY)
        LakeTable.open(table).write(rows, "bulk_insert")

    def write(
        self, table: str, source: str, operation: str, options: Mapping[str, str]
    ) -> dict[str, Any]:
        """One write of ours, the reading of its source included."""
        rows = self._spark.read.parquet(source)
        report = LakeTable.open(table).write(rows, operation, options=options)
        return report.to_json_object()

    def run_service(self, table: str, service: str, options: Mapping[str, str]) -> dict[str, Any]:
        """Plan and execute one table service, which must be due."""
        run = LakeTable.open(table).run(service, options=options, spark=self._spark)
        assert run.done, f"{service} was not due: {run.not_due}"
        return run.to_json_object()

    def rewrite_iceberg(self, table: str, sort_order: str | None) -> dict[str, int]:
        """Plan, rewrite and commit an Iceberg table."""
        opened = IcebergTable.open(table)
        options = RewriteOptions.parse(
            {}, properties=opened.metadata.properties, sort_order=sort_order
        )
        engine = engine_for(options, lambda: partial(execute_groups, self._spark))
        report = rewrite_data_files(opened, options, engine)
        return {"rewritten": report.files_rewritten, "added": report.files_added}

    def write_plain(self, folder: str, source: str) -> None:
        """The same rows as Spark's own partitioned parquet."""
        rows = self._spark.read.parquet(source)
        rows.write.partitionBy(PARTITION_BY).parquet(folder)

    def aggregate(self, table: str, statement: str) -> list[Any]:
        """A query over a table of ours, called `t`."""
        return self._query(LakeTable.open(table).snapshot(self._spark), statement)

    def aggregate_plain(self, folder: str, statement: str) -> list[Any]:
        """A query over plain parquet, called `t`."""
        return self._query(self._spark.read.parquet(folder), statement)

    def _query(self, rows: DataFrame, statement: str) -> list[Any]:
        rows.createOrReplaceTempView("t")
        return [list(row) for row in self._spark.sql(statement).collect()]


def main() -> None:
    """Start Spark and answer until standard input ends."""
    replies = claim_standard_output()
    settings: dict[str, str] = json.loads(sys.argv[1])
    settings |= {"spark.local.dir": str(Path.cwd())}
    spark = spark_session("bench", master=settings.pop("spark.master"), extra_conf=settings)
    operations = BenchOperations(spark)
    names = [name for name in dir(operations) if not name.startswith("_")]
    serve({name: getattr(operations, name) for name in names}, replies)


if __name__ == "__main__":
    main()
