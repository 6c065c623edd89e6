"""Which SQL makes the same rows of a row whatever others come with it, by the plans of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tideline.spark.source_files.landed_rows import mark_deletes, transform_rows
from tideline.spark.source_files.row_by_row import why_not_row_by_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Rows read from a file, as those of a source are."""
    path = str(tmp_path_factory.mktemp("landed") / "rows")
    rows = spark.sql("select 1L id, 1L ts, 'v' v, 'ok' status, 0L _tideline_sequence")
    rows.write.parquet(path)
    return spark.read.parquet(path)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("select *, uuid() u from source", "uuid() is another value each time"),
        ("select id, ts, v, string(rand()) status from source", "rand() is another value"),
        ("select id, ts, v, string(now()) status from source", "now() says something else"),
        ("select id, ts, v, string(current_date()) status from source", "current_date() says"),
        ("select id, max(ts) ts, max(v) v, 'x' status from source group by id", "an aggregation"),
        ("select distinct id, ts, v, status from source", "distinct"),
        (
            "select id, ts, v, status from source"
            " qualify row_number() over (partition by id order by ts desc) = 1",
            "a window function is over the rows of a commit",
        ),
        ("select * from source limit 2", "limit is over the rows of a commit"),
        ("select * from source where ts = (select max(ts) from source)", "an aggregation is over"),
        ("select * from source where id in (select id from source)", "a subquery is over"),
        ("select a.* from source a join source b on a.id = b.id", "joined with each other"),
        ("select * from source union all select 9, 9, 'x', 'y', 0", "come with every commit"),
        ("select 1L id, 1L ts, 'v' v, 's' status", "its rows are not of the source"),
        (
            "select s.* from source s right join values (1L) c(k) on s.id = c.k",
            "come with every commit",
        ),
        ("select s.* from source s join parquet.`{other}` o on s.id = o.id", "another table"),
    ],
)
def test_what_depends_on_the_batch_or_on_when_it_runs_is_named(
    query: str, reason: str, landed: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    if "{other}" in query:
        spark.range(3).write.parquet(str(other))
    rows = transform_rows(spark, landed, query.format(other=other))
    assert reason in (why_not_row_by_row(rows, landed) or "")


@pytest.mark.parametrize(
    "query",
    [
        "select * except (v), input_file_name() v from source",
        "select * from source order by ts",
        "select s.* from (select * from source where id > 0) s",
        "select s.* from source s join values (1L) c(k) on s.id = c.k",
        "select s.* from source s left anti join (select 5L k union all select 6L) c on s.id = c.k",
        "select * from source where id in (select * from values (1L), (2L))",
        "select * from source where ts < (select max(k) from values (7L) c(k))",
        "select id, ts, one v, status, _tideline_sequence * 10 + at _tideline_sequence from source"
        " lateral view posexplode(split(v, ',')) as at, one",
        "select * from source union all select id + 100, ts, v, status, _tideline_sequence"
        " from source",
    ],
)
def test_what_is_made_of_each_row_alone_is_none_of_that(
    query: str, landed: DataFrame, spark: SparkSession
) -> None:
    assert why_not_row_by_row(transform_rows(spark, landed, query), landed) is None


def test_a_condition_for_deletes_counts_as_well(landed: DataFrame) -> None:
    rows = mark_deletes(landed, "ts > 3 and status = 'gone'")
    assert why_not_row_by_row(rows, landed) is None
    rows = mark_deletes(landed, "unix_timestamp() > ts")
    assert "current_timestamp() says" in (why_not_row_by_row(rows, landed) or "")
