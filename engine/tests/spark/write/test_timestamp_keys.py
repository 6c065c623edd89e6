"""Tables whose keys and partitions have timestamps as text: each key once, on either engine."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.errors import UnsupportedTableError
from tideline.hudi.write.config import WriteConfig
from tideline.in_process.run import why_spark
from tideline.testing.plain_reader import stored_rows
from tideline.testing.written_table import WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

AS_TEXT = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
SCHEMA = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("day", pa.timestamp("us", "UTC")), ("v", pa.string())]
)
OLD = dt.datetime(1899, 12, 31, 23, 59, 59, 998_001, tzinfo=dt.UTC)
NOON = dt.datetime(2024, 1, 5, 12, tzinfo=dt.UTC)
DAY = dt.datetime(2024, 1, 5, tzinfo=dt.UTC)


def create(spark: SparkSession, folder: Path, **more: str) -> WrittenTable:
    return WrittenTable.create(
        spark,
        folder,
        SCHEMA,
        record_key=["at"],
        partition_by=["day"],
        properties={AS_TEXT: "true", **more},
    )


def test_keys_and_partitions_are_the_text_of_the_time(spark: SparkSession, tmp_path: Path) -> None:
    table = create(spark, tmp_path / "t")
    table.write([(OLD, DAY, "1"), (NOON, DAY, "1"), (NOON, None, "1")])
    table.write([(OLD, DAY, "2"), (NOON, DAY, "2")])
    table.write([(NOON, None, "3")], "delete")
    names = ("_hoodie_record_key", "_hoodie_partition_path", "v")
    assert sorted(tuple(row[name] for name in names) for row in stored_rows(table.folder)) == [
        ("1899-12-31 23:59:59.999", "2024-01-05 00:00:00.0", "2"),
        ("2024-01-05 12:00:00.0", "2024-01-05 00:00:00.0", "2"),
    ]


def test_keys_are_not_computed_from_stored_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    table = create(spark, tmp_path / "t")
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "checksum" not in line]
    properties.write_text("\n".join([*lines, "hoodie.populate.meta.fields=false", ""]))
    with pytest.raises(UnsupportedTableError, match="timestamps as text in a table without meta"):
        table.write([(NOON, DAY, "1")])


def test_a_session_of_another_zone_spells_them_itself(spark: SparkSession, tmp_path: Path) -> None:
    table = create(spark, tmp_path / "t")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        table.write([(NOON, DAY, "1")])
        table.lake.write(pa.Table.from_pylist([{"at": NOON, "day": DAY, "v": "2"}], SCHEMA))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    found = [(row["_hoodie_record_key"], row["v"]) for row in stored_rows(table.folder)]
    assert found == [("2024-01-05 07:00:00.0", "2")]
    hoodie = table.lake.hoodie_table
    reason = why_spark(1, hoodie, WriteConfig(), zone="America/New_York")
    assert reason is not None and "zone America/New_York" in reason
