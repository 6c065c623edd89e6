"""Verbs of an open table: its schema, savepoints, going back, deleting by condition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.errors import ConfigError, ConflictError, UnsupportedTableError
from tideline.hudi.table.table_config import TableType
from tideline.spark.read.frames import FoundRows, find_rows
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


KINDS = [(kind, small) for kind in TableType for small in ("in_process", "spark")]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0].name.lower()}-{kind[1]}")
def copies(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> WrittenTable:
    """A key that is stored twice in one partition and once in another, with other values."""
    kind, small = request.param
    made = WrittenTable.create(
        spark,
        tmp_path / "t",
        SCHEMA,
        partition_by=["day"],
        table_type=kind,
        properties={"tideline.engine.small": small, "hoodie.index.type": "GLOBAL_SIMPLE"},
    )
    made.lake.write(
        made.frame([(1, "d0", 10), (1, "d0", 11), (1, "d1", 12), (2, "d1", 20)]), "insert"
    )
    return made


def values(table: WrittenTable) -> list[int]:
    return sorted(table.lake.to_arrow(["v"]).column("v").to_pylist())


def test_a_row_is_deleted_in_its_partition_alone(copies: WrittenTable) -> None:
    assert copies.lake.delete("v = 12").rows_deleted == 1
    assert values(copies) == [10, 11, 20]


def test_copies_of_a_key_go_together_or_not_at_all(copies: WrittenTable) -> None:
    commits = len(copies.lake.timeline().writes().completed())
    for act in (copies.lake.delete, copies.lake.erase):
        with pytest.raises(UnsupportedTableError, match="1 row matches, but 2 have") as refused:
            act("v = 10")
        assert str(copies.folder) in str(refused.value)
    assert len(copies.lake.timeline().writes().completed()) == commits
    assert values(copies) == [10, 11, 12, 20]
    if copies.lake.hoodie_table.config.table_type is TableType.MERGE_ON_READ:
        # A log would delete one of them.
        with pytest.raises(UnsupportedTableError, match="2 rows match, but 1 would be deleted"):
            copies.lake.delete("id = 1 and day = 'd0'")
        assert values(copies) == [10, 11, 12, 20]
        return
    copies.lake.delete("id = 1 and day = 'd0'")
    assert values(copies) == [12, 20]


def test_rows_that_are_not_found_by_their_keys_stop_the_delete(copies: WrittenTable) -> None:
    def find(*_: object) -> FoundRows:
        found = find_rows(copies.spark, copies.lake.hoodie_table, "v >= 12")
        strange = found.frame.withColumn(
            "_hoodie_record_key", F.concat("_hoodie_record_key", F.lit("x"))
        )
        return FoundRows(found.frame.limit(1).unionAll(strange.limit(1)), found.timeline)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tideline.spark.read.frames.find_rows", find)
        with pytest.raises(UnsupportedTableError, match="2 rows match, but 1 is found by key"):
            copies.lake.delete("v >= 12", spark=copies.spark)
    assert values(copies) == [10, 11, 12, 20]


def test_a_row_that_others_change_after_it_matched_is_a_conflict(copies: WrittenTable) -> None:
    lake = copies.lake

    def find(*_: object) -> FoundRows:
        found = find_rows(copies.spark, lake.hoodie_table, "v = 20")
        copies.lake.write(copies.frame([(2, "d1", 21)]))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tideline.spark.read.frames.find_rows", find)
        with pytest.raises(ConflictError):
            lake.delete("v = 20", spark=copies.spark)
    assert values(copies) == [10, 11, 12, 21]
    options = {"hoodie.write.num.retries.on.conflict.failures": "1"}
    assert copies.lake.delete("v > 20", options=options).rows_deleted == 1


@pytest.mark.parametrize("small", ["in_process", "spark"])
def test_rows_without_meta_columns_are_deleted_by_the_keys_of_their_columns(
    spark: SparkSession, tmp_path: Path, small: str
) -> None:
    made = WrittenTable.create(spark, tmp_path / "t", SCHEMA, partition_by=["day"])
    made.lake.hoodie_table.properties.update({"hoodie.populate.meta.fields": "false"})
    made.lake.write(made.frame([(1, "d0", 10), (2, "d0", 11), (1, "d1", 12)]), "insert")
    options = {"tideline.engine.small": small}
    assert made.lake.delete("v = 10", options=options).rows_deleted == 1
    assert values(made) == [11, 12]
