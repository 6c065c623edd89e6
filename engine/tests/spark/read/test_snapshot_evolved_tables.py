"""Tables whose files store other types than the table has now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import types as T

from tideline.errors import CorruptTableError
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.spark.read.frames import snapshot
from tideline.spark.read.stored_types import group_by_stored_types
from tideline.testing.hand_written_table import HandWrittenTable

pytestmark = pytest.mark.spark

UTC_US = pa.timestamp("us", "UTC")
UTC_MS = pa.timestamp("ms", "UTC")


def schema_of(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([("id", pa.int64()), *columns.items()])


def rows_of(schema: pa.Schema, *rows: Sequence[Any]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(values, item.type) for values, item in zip(columns, schema, strict=True)],
        schema=schema,
    )


def read(spark: SparkSession, table: HandWrittenTable, *columns: str) -> list[Row]:
    frame = snapshot(spark, table.open())
    return frame.select("id", *columns).orderBy("id").collect()


def group_count(table: HandWrittenTable) -> int:
    opened = table.open()
    scan = plan_snapshot(opened)
    return len(group_by_stored_types(opened, scan.timeline, scan.schema, scan.files))


def test_every_widening_hudi_allows_is_read(spark: SparkSession, tmp_path: Path) -> None:
    old = schema_of(a=pa.int32(), b=pa.int32(), c=pa.int64(), d=pa.float32(), e=pa.int64())
    new = schema_of(a=pa.int64(), b=pa.float32(), c=pa.float64(), d=pa.float64(), e=pa.string())
    table = HandWrittenTable.create(tmp_path / "t", old)
    table.commit("1", {("", "f1-0"): rows_of(old, (1, 7, 8, 9, 0.1, 10))})
    table.commit("2", {("", "f2-0"): rows_of(new, (2, 2**40, 0.5, 0.25, 0.2, "x"))}, schema=new)
    assert read(spark, table, *"abcde") == [
        (1, 7, 8.0, 9.0, 0.1, "10"),
        (2, 2**40, 0.5, 0.25, 0.2, "x"),
    ]
    assert group_count(table) == 2


def test_a_float_becomes_the_decimal_of_its_own_digits(spark: SparkSession, tmp_path: Path) -> None:
    old, new = schema_of(a=pa.float32()), schema_of(a=pa.decimal128(22, 10))
    table = HandWrittenTable.create(tmp_path / "t", old)
    table.commit("1", {("", "f1-0"): rows_of(old, (1, 1.1), (2, 1.0e10), (3, 1.5e-5))})
    table.commit("2", {("", "f2-0"): rows_of(new, (4, Decimal("0.5")))}, schema=new)
    assert read(spark, table, "a") == [
        (1, Decimal("1.1000000000")),
        (2, Decimal("10000000000.0000000000")),
        (3, Decimal("0.0000150000")),
        (4, Decimal("0.5000000000")),
    ]


def test_archived_commits_leave_types_to_the_footers(spark: SparkSession, tmp_path: Path) -> None:
    old, new = schema_of(a=pa.int32()), schema_of(a=pa.float64())
    middle = schema_of(a=pa.float32())
    table = HandWrittenTable.create(tmp_path / "t", old)
    table.commit("1", {("", "f1-0"): rows_of(old, (1, 5)), ("", "f2-0"): rows_of(old, (2, 6))})
    table.commit("2", {("", "f3-0"): rows_of(middle, (3, 0.1))}, schema=middle)
    table.commit("3", {("", "f4-0"): rows_of(new, (4, 0.7))}, schema=new)
    table.archive("1", "2")
    assert [row["a"] for row in read(spark, table, "a")] == [5.0, 6.0, 0.1, 0.7]


def test_a_column_added_later_is_null_in_older_files(spark: SparkSession, tmp_path: Path) -> None:
    old = schema_of(s=pa.struct([("x", pa.int32())]))
    new = schema_of(s=pa.struct([("x", pa.int32()), ("y", pa.string())]), t=pa.string())
    table = HandWrittenTable.create(tmp_path / "t", old)
    table.commit("1", {("", "f1-0"): rows_of(old, (1, {"x": 5}))})
    table.commit("2", {("", "f2-0"): rows_of(new, (2, {"x": 6, "y": "z"}, "u"))}, schema=new)
    assert read(spark, table, "s.x", "s.y", "t") == [(1, 5, None, None), (2, 6, "z", "u")]
    assert snapshot(spark, table.open()).where("t is null").count() == 1


def test_nested_values_are_converted_where_they_are(spark: SparkSession, tmp_path: Path) -> None:
    def nested(number: pa.DataType) -> pa.Schema:
        return schema_of(
            s=pa.struct([("x", number), ("y", pa.string())]),
            l=pa.list_(pa.field("element", number)),
            m=pa.map_(pa.string(), pa.struct([("v", number)])),
        )

    old, new = nested(pa.float32()), nested(pa.float64())
    table = HandWrittenTable.create(tmp_path / "t", old)
    rows = [
        (1, {"x": 0.1, "y": "a"}, [0.1, None], [("k", {"v": 0.3})]),
        (2, None, None, None),
        (3, {"x": None, "y": None}, [], []),
    ]
    table.commit("1", {("", "f1-0"): rows_of(old, *rows)})
    table.commit(
        "2", {("", "f2-0"): rows_of(new, (4, {"x": 0.2, "y": "b"}, [0.2], []))}, schema=new
    )
    found = [row.asDict(recursive=True) for row in read(spark, table, "s", "l", "m")]
    assert found[0] == {
        "id": 1,
        "s": {"x": 0.1, "y": "a"},
        "l": [0.1, None],
        "m": {"k": {"v": 0.3}},
    }
    assert found[1] == {"id": 2, "s": None, "l": None, "m": None}
    assert found[2] == {"id": 3, "s": {"x": None, "y": None}, "l": [], "m": {}}
    assert found[3]["s"] == {"x": 0.2, "y": "b"}


def test_a_partition_column_that_was_widened_is_not_taken_from_the_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    new = pa.schema([("id", pa.int64()), ("p", pa.float64())])
    table = HandWrittenTable.create(tmp_path / "t", old, partition_by=("p",))
    table.commit("1", {("7", "f1-0"): rows_of(old, (1, 7))})
    table.commit("2", {("7.5", "f2-0"): rows_of(new, (2, 7.5))}, schema=new)
    assert [row["p"] for row in read(spark, table, "p")] == [7.0, 7.5]
    assert snapshot(spark, table.open()).where("p = 7").count() == 1


def test_a_table_that_never_changed_is_read_as_one(spark: SparkSession, tmp_path: Path) -> None:
    schema = schema_of(x=pa.float64(), s=pa.string(), m=pa.decimal128(10, 2))
    table = HandWrittenTable.create(tmp_path / "t", schema)
    table.commit("1", {("", "f1-0"): rows_of(schema, (1, 0.1, "a", Decimal("1.50")))})
    [path] = table.commit("2", {("", "f2-0"): rows_of(schema, (2, 0.2, "b", Decimal("2.50")))})
    table.archive("1")
    assert group_count(table) == 1
    # Neither commits nor footers were looked at: the schema of its creation says enough.
    table.path(path).write_bytes(b"no parquet")
    assert group_count(table) == 1
    assert spark.range(1).count() == 1


def test_mislabelled_timestamps_regain_their_unit(spark: SparkSession, tmp_path: Path) -> None:
    """Hudi wrote milliseconds as microseconds, and times without a zone as plain numbers."""
    declared = schema_of(
        ms=UTC_MS, us=UTC_US, local_ms=pa.timestamp("ms"), local_us=pa.timestamp("us")
    )
    labelled = schema_of(ms=UTC_US, us=UTC_US, local_ms=pa.int64(), local_us=pa.int64())
    table = HandWrittenTable.create(tmp_path / "t", declared)
    moment = dt.datetime(2020, 6, 1, 12, 0, 0, 123_000)
    micros = int(moment.replace(tzinfo=dt.UTC).timestamp() * 1_000_000)
    wrong = rows_of(labelled, (1, micros // 1000, micros, micros // 1000, micros))
    right = rows_of(declared, (2, micros // 1000, micros, micros // 1000, micros))
    table.commit("1", {("", "f1-0"): wrong})
    table.commit("2", {("", "f2-0"): right})
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("UTC", "America/Los_Angeles"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            texts = ["unix_micros(ms)", "unix_micros(us)", "cast(local_ms as string)"]
            frame = snapshot(spark, table.open()).orderBy("id")
            found = frame.selectExpr(*texts, "cast(local_us as string)").collect()
            text = "2020-06-01 12:00:00.123"
            assert found == [(micros, micros, text, text)] * 2, zone
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def test_lists_of_two_levels_and_of_three_are_read_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Hudi's Avro writer makes the one, all others the other."""
    schema = schema_of(tags=pa.list_(pa.field("element", pa.string())))
    table = HandWrittenTable.create(tmp_path / "t", schema)
    table.commit("1", {("", "f1-0"): rows_of(schema, (1, ["a", "b"]), (2, None))})
    [path] = table.commit("2", {("", "f2-0"): rows_of(schema, (3, ["c"]))})
    rewrite_with_legacy_lists(spark, table.path(path), tmp_path / "legacy")
    assert "repeated binary field_id=-1 array" in str(pq.ParquetFile(table.path(path)).schema)
    assert [row["tags"] for row in read(spark, table, "tags")] == [["a", "b"], None, ["c"]]


def rewrite_with_legacy_lists(spark: SparkSession, file: Path, folder: Path) -> None:
    """Let Spark rewrite the file with lists as Hive and old Avro had them."""
    frame = spark.read.parquet(str(file))
    schema = T.StructType(frame.schema.fields)
    schema["tags"].dataType = T.ArrayType(T.StringType(), containsNull=False)
    plain = spark.createDataFrame(frame.collect(), schema).coalesce(1)
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    try:
        plain.write.parquet(str(folder))
    finally:
        spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
    [part] = folder.glob("*.parquet")
    part.replace(file)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def test_a_missing_base_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    old, new = schema_of(a=pa.int64()), schema_of(a=pa.float64())
    table = HandWrittenTable.create(tmp_path / "t", old)
    [path] = table.commit("1", {("", "f1-0"): rows_of(old, (1, 5))})
    table.commit("2", {("", "f2-0"): rows_of(new, (2, 0.5))}, schema=new)
    table.archive("1")
    table.path(path).write_bytes(b"half-written")
    with pytest.raises(CorruptTableError, match="not a parquet file") as refused:
        snapshot(spark, table.open())
    assert path in str(refused.value)
