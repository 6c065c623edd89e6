"""Rows of Spark DataFrames that are found by key in Iceberg tables: in tasks, in one commit.

What becomes of a table is compared with what the same rows in Arrow make of another one.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tideline
from tideline.errors import ConfigError, InvalidDataError
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_lineage import ROW_ID
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.write.changed_files import rows_of_files
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.spark.arrow_frame import frame_of

pytestmark = [pytest.mark.spark]

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("part", pa.string()),
        ("n", pa.float64()),
        ("text", pa.string()),
    ]
)
MERGES = {"write.merge.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
SETTINGS = [
    (version, properties, partition_by)
    for version, properties in ((1, {}), (2, {}), (2, MERGES), (3, {}), (3, MERGES))
    for partition_by in ("", "part, bucket(2, id)")
]
OFTEN = ((2, ""), (3, "part, bucket(2, id)"))
"""The others are for `make slow`."""


def rows(numbers: list[int], text: str, part: str | None = None) -> pa.Table:
    found = [
        {"id": n, "part": part or f"p{n % 3}", "n": n / 2, "text": f"{text}{n}"} for n in numbers
    ]
    return pa.Table.from_pylist(found, COLUMNS)


def frame(spark: SparkSession, given: pa.Table, tasks: int = 3) -> DataFrame:
    """In tasks that have the rows one after another."""
    size = -(-given.num_rows // tasks) if given.num_rows else 1
    parts = [
        frame_of(spark, given.slice(at, size)).coalesce(1) for at in range(0, given.num_rows, size)
    ]
    found = parts[0] if parts else frame_of(spark, given)
    for part in parts[1:]:
        found = found.unionAll(part)
    return found


class Twins:
    """Two tables, one written by Spark's tasks and one in this process."""

    def __init__(self, folder: Path, spark: SparkSession, **definition: Any) -> None:
        self.spark = spark
        self.tasks, self.here = (
            tideline.create_iceberg(str(folder / name), COLUMNS, key="id", **definition)
            for name in ("tasks", "here")
        )

    def both(self, given: pa.Table, operation: str = "upsert", **settings: Any) -> None:
        ours = self.tasks.write(frame(self.spark, given), operation, **settings)
        other = self.here.write(given, operation, **settings)
        counted = ("rows_inserted", "rows_updated", "rows_deleted")
        assert [getattr(ours, name) for name in counted] == [
            getattr(other, name) for name in counted
        ]
        self.compare()

    def same(self, given: pa.Table) -> None:
        for table in (self.tasks, self.here):
            table.append(given)

    def compare(self) -> None:
        assert stored(self.tasks) == stored(self.here)
        assert not self.tasks.check()


def stored(table: IcebergLakeTable) -> list[str]:
    """The rows, NaN equal to itself."""
    return sorted(repr(row) for row in table.refresh().to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("version", "properties", "partition_by"),
    [
        pytest.param(*one, marks=[] if (one[0], one[2]) in OFTEN else pytest.mark.slow)
        for one in SETTINGS
    ],
)
def test_rows_are_replaced_deleted_and_added(
    spark: SparkSession,
    tmp_path: Path,
    version: int,
    properties: dict[str, str],
    partition_by: str,
) -> None:
    twins = Twins(
        tmp_path,
        spark,
        format_version=version,
        properties=properties,
        partition_by=partition_by,
        sort_by="n DESC",
    )
    twins.both(rows([*range(40)], "first"))
    twins.same(rows([*range(40, 60)], "beside"))
    twins.both(rows([5, 41, 59, 70], "changed"))
    twins.both(rows([5, 6, 7], "moved", part="other"))
    twins.both(rows([*range(40, 60), 5, 99], "gone").select(["id"]), "delete")
    twins.both(rows([5, 70, 71], "again"))


