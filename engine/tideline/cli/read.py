"""`tideline read`: rows of a table of either format, or the answer to a query over it.

1. Which commits are read is planned: the newest state, an earlier one, or a range.
2. Without a query the first rows are read in Arrow.
3. A query is answered by DuckDB over these rows, or by Spark.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from tideline.cli.any_table import any_table_options, open_any, refuse_options
from tideline.cli.command import command
from tideline.cli.iceberg_table import TableSource
from tideline.cli.options import limit_option
from tideline.cli.output import print_rows
from tideline.cli.progress import progress
from tideline.cli.query_engine import (
    TABLE_NAME,
    QueriedRows,
    engine_option,
    query_engine,
    rows_of_iceberg,
    rows_of_scan,
)
from tideline.errors import ConfigError
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.shown_rows import ShownRows, first_rows
from tideline.hudi.read.snapshot import plan_read_optimized, plan_snapshot
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import META_COLUMNS, shown_names

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tideline.iceberg.table.open_table import IcebergTable


@command("read")
@any_table_options
@click.option(
    "--as-of",
    metavar="TIME",
    help="Rows as they were at a time; of an Iceberg table also the id of a snapshot, the name of "
    "a branch or a tag.",
)
@click.option(
    "--after",
    metavar="INSTANT",
    help="Only rows of commits after this one, or after a time; in tables of versions 8 and 9 "
    "commits count by when they completed.",
)
@click.option("--until", metavar="INSTANT", help="With --after: rows written up to then.")
@click.option(
    "--deletes",
    is_flag=True,
    help="With --after: deleted rows as well, and what became of each row in _change_type.",
)
@click.option("--read-optimized", is_flag=True, help="Only base files, without their logs.")
@click.option("--sql", metavar="QUERY", help='A query over the table "t".')
@engine_option
@limit_option("At most N rows, or all.")
@click.option("--meta", is_flag=True, help="With Hudi's own columns (_hoodie_commit_time, ...).")
def read_command(
    source: TableSource,
    as_json: bool,
    as_of: str | None,
    after: str | None,
    until: str | None,
    deletes: bool,
    read_optimized: bool,
    sql: str | None,
    engine: str | None,
    limit: int | None,
    meta: bool,
) -> None:
    """Print rows of the table at URI."""
    if as_of and after:
        raise ConfigError("--as-of and --after exclude each other: leave one out")
    for name, value in (("--until", until), ("--deletes", deletes)):
        if value and not after:
            raise ConfigError(f"{name} needs --after")
    if read_optimized and (as_of or after):
        raise ConfigError("--read-optimized reads the table as it is now: no --as-of, no --after")
    if engine and sql is None:
        raise ConfigError("--engine is about queries: add --sql")
    table = open_any(source)
    with progress("reading the table"):
        if not isinstance(table, HoodieTable):
            refuse_options("Iceberg", read_optimized=read_optimized, meta=meta, after=after)
            found = _iceberg_rows(table, as_of, sql, engine, limit)
        elif after and deletes:
            found = _net_changes(table, (after, until), sql, engine, limit, meta)
        else:
            scan = _plan(table, as_of, after, until, read_optimized=read_optimized)
            found = _rows(table, scan, sql, engine, limit, meta)
    print_rows(found, limit, as_json=as_json)


def _iceberg_rows(
    table: IcebergTable, as_of: str | None, sql: str | None, engine: str | None, limit: int | None
) -> ShownRows:
    # Takes a tenth of a second to import, which reads of Hudi tables need not wait for.
    from tideline.cli.iceberg_read import first_iceberg_rows

    if sql is None:
        return first_iceberg_rows(table, as_of, limit)
    return _answer(rows_of_iceberg(table, as_of), sql, engine, limit)


def _plan(
    table: HoodieTable,
    as_of: str | None,
    after: str | None,
    until: str | None,
    *,
    read_optimized: bool,
) -> TableScan:
    if after:
        # Takes a tenth of a second to import, which few reads need.
        from tideline.hudi.read.incremental import plan_incremental

        return plan_incremental(table, after, until)
    return plan_read_optimized(table) if read_optimized else plan_snapshot(table, as_of)


def _rows(
    table: HoodieTable,
    scan: TableScan,
    sql: str | None,
    engine: str | None,
    limit: int | None,
    meta: bool,
) -> ShownRows:
    """The rows of the scan, or those of a query over it."""
    if sql is not None:
        return _answer(rows_of_scan(table, scan, meta=meta), sql, engine, limit)
    names = shown_names(scan.schema.names, meta=meta)
    if not names:
        # No write has said what columns there are.
        return ShownRows((), (), complete=True)
    return first_rows(ArrowScan.of(table, scan, names), limit)


def _net_changes(
    table: HoodieTable,
    commits: tuple[str, str | None],
    sql: str | None,
    engine: str | None,
    limit: int | None,
    meta: bool,
) -> ShownRows:
    """The rows that a range of commits wrote or deleted, or those of a query over them."""

    def arrow() -> pa.Table:
        from tideline.hudi.read.changes import ChangeFeed
        from tideline.hudi.read.net_changes import NetChanges

        rows = NetChanges(ChangeFeed.of(table, *commits)).read_all()
        return rows.select(shown_names(rows.column_names, meta=meta))

    def frame(spark: SparkSession) -> DataFrame:
        from tideline.spark.read.frames import incremental

        rows = incremental(spark, table, *commits, deletes=True)
        return rows if meta else rows.drop(*META_COLUMNS)

    if sql is None:
        return ShownRows.of(arrow(), limit)
    return _answer(QueriedRows(table.location, arrow, frame), sql, engine, limit)


def _answer(rows: QueriedRows, sql: str, engine: str | None, limit: int | None) -> ShownRows:
    with closing(query_engine(engine)) as answering:
        answers = list(answering.answers({TABLE_NAME: rows}, sql, limit))
    if len(answers) != 1:
        raise ConfigError("--sql takes one query; `tideline sql` takes several", value=sql)
    return answers[0]
