"""Ingests whose rows Spark reads, into Iceberg tables: the rows stay in Spark's tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import ICEBERG, TableTarget
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.testing.iceberg_feed import IcebergFeed

pytestmark = [pytest.mark.spark]
TRANSFORM = "SELECT id, ts, upper(text) AS text, _hoodie_is_deleted FROM source"


@pytest.fixture
def feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IcebergFeed:
    def refuse(_: DataFrame) -> Any:
        raise AssertionError("the rows of a source came to the driver")

    for name in ("toArrow", "toPandas"):
        monkeypatch.setattr(DataFrame, name, refuse)
    place = Location(str(tmp_path / "table"))
    target = TableTarget("feed", place, ("id",), format=ICEBERG, ordering=("ts",))
    return IcebergFeed(tmp_path, target)


def run(feed: IcebergFeed, spark: SparkSession, **work: Any) -> OperationResult:
    given = {"write_operation": "upsert", "transform": TRANSFORM, **work}
    return execute_operation(feed.plan(**given), session_factory=lambda *_: spark)


def row(number: int | None, ts: int, *, gone: bool = False, **more: Any) -> dict[str, Any]:
    return {"id": number, "ts": ts, "text": f"at {ts}", "_hoodie_is_deleted": gone, **more}


def found(feed: IcebergFeed) -> dict[int, str]:
    return {item["id"]: item["text"] for item in feed.lake().to_arrow().to_pylist()}


def test_the_newest_row_of_a_key_stays_and_deletes_take_out(
    spark: SparkSession, feed: IcebergFeed
) -> None:
    feed.land([row(1, 5), row(2, 5), row(3, 5), row(3, 9), row(3, 7)])
    result = run(feed, spark)
    assert (result.outcome, result.rows_inserted) == (Outcome.SUCCEEDED, 3), result
    feed.land([row(1, 4), row(2, 6, gone=True), row(4, 1)])
    feed.land([row(1, 5), row(4, 1), row(5, 2)])
    result = run(feed, spark)
    assert (result.rows_inserted, result.rows_updated, result.rows_deleted) == (2, 1, 1)
    assert found(feed) == {1: "AT 5", 3: "AT 9", 4: "AT 1", 5: "AT 2"}
    assert run(feed, spark).outcome is Outcome.NOTHING
    feed.land([row(3, 0), row(9, 0)])
    assert run(feed, spark, write_operation="delete").rows_deleted == 1
    assert sorted(found(feed)) == [1, 4, 5]


def test_rows_are_appended_and_columns_added(spark: SparkSession, feed: IcebergFeed) -> None:
    feed.land([row(1, 1), row(2, 1)])
    run(feed, spark, write_operation="insert")
    feed.land([row(3, 2, more=7), row(4, 1, gone=True)])
    transform = "SELECT id, ts, text, more, _hoodie_is_deleted FROM source"
    result = run(feed, spark, write_operation="insert", transform=transform)
    assert result.outcome is Outcome.SUCCEEDED
    stored = sorted(feed.lake().to_arrow().to_pylist(), key=lambda item: item["id"])
    assert [(item["id"], item["more"]) for item in stored] == [(1, None), (2, None), (3, 7)]


def test_a_row_without_a_key_fails_the_batch_and_nothing_is_written(
    spark: SparkSession, feed: IcebergFeed
) -> None:
    feed.land([row(1, 1)])
    run(feed, spark)
    feed.land([row(None, 2), row(2, 1)])
    result = run(feed, spark)
    assert result.outcome is Outcome.FAILED and "has nulls" in result.message
    assert found(feed) == {1: "AT 1"}
