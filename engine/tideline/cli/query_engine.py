"""What answers the queries of commands: DuckDB in this process, or Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

from tideline.cli.default_engine import DUCKDB, SPARK, default_engine
from tideline.clock import SystemClock
from tideline.hudi.read.scan_dataset import scan_dataset
from tideline.hudi.read.shown_rows import ShownRows
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import META_COLUMNS, shown_names
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tideline.formats.row_dataset import RowDataset
    from tideline.iceberg.table.open_table import IcebergTable

TABLE_NAME = "t"
"""What queries call a table that was given no name."""
engine_option = click.option(
    "--engine",
    type=click.Choice([DUCKDB, SPARK]),
    help="What answers queries. DuckDB starts at once, and a query reads these rows only; it needs "
    "the extra sql, without which it is Spark.",
)


@dataclass(frozen=True, slots=True)
class QueriedRows:
    """Rows that queries name, for either engine."""

    location: StoreLocation
    arrow: Callable[[], RowDataset | pa.Table]
    frame: Callable[[SparkSession], DataFrame]


class QueryEngine(Protocol):
    """Answers queries over rows by name; close it."""

    def answers(
        self, rows: Mapping[str, QueriedRows], text: str, limit: int | None
    ) -> Iterator[ShownRows]:
        """The first rows of each statement's answer. Raises ConfigError for what it refuses."""

    def close(self) -> None:
        """Nothing is read any more."""


def query_engine(name: str | None) -> QueryEngine:
    """DuckDB where a release that will do is installed, unless the other is named."""
    if (name or default_engine()) == SPARK:
        return _SparkEngine()
    return _DuckDBEngine()


def rows_of_scan(table: HoodieTable, scan: TableScan, *, meta: bool) -> QueriedRows:
    """The rows of a planned read, with Hudi's own columns or without them."""

    def arrow() -> RowDataset:
        return scan_dataset(table, scan, shown_names(scan.schema.names, meta=meta))

    def frame(spark: SparkSession) -> DataFrame:
        from tideline.spark.read.execute_scan import execute_scan

        rows = execute_scan(spark, table, scan)
        return rows if meta else rows.drop(*META_COLUMNS)

    return QueriedRows(table.location, arrow, frame)


def iceberg_dataset(table: IcebergTable, as_of: str | None = None) -> RowDataset:
    """The rows of an Iceberg table's newest snapshot, or of another. Raises ConfigError."""
    from tideline.iceberg.read.snapshot_choice import SnapshotChoice
    from tideline.iceberg.read.table_rows import snapshot_dataset

    choice = SnapshotChoice.of(table.refresh(), as_of, now_ms=SystemClock().now_ms())
    return snapshot_dataset(table.io, choice)


def rows_of_iceberg(table: IcebergTable, as_of: str | None = None) -> QueriedRows:
    """These rows, for queries."""
    rows = iceberg_dataset(table, as_of)

    def frame(_: SparkSession) -> DataFrame:
        from tideline.spark.arrow_frame import arrow_frame

        return arrow_frame(rows.to_table(), table.io.location)

    return QueriedRows(table.io.location, lambda: rows, frame)


class _DuckDBEngine:
    def __init__(self) -> None:
        # Takes a fifth of a second, which reads without a query need not wait for.
        from tideline.sql.session import SqlSession

        self._session = SqlSession(advice="; --engine spark has Spark answer it")

    def answers(
        self, rows: Mapping[str, QueriedRows], text: str, limit: int | None
    ) -> Iterator[ShownRows]:
        for name, source in rows.items():
            self._session.add(name, source.arrow())
        for answer in self._session.run(text):
            yield answer.first_rows(limit)

    def close(self) -> None:
        self._session.close()


class _SparkEngine:
    def answers(
        self, rows: Mapping[str, QueriedRows], text: str, limit: int | None
    ) -> Iterator[ShownRows]:
        from tideline.spark.read.query import query_rows
        from tideline.spark.session.spark_session import spark_session

        spark = spark_session("tideline", locations=[row.location for row in rows.values()])
        frames = {name: source.frame(spark) for name, source in rows.items()}
        yield query_rows(spark, frames, text, limit)

    def close(self) -> None:
        """The session is the program's."""