@pytest.mark.parametrize("properties", [{}, MERGES])
def test_of_rows_with_one_key_the_later_one_counts(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    twins = Twins(tmp_path, spark, format_version=3, properties=properties)
    twins.same(rows([*range(30)], "before"))
    chance = random.Random(7)
    numbers = [chance.randrange(50) for _ in range(400)]
    given = pa.table(
        [numbers, ["p"] * 400, [float(n) for n in range(400)], [f"t{n}" for n in range(400)]],
        schema=COLUMNS,
    )
    twins.both(given)
    assert sorted(twins.tasks.to_arrow(["id"])["id"].to_pylist()) == sorted({*numbers, *range(30)})


@pytest.mark.parametrize("properties", [{}, MERGES])
def test_a_replaced_row_keeps_its_id(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    table = tideline.create_iceberg(
        str(tmp_path / "table"), COLUMNS, key="id", format_version=3, properties=properties
    )
    table.append(rows([*range(20)], "before"))
    before = ids_of_rows(table)
    table.upsert(frame(spark, rows([3, 4, 19, 20], "after")))
    after = ids_of_rows(table)
    assert {number: after[number] for number in before} == before
    assert after[20] not in before.values()
    assert table.count("text like 'after%'") == 4


def ids_of_rows(table: IcebergLakeTable) -> dict[int, int]:
    metadata = table.refresh().metadata
    layout = RowLayout.of(metadata)
    tasks = plan_files(table.table.io, metadata, metadata.snapshot())
    batches = list(rows_of_files(table.table.io, layout, tasks))
    found = pa.Table.from_batches(batches)
    return dict(zip(found["id"].to_pylist(), found[ROW_ID.name].to_pylist(), strict=True))


def test_rows_of_a_table_with_a_key_are_all_replaced_by_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    twins = Twins(tmp_path, spark, properties=MERGES)
    twins.same(rows([1, 2, 3, 2], "twice"))
    twins.same(rows([2, 3], "thrice"))
    twins.both(rows([2], "once"))
    assert twins.tasks.count("id = 2") == 1


KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [0, -8, 7, 2**31 - 1]),
    (pa.string(), ["", "ab", "ü😀", "a" * 300]),
    (pa.binary(), [b"", b"\xff\xff", b"a", b"\x00"]),
    (pa.bool_(), [True, False]),
    (pa.decimal128(6, 2), [Decimal("0.00"), Decimal("-50.01"), Decimal("1.25")]),
    (pa.date32(), [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 11, 30)]),
    (pa.timestamp("us"), [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)]),
    (pa.timestamp("us", tz="UTC"), [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "values"), KEYS, ids=lambda item: str(item)[:20])
def test_keys_of_each_type_are_found(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, values: list[Any]
) -> None:
    columns = pa.schema([("k", kind), ("st", pa.struct([("m", pa.int64())])), ("n", pa.int64())])

    def given(n: int, some: list[Any]) -> pa.Table:
        cells = [[value for value in some for _ in "ab"], [{"m": m} for _ in some for m in (1, 2)]]
        return pa.table([*cells, [n] * 2 * len(some)], schema=columns)

    table = tideline.create_iceberg(
        str(tmp_path / "table"), columns, partition_by="bucket(3, n)", properties=MERGES
    )
    table.write(given(0, [*values, None]))
    report = table.write(frame(spark, given(1, values)), "upsert", key=("k", "st.m"))
    assert (report.rows_updated, report.rows_inserted) == (2 * len(values), 0)
    assert table.count("n = 1") == 2 * len(values) and table.count() == 2 * len(values) + 2
    gone = given(1, values[:1]).select(["k", "st"])
    assert table.write(frame(spark, gone), "delete", key=("k", "st.m")).rows_deleted == 2
    assert not table.check()


def test_what_does_not_fit_is_refused_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    table = tideline.create_iceberg(str(tmp_path / "table"), columns)
    table.append(pa.table([[1], [1]], schema=columns))
    files = set(tmp_path.rglob("*"))
    given = frame_of(spark, pa.table([[1, 2, None], [1, 2, 3]], schema=columns)).repartition(3)
    with pytest.raises(InvalidDataError, match="a key is null"):
        table.write(given, "upsert", key="id")
    with pytest.raises(InvalidDataError, match="no such column"):
        table.write(given.withColumn("more", F.lit(1)), "upsert", key="id")
    with pytest.raises(InvalidDataError, match="lack a column of the key"):
        table.write(given.drop("id"), "delete", key="id")
    with pytest.raises(ConfigError, match="no identifier fields"):
        table.upsert(given)
    assert set(tmp_path.rglob("*")) == files


def test_a_spec_that_changed_and_a_key_that_places_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    twins = Twins(tmp_path, spark, partition_by="part", properties=MERGES)
    twins.same(rows([*range(12)], "first"))
    for table in (twins.tasks, twins.here):
        table.alter().drop_partition_field("part").add_partition_field("bucket(4, id)").commit()
    twins.same(rows([*range(12, 24)], "second"))
    twins.both(rows([1, 2, 13, 30], "changed"), key=("id", "part"))
    twins.both(rows([1, 13], "elsewhere", part="z"), key=("id", "part"))
    twins.both(rows([1, 2, 13], "", part="z").select(["id", "part"]), "delete", key=("id", "part"))


def test_a_write_without_rows_is_a_commit(spark: SparkSession, tmp_path: Path) -> None:
    twins = Twins(tmp_path, spark)
    for operation in ("upsert", "delete"):
        twins.both(rows([], ""), operation)
    twins.same(rows([1], "one"))
    twins.both(rows([], ""))
