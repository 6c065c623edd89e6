"""`tideline read`: rows of a table, or the answer to a query over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tideline.cli.command import command
from tideline.cli.options import limit_option, table_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.cli.progress import progress
from tideline.errors import ConfigError
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.incremental import plan_incremental
from tideline.hudi.read.shown_rows import ShownRows, first_rows
from tideline.hudi.read.snapshot import plan_read_optimized, plan_snapshot
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.meta_column import META_COLUMNS, is_meta_column
from tideline.lake_table import LakeTable
from tideline.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@command("read")
@table_options
@click.option("--as-of", metavar="TIME", help="Rows as they were at a time.")
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
@limit_option("At most N rows, or all.")
@click.option("--meta", is_flag=True, help="With Hudi's own columns (_hoodie_commit_time, ...).")
def read_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    as_of: str | None,
    after: str | None,
    until: str | None,
    deletes: bool,
    read_optimized: bool,
    sql: str | None,
    limit: int | None,
    meta: bool,
) -> None:
    """Print rows of the table at URI."""
    if as_of and after:
        raise ConfigError("--as-of and --after exclude each other")
    for name, value in (("--until", until), ("--deletes", deletes)):
        if value and not after:
            raise ConfigError(f"{name} needs --after")
    if read_optimized and (as_of or after):
        raise ConfigError("--read-optimized reads the table as it is now: no --as-of, no --after")
    table = LakeTable.open(uri, storage_options=storage)
    with progress("reading the table"):
        if after and deletes:
            answer = _net_changes(table, (after, until), sql, limit, meta)
        else:
            if after:
                scan = plan_incremental(table.hoodie_table, after, until)
            elif read_optimized:
                scan = plan_read_optimized(table.hoodie_table)
            else:
                scan = plan_snapshot(table.hoodie_table, as_of)
            answer = _rows(table, scan, sql, limit, meta)
    if as_json:
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        print_json(
            {"columns": answer.columns, "rows": rows, "complete": answer.complete}, are_rows=True
        )
        return
    print_table(answer.columns, answer.rows, are_rows=True)
    if not answer.complete:
        print_line(f"... the first {counted(limit or 0, 'row')}; --limit all prints all.")


def _rows(
    table: LakeTable, scan: TableScan, sql: str | None, limit: int | None, meta: bool
) -> ShownRows:
    """The rows of the scan, or those of a query over it, which alone needs Spark."""
    if sql is None:
        names = [name for name in scan.schema.names if meta or not is_meta_column(name)]
        if not names:
            # No write has said what columns there are.
            return ShownRows((), (), complete=True)
        return first_rows(ArrowScan.of(table.hoodie_table, scan, names), limit)
    from tideline.spark.read.execute_scan import execute_scan

    frame = execute_scan(_session(table), table.hoodie_table, scan)
    return _answer(frame, sql, limit, meta)


def _net_changes(
    table: LakeTable,
    commits: tuple[str, str | None],
    sql: str | None,
    limit: int | None,
    meta: bool,
) -> ShownRows:
    """The rows that a range of commits wrote or deleted, or those of a query over them."""
    if sql is None:
        rows = table.net_changes(*commits).read_all()
        names = [name for name in rows.column_names if meta or not is_meta_column(name)]
        return ShownRows.of(rows.select(names), limit)
    frame = table.incremental(_session(table), *commits, deletes=True)
    return _answer(frame, sql, limit, meta)


def _session(table: LakeTable) -> SparkSession:
    from tideline.spark.session.spark_session import spark_session

    return spark_session("tideline read", locations=[table.hoodie_table.location])


def _answer(frame: DataFrame, sql: str, limit: int | None, meta: bool) -> ShownRows:
    from tideline.spark.read.query import query_rows

    return query_rows(frame if meta else frame.drop(*META_COLUMNS), sql, limit)
