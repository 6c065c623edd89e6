"""`format("tideline")`: the same rows as the native reads, through Spark's data source API."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tideline.hudi.table.stored_value import converted_array
from tideline.spark.read.data_source import register
from tideline.spark.read.frames import snapshot
from tideline.testing.fixtures import fixture_table
from tideline.testing.hand_written_table import HandWrittenTable

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(values: dict[int, str]) -> pa.Table:
    return pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)


def load(spark: SparkSession, table: HandWrittenTable, **options: str) -> DataFrame:
    register(spark)
    return spark.read.format("tideline").options(**options).load(str(table.path("")))


@pytest.fixture
def table(tmp_path: Path) -> HandWrittenTable:
    made = HandWrittenTable.create(tmp_path / "t", SCHEMA)
    made.commit("1", {("", "a-0"): rows({1: "a"}), ("", "b-0"): rows({2: "b"})})
    made.commit("2", {("", "a-0"): rows({1: "A"})})
    return made


@pytest.mark.spark
def test_it_reads_what_the_native_snapshot_reads(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    frame = load(spark, table)
    native = snapshot(spark, table.open())
    assert frame.schema == native.schema
    assert frame.orderBy("id").collect() == native.orderBy("id").collect()
    assert frame.rdd.getNumPartitions() == 2


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"as_of": "20260101000000001"}, {1: "a", 2: "b"}),
        ({"after": "20260101000000001"}, {1: "A"}),
        ({"after": "0", "until": "20260101000000001"}, {1: "a", 2: "b"}),
        ({"after": "20260101000000002"}, {}),
    ],
)
def test_options_choose_the_instant_or_the_range(
    spark: SparkSession, table: HandWrittenTable, options: dict[str, str], ids: dict[int, str]
) -> None:
    assert {row["id"]: row["v"] for row in load(spark, table, **options).collect()} == ids


@pytest.mark.spark
def test_views_are_made_in_sql(spark: SparkSession, table: HandWrittenTable) -> None:
    register(spark)
    path = table.path("")
    for name, option in (
        ("now", ""),
        ("before", ", as_of '20260101000000001'"),
        ("changed", ", changes 'true', after '20260101000000001'"),
    ):
        options = f"OPTIONS (path '{path}'{option})"
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} USING tideline {options}")
    query = "SELECT now.v, before.v FROM now JOIN before USING (id) WHERE now.v <> before.v"
    assert [tuple(row) for row in spark.sql(query).collect()] == [("A", "a")]
    changes = spark.sql("SELECT _change_type, v FROM changed").collect()
    assert sorted(map(tuple, changes)) == [("UPDATE_AFTER", "A"), ("UPDATE_BEFORE", "a")]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"as_of": "1", "after": "0"}, "choose one"),
        ({"until": "20260101000000001"}, "needs `after`"),
        ({"as_of": "tomorrow"}, "not a time"),
        ({"snapshot": "1"}, "unknown option"),
        ({"path_style": "perhaps"}, "true or false"),
    ],
)
def test_wrong_options_are_refused_by_name(
    spark: SparkSession, table: HandWrittenTable, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        load(spark, table, **options)


@pytest.mark.spark
def test_limits_of_streams_are_refused_in_a_read(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    with pytest.raises(Exception, match="are for streams"):
        load(spark, table, maxCommitsPerTrigger="1").collect()


@pytest.mark.spark
def test_writing_is_refused_and_says_how_to_write(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    register(spark)
    frame = spark.createDataFrame([(1, "x")], "id long, v string")
    with pytest.raises(Exception, match="read-only"):
        frame.write.format("tideline").mode("append").save(str(table.path("")))


@pytest.mark.spark
def test_a_folder_without_a_table_is_named(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    with pytest.raises(Exception, match=r"hoodie\.properties"):
        spark.read.format("tideline").load(str(tmp_path))


@pytest.mark.spark
def test_columns_of_every_kind_arrive_as_they_do_natively(
    spark: SparkSession, tmp_path: Path
) -> None:
    stored = pa.schema(
        [
            ("id", pa.int64()),
            ("x", pa.float32()),
            ("ms", pa.timestamp("us", "UTC")),
            ("l", pa.list_(pa.field("element", pa.struct([("f", pa.float32())])))),
            ("m", pa.map_(pa.string(), pa.float32())),
            ("s", pa.struct([("f", pa.float32())])),
            ("d", pa.decimal128(10, 2)),
            ("b", pa.binary()),
        ]
    )
    wide = pa.struct([("f", pa.float64()), ("g", pa.string())])
    declared = pa.schema(
        [
            ("id", pa.int64()),
            ("x", pa.float64()),
            ("ms", pa.timestamp("ms", "UTC")),
            ("l", pa.list_(pa.field("element", wide))),
            ("m", pa.map_(pa.string(), pa.float64())),
            ("s", wide),
            ("d", pa.decimal128(12, 3)),
            ("b", pa.binary()),
            ("n", pa.timestamp("us")),
        ]
    )
    table = HandWrittenTable.create(tmp_path / "t", stored)
    millis = pa.array([1_591_012_800_123, None], pa.int64()).cast(pa.timestamp("us", "UTC"))
    columns: list[Any] = [
        [1, 2],
        [0.1, None],
        millis,
        [[{"f": 0.1}, None, {"f": None}], None],
        [[("k", 0.3), ("z", None)], None],
        [{"f": 0.2}, None],
        [Decimal("1.50"), None],
        [b"\x00\xff", None],
    ]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, item.type)
        for column, item in zip(columns, stored, strict=True)
    ]
    table.commit("1", {("", "a-0"): pa.table(arrays, schema=stored)}, schema=declared)
    table.set_properties({"hoodie.table.create.schema": None})
    frame = load(spark, table).orderBy("id")
    native = snapshot(spark, table.open()).orderBy("id")
    assert frame.schema == native.schema
    assert frame.collect() == native.collect()
    first = frame.collect()[0]
    assert first["l"][0] == (0.1, None)
    assert first["x"] == 0.1
    assert first["ms"].astimezone(dt.UTC).replace(tzinfo=None) == dt.datetime(
        2020, 6, 1, 12, 0, 0, 123_000
    )


DAYS = (dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 3))
CONDITIONS = {
    "n = 2": 3,
    "n <> 2": 3,
    "n <=> 2": 3,
    "n <=> null": 3,
    "not (n <=> 2)": 3,
    "n > 2 and s = 'b'": 3,
    "n in (1, 3, null)": 3,
    "n not in (1, 3)": 3,
    "n is null": 3,
    "n is not null and not b": 3,
    "b": 3,
    "s >= 'é'": 3,
    "s like 'a%'": 3,
    "s like '%b'": 3,
    "s like '%ä%'": 3,
    "s is null": 3,
    "n = 2 or s = 'é'": 3,
    "day = date'2024-01-02'": 1,
    "day <> date'2024-01-02'": 2,
    "day > date'2024-01-01' and n < 100": 2,
    "day in (date'2024-01-01', date'2024-01-03')": 2,
    "cast(n as int) = 2": 3,
    "x = 1.5": 3,
    "x > 1e300": 3,
    "x <=> cast('NaN' as double)": 3,
    "at > timestamp'2024-01-01 00:00:01+00:00'": 3,
    "d = 1.50": 3,
    "st.f = 1": 3,
    "n = 1000000000000": 3,
}
"""Conditions, and how many of the three slices are in partitions that they leave."""


@pytest.fixture
def daily(tmp_path: Path) -> HandWrittenTable:
    """A file a day, with what may be compared, and nulls."""
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("s", pa.string()),
            ("b", pa.bool_()),
            ("x", pa.float64()),
            ("at", pa.timestamp("us", "UTC")),
            ("d", pa.decimal128(10, 2)),
            ("st", pa.struct([("f", pa.int64())])),
            ("day", pa.date32()),
        ]
    )
    table = HandWrittenTable.create(tmp_path / "t", schema, partition_by=("day",))
    files = {}
    for number, day in enumerate(DAYS, start=1):
        columns: list[list[Any]] = [
            [number, number * 10, None],
            ["a" * number, "b" if number == 2 else "é", None],
            [True, False, None],
            [1.5, float("nan"), None],
            [dt.datetime(2024, 1, 1, 0, 0, number, tzinfo=dt.UTC), None, None],
            [Decimal("1.50"), Decimal("0.00"), None],
            [{"f": 1}, {"f": None}, None],
            [day, day, day],
        ]
        arrays = [pa.array(group, item.type) for group, item in zip(columns, schema, strict=True)]
        files[str(day), f"f{number}-0"] = pa.table(arrays, schema=schema)
    table.commit("1", files)
    return table


@pytest.mark.spark
@pytest.mark.parametrize(
    "conditions",
    [
        ["day > date'2024-01-01' and n < 100", "not (n <=> 2)"],
        pytest.param([*CONDITIONS], marks=pytest.mark.slow, id="all"),
    ],
)
def test_filters_select_what_they_select_of_a_native_read(
    spark: SparkSession, daily: HandWrittenTable, conditions: list[str]
) -> None:
    read = snapshot(spark, daily.open())
    # Of rows, not of files: statistics of files that Arrow wrote leave NaN out, which Spark takes
    # for the greatest number.
    native = spark.createDataFrame(read.collect(), read.schema)
    order = ("day", "n", "s")
    for condition in conditions:
        found = load(spark, daily).where(condition)
        expected = native.where(condition)
        assert str(found.orderBy(*order).collect()) == str(expected.orderBy(*order).collect())
        assert found.rdd.getNumPartitions() == CONDITIONS[condition], condition


@pytest.mark.spark
def test_a_filter_selects_rows_before_they_reach_spark(
    spark: SparkSession, daily: HandWrittenTable
) -> None:
    def rows_from_python(frame: DataFrame) -> int:
        frame.collect()
        plan: Any = frame._jdf.queryExecution().executedPlan()
        leaves = plan.collectLeaves()
        counts = [leaves.apply(n).metrics().get("numOutputRows") for n in range(leaves.size())]
        return sum(count.get().value() for count in counts if count.isDefined())

    assert rows_from_python(load(spark, daily).where("n = 20")) == 1
    assert rows_from_python(load(spark, daily).where("x > 0")) == 6, "x is not null"


@pytest.mark.spark
def test_only_columns_of_the_schema_that_is_asked_for_are_read(
    spark: SparkSession, daily: HandWrittenTable
) -> None:
    reader = spark.read.schema("n long, day date").format("tideline")
    frame = reader.load(str(daily.path(""))).where("day = date'2024-01-02'")
    assert frame.columns == ["n", "day"]
    found = {row["n"] for row in frame.collect()}
    assert found == {2, 20, None}
    # A type of one's own: statistics are not asked about it.
    narrow = spark.read.schema("n int").format("tideline").load(str(daily.path("")))
    assert [row["n"] for row in narrow.where("n = 20").collect()] == [20]


@pytest.mark.spark
def test_columns_left_out_of_the_files_come_from_the_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = HandWrittenTable.create(tmp_path / "t", schema)
    table.set_properties(
        {
            "hoodie.table.partition.fields": "day",
            "hoodie.datasource.write.drop.partition.columns": "true",
        }
    )
    for number, path in enumerate(("x", "__HIVE_DEFAULT_PARTITION__"), start=1):
        files = {(path, f"f{number}-0"): pa.table({"id": [number]}, schema=schema)}
        table.commit(str(number), files)
    found = load(spark, table).select("id", "day").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, "x"), (2, None)]


@pytest.mark.spark
@pytest.mark.fixtures
def test_it_reads_a_table_that_hudi_wrote(spark: SparkSession) -> None:
    folder = fixture_table("hudi-rs.cow.v6_nonpartitioned/data/v6_nonpartitioned")
    register(spark)
    frame = spark.read.format("tideline").load(str(folder))
    assert frame.count() == 4


def test_nested_nulls_survive_conversion() -> None:
    narrow = pa.list_(pa.struct([("f", pa.float32())]))
    wide = pa.list_(pa.field("element", pa.struct([("g", pa.string()), ("f", pa.float64())])))
    array = pa.array([[{"f": 0.1}], None, [], [None, {"f": None}]], narrow)
    expected = [
        [{"g": None, "f": 0.1}],
        None,
        [],
        [None, {"g": None, "f": None}],
    ]
    assert converted_array(array, wide).to_pylist() == expected
    assert converted_array(array.slice(1), wide).to_pylist() == expected[1:]
    maps = pa.array([[("k", 0.1)], None, []], pa.map_(pa.string(), pa.float32()))
    found = converted_array(maps, pa.map_(pa.string(), pa.float64()))
    assert found.to_pylist() == [[("k", 0.1)], None, []]
    assert converted_array(maps.slice(1), found.type).to_pylist() == [None, []]
