"""Verbs of an open table: its schema, savepoints, going back, deleting by condition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.errors import ConfigError
from tideline.testing.plain_reader import stored_rows
from tideline.testing.written_table import WrittenTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.int64())])


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> WrittenTable:
    made = WrittenTable.create(spark, tmp_path / "t", SCHEMA, partition_by=["day"], ordering=["v"])
    made.lake.write(made.frame([(n, f"d{n % 2}", n * 10) for n in range(6)]))
    return made


def ids(table: WrittenTable) -> list[int]:
    return sorted(row["id"] for row in stored_rows(table.folder))


def test_the_schema_is_that_of_the_newest_commit(table: WrittenTable) -> None:
    wider = table.frame([(9, "d1", 90)]).withColumn("note", F.lit("new"))
    assert (table.lake.schema or pa.schema([])).names == SCHEMA.names
    table.lake.write(wider, "insert")
    assert (table.lake.schema or pa.schema([])).names == [*SCHEMA.names, "note"]


def test_rows_are_deleted_by_condition_in_sql_and_as_a_column(table: WrittenTable) -> None:
    report = table.lake.delete("v >= 40", spark=table.spark)
    assert (report.rows_deleted, ids(table)) == (2, [0, 1, 2, 3])
    table.lake.delete(F.col("day") == "d1")
    assert ids(table) == [0, 2]


def test_a_delete_that_matches_nothing_changes_no_row(table: WrittenTable) -> None:
    assert table.lake.delete("v > 1000").rows_deleted == 0
    assert ids(table) == list(range(6))


def test_a_table_goes_back_to_its_savepoint(table: WrittenTable) -> None:
    kept = table.lake.savepoint(by="ada", comment="before the import")
    assert table.lake.savepoints() == (kept,)
    table.lake.delete("id > 2")
    foreseen = table.lake.restore(kept.instant, dry_run=True)
    assert (foreseen.instant, len(foreseen.undone), ids(table)) == (None, 1, [0, 1, 2])
    done = table.lake.restore(str(kept.instant))
    assert (done.savepoint, ids(table)) == (kept.instant, list(range(6)))
    table.lake.delete_savepoint(kept.instant)
    assert table.lake.savepoints() == ()
    with pytest.raises(ConfigError):
        table.lake.restore(kept.instant)
