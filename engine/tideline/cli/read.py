"""`tideline read`: rows of a table, or the answer to a query over it."""

from __future__ import annotations

import click

from tideline.cli.command import command
from tideline.cli.options import limit_option, table_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.cli.progress import progress
from tideline.errors import ConfigError
from tideline.lake_table import LakeTable
from tideline.spark.read.query import query_rows
from tideline.spark.session.spark_session import spark_session
from tideline.wording import counted


@command("read")
@table_options
@click.option("--as-of", metavar="TIME", help="Rows as they were at an instant.")
@click.option(
    "--after",
    metavar="INSTANT",
    help="Only rows of commits after this one, or after a time; in tables of versions 8 and 9 "
    "commits count by when they completed.",
)
@click.option("--until", metavar="INSTANT", help="With --after: rows written up to then.")
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
    read_optimized: bool,
    sql: str | None,
    limit: int | None,
    meta: bool,
) -> None:
    """Print rows of the table at URI."""
    if as_of and after:
        raise ConfigError("--as-of and --after exclude each other")
    if until and not after:
        raise ConfigError("--until needs --after")
    if read_optimized and (as_of or after):
        raise ConfigError("--read-optimized reads the table as it is now: no --as-of, no --after")
    table = LakeTable.open(uri, storage_options=storage)
    spark = spark_session("tideline read", locations=[table.hoodie_table.location])
    if after:
        frame = table.incremental(spark, after=after, until=until)
    elif read_optimized:
        frame = table.read_optimized(spark)
    else:
        frame = table.snapshot(spark, as_of=as_of)
    with progress("reading the table"):
        answer = query_rows(frame, sql=sql, limit=limit, with_meta_columns=meta)
    if as_json:
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        print_json({"columns": answer.columns, "rows": rows, "complete": answer.complete})
        return
    print_table(answer.columns, answer.rows)
    if not answer.complete:
        print_line(f"... the first {counted(limit or 0, 'row')}; --limit all prints all.")
