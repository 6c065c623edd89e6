"""Input that is refused: what the error says, and that the table is as it was before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.errors import ConfigError, CorruptTableError, InvalidDataError, TidelineError
from tideline.testing.plain_reader import live_files, objects, stored_rows
from tideline.testing.written_table import WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("v", pa.string())]
)


# What a rolled back write leaves, as Hudi does: the rollback's instant, partitions without rows.
LEFT_BY_ROLLBACKS = (
    ".rollback",
    ".rollback.requested",
    ".rollback.inflight",
    ".hoodie_partition_metadata",
)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> WrittenTable:
    """One row in partition `north`."""
    made = WrittenTable.create(
        spark, tmp_path / "t", SCHEMA, partition_by=["region"], ordering=["ts"]
    )
    made.write([("a", "north", 5, "1")], "insert")
    return made


@contextmanager
def refused(
    table: WrittenTable, kind: type[TidelineError], message: str, *, started: bool = False
) -> Iterator[None]:
    """The block raises this error; a write that had `started` may leave its rollback behind."""
    before = objects(table.folder)
    with pytest.raises(kind, match=message) as caught:
        yield
    assert f"table={table.lake.uri}" in str(caught.value)
    after = objects(table.folder)
    if started:
        after = {
            path: digest
            for path, digest in after.items()
            if path in before or not path.endswith(LEFT_BY_ROLLBACKS)
        }
    assert after == before


def test_rows_without_a_key_are_refused_with_their_number_and_the_key_columns_of_one(
    table: WrittenTable,
) -> None:
    rows = [("b", "north", 1, "x"), (None, "north", 1, "bad"), ("", "south", 1, "bad")]
    # The key columns say which row it is; the rest of a row does not belong in a message.
    message = r"2 incoming rows have a null or empty record key.*'id': \S+, 'region': '\w+'\}\]"
    for operation in ("upsert", "insert", "insert_overwrite"):
        with refused(table, InvalidDataError, message):
            table.lake.write(table.frame(rows), operation)
    with refused(table, InvalidDataError, message, started=True):
        table.lake.write(table.frame(rows), "bulk_insert")
    with refused(table, InvalidDataError, "2 incoming rows have a null or empty record key"):
        table.lake.write(table.frame(rows), "delete")
    assert table.rows("id") == [("a",)]


def test_rows_without_an_ordering_value_are_refused(table: WrittenTable) -> None:
    shown = r"value=\{'id': 'c', 'region': 'p', 'ts': None\}\]"
    message = rf"1 incoming row has a null ordering value \(ts\).*{shown}"
    with refused(table, InvalidDataError, message):
        table.lake.write(table.frame([("b", "p", 1, ""), ("c", "p", None, "")]), "upsert")


def test_key_and_ordering_columns_have_to_be_there(table: WrittenTable) -> None:
    frame = table.frame([("b", "p", 1, "")])
    for name, role in (("id", "record key"), ("region", "partition"), ("ts", "ordering")):
        with refused(table, ConfigError, f"{role} field '{name}' is not a column of the input"):
            table.lake.write(frame.drop(name), "upsert")
    with refused(
        table, InvalidDataError, "column _hoodie_is_deleted must be boolean .*value=string"
    ):
        table.lake.write(frame.withColumn("_hoodie_is_deleted", F.lit("true")), "upsert")
    with pytest.raises(ConfigError, match=r"expected one of insert, upsert, .*value=merge"):
        table.lake.write(frame, "merge")


def test_partition_values_that_leave_the_table_are_refused(table: WrittenTable) -> None:
    message = "a partition value makes no path inside the table"
    for region in ("../up", "a/../b", "/top", "a//b", "a/", ".", ".hoodie/x", "a\nb", "a\x00b"):
        with refused(table, InvalidDataError, message):
            table.lake.write(table.frame([("b", region, 1, "")]), "upsert")
    for region in ("../up", ".hoodie/x"):
        with refused(table, InvalidDataError, message, started=True):
            table.lake.write(table.frame([("b", region, 1, "")]), "bulk_insert")
    assert list(table.folder.parent.iterdir()) == [table.folder]


@pytest.mark.slow_with("spark")
def test_partitions_inside_partitions_are_refused(table: WrittenTable) -> None:
    message = "partition 'x/y' lies inside partition 'x', where readers do not look"
    rows = table.frame([("b", "x/y", 1, ""), ("c", "x", 1, ""), ("d", "x-", 1, "")])
    with refused(table, InvalidDataError, message):
        table.lake.write(rows, "insert")
    with refused(table, InvalidDataError, message, started=True):
        table.lake.write(rows, "bulk_insert")
    table.write([("e", "up/down", 1, "")])
    inner, outer = table.frame([("b", "north/pole", 1, "")]), table.frame([("f", "up", 1, "")])
    for operation in ("upsert", "bulk_insert", "insert_overwrite"):
        message = "partition 'north/pole' lies inside partition 'north'"
        with refused(table, InvalidDataError, message, started=True):
            table.lake.write(inner, operation)
        message = "partition 'up/down' lies inside partition 'up'"
        with refused(table, InvalidDataError, message, started=True):
            table.lake.write(outer, operation)
    assert table.rows("id") == [("a",), ("e",)]


def test_partition_values_that_are_no_time_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = WrittenTable.create(
        spark,
        tmp_path / "t",
        SCHEMA,
        partition_by=["region"],
        key_generator="TIMESTAMP",
        properties={
            "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
            "hoodie.keygen.timebased.input.dateformat": "yyyyMMdd",
            "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
        },
    )
    table.write([("a", "20240105", 1, ""), ("b", None, 1, "")])
    assert {row["_hoodie_partition_path"] for row in stored_rows(table.folder)} == {
        "2024/01",
        "1970/01",
    }
    message = "1 incoming row has a partition value that cannot be read as a time.*'junk'"
    rows = table.frame([("c", "junk", 1, ""), ("d", "20240105", 1, "")])
    with refused(table, InvalidDataError, message):
        table.lake.write(rows, "upsert")
    with refused(table, InvalidDataError, message, started=True):
        table.lake.write(rows, "bulk_insert")


@pytest.mark.slow_with("spark")
def test_a_broken_base_file_is_named(table: WrittenTable) -> None:
    (path,) = live_files(table.folder)
    whole = path.read_bytes()
    name = path.relative_to(table.folder).as_posix()
    rows = [("a", "north", 6, "2"), ("b", "north", 6, "2")]
    try:
        path.write_bytes(whole[: len(whole) // 2])
        for operation in ("upsert", "insert", "delete"):
            with refused(table, CorruptTableError, f"base file .*path={name}",
                         started=True):  # fmt: skip
                table.lake.write(table.frame(rows), operation)
        with refused(table, CorruptTableError, "base file", started=True):
            table.lake.write(table.frame(rows), "upsert", options={"hoodie.index.type": "BLOOM"})
    finally:
        path.write_bytes(whole)
    table.write(rows)
    assert table.rows("id", "v") == [("a", "2"), ("b", "2")]


def test_a_failing_input_leaves_the_table_as_it_was(table: WrittenTable) -> None:
    """The error is Spark's own: it is about the caller's query."""
    rows = table.frame([(str(n), "north", n, "x") for n in range(4)])
    broken = rows.withColumn("v", F.when(F.col("ts") < 3, "v").otherwise(F.raise_error("broken")))
    before = table.rows()
    for operation in ("upsert", "bulk_insert"):
        with pytest.raises(Exception, match="broken"):
            table.lake.write(broken, operation)
    assert table.rows() == before
    table.write(rows, "upsert")
    assert len(table.rows()) == 5
