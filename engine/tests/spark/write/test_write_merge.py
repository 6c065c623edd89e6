"""Which of several rows with one key stays: within a batch, against stored rows, by column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.errors import ConfigError
from tideline.testing.plain_reader import live_files, stored_rows
from tideline.testing.written_table import WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("rank", pa.int32()),
        ("v", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)


def test_the_highest_ordering_value_wins_and_of_equal_ones_the_later_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = WrittenTable.create(spark, tmp_path / "t", SCHEMA, ordering=["ts", "rank"])
    first = table.write(
        [
            ("first field", 2, 1, "yes", False),
            ("first field", 1, 9, "no", False),
            ("second field", 1, 1, "no", False),
            ("second field", 1, 2, "yes", False),
            ("tie", 1, 1, "no", False),
            ("tie", 1, 1, "yes", False),
            ("delete wins", 1, 1, "no", False),
            ("delete wins", 1, 2, "no", True),
            ("delete loses", 1, 2, "yes", False),
            ("delete loses", 1, 1, "no", True),
            ("late tie", 5, 5, "stored", False),
            ("loser", 5, 5, "stored", False),
            ("loser by rank", 5, 5, "stored", False),
            ("late delete", 5, 5, "stored", False),
        ]
    )
    stored = ("late delete", "late tie", "loser", "loser by rank")
    won = [("delete loses", "yes"), ("first field", "yes"), ("second field", "yes")]
    won.append(("tie", "yes"))
    assert table.rows("id", "v") == sorted(won + [(key, "stored") for key in stored])
    meta = {row["id"]: row["_hoodie_commit_seqno"] for row in stored_rows(table.folder)}
    second = table.write(
        [
            ("late tie", 5, 5, "new", False),
            ("loser", 4, 9, "new", False),
            ("loser by rank", 5, 4, "new", False),
            ("late delete", 4, 5, None, True),
            ("first field", 3, 0, "no", False),
            ("first field", 9, 0, None, True),
            ("tie", 0, 0, "no", False),
            ("tie", 1, 2, "again", False),
        ]
    )
    won = [("delete loses", "yes"), ("late tie", "new"), ("second field", "yes"), ("tie", "again")]
    kept = ("late delete", "loser", "loser by rank")
    assert table.rows("id", "v") == sorted(won + [(key, "stored") for key in kept])
    now = {row["id"]: row for row in stored_rows(table.folder)}
    for key in (*kept, "second field", "delete loses"):
        assert now[key]["_hoodie_commit_time"] == first.instant
        assert now[key]["_hoodie_commit_seqno"] == meta[key]
    assert now["tie"]["_hoodie_commit_time"] == second.instant
    assert {row["_hoodie_file_name"] for row in now.values()} == {
        path.name for path in live_files(table.folder)
    }


def test_with_commit_time_ordering_the_last_write_wins(spark: SparkSession, tmp_path: Path) -> None:
    table = WrittenTable.create(
        spark,
        tmp_path / "t",
        SCHEMA,
        ordering=["ts"],
        merge_mode="COMMIT_TIME_ORDERING",
    )
    table.write([("a", 5, 0, "old", False), ("b", 5, 0, "old", False), ("c", 5, 0, "old", False)])
    # Within a batch the ordering value still counts, as it does for Hudi.
    table.write(
        [
            ("a", 1, 0, "new", False),
            ("b", 1, 0, None, True),
            ("c", 3, 0, "new", False),
            ("c", 2, 0, "older", False),
        ]
    )
    assert table.rows("id", "ts", "v") == [("a", 1, "new"), ("c", 3, "new")]


@pytest.mark.slow_with("spark")
def test_ordering_fields_may_be_nested_and_of_any_ordered_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema(
        [("id", pa.string()), ("source", pa.struct([("at", pa.timestamp("us", "UTC"))])),
         ("v", pa.string())]
    )  # fmt: skip
    table = WrittenTable.create(
        spark,
        tmp_path / "t",
        schema,
        ordering=["source.at"],
        properties={"hoodie.index.type": "GLOBAL_SIMPLE"},
    )
    table.write([("a", {"at": 5}, "old"), ("a", {"at": 6}, "stored"), ("b", {"at": 5}, "stored")])
    table.write([("a", {"at": 5}, "lost"), ("b", {"at": 7}, "new")])
    assert table.rows("id", "v") == [("a", "stored"), ("b", "new")]


def test_a_partial_update_changes_the_columns_it_names(spark: SparkSession, tmp_path: Path) -> None:
    table = WrittenTable.create(spark, tmp_path / "t", SCHEMA, ordering=["ts"])
    table.write([("a", 1, 1, "a1", False), ("b", 9, 1, "b1", False)])
    partial = {"tideline.write.partial.update.columns": "ts,v"}
    rows = [("a", 2, 0, "a2", False), ("b", 2, 0, "b2", False), ("c", 2, 0, "c2", False)]
    frame = table.frame(rows).select("id", "ts", "v")
    report = table.write(frame, options=partial)
    assert table.rows("id", "ts", "rank", "v") == [
        ("a", 2, 1, "a2"),
        ("b", 9, 1, "b1"),
        ("c", 2, None, "c2"),
    ]
    assert (report.rows_updated, report.rows_inserted) == (1, 1)
    # Columns that are there but not named are for new rows only.
    table.write([("a", 3, 7, "a3", False), ("d", 3, 7, "d3", False)], options=partial)
    assert table.rows("id", "rank", "v")[0] == ("a", 1, "a3")
    assert table.rows("id", "rank", "v")[3] == ("d", 7, "d3")
    with pytest.raises(ConfigError, match="column to update 'v' is not a column of the input"):
        table.write(frame.drop("v"), options=partial)
    moving = {**partial, "hoodie.index.type": "GLOBAL_SIMPLE"}
    with pytest.raises(ConfigError, match="cannot move rows to another partition"):
        table.write(frame, options=moving)
    with pytest.raises(ConfigError, match="columns to update are not in the table's schema"):
        table.write(
            frame.withColumn("x", F.lit(1)).select("id", "ts", "v"),
            options={"tideline.write.partial.update.columns": "V"},
        )
