"""Rows of DataFrames in an Iceberg table without partitions that has a sort order: each file has a
part of the order, as far as the rows that are written allow it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tideline
from tideline.errors import ConfigError, InvalidDataError
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.spark.arrow_frame import frame_of
from tideline.spark.iceberg import routes
from tideline.testing.iceberg_peer import IcebergPeer

pytestmark = [pytest.mark.spark]

COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("at", pa.int64()), ("text", pa.string())]
)
MERGES = {"write.merge.mode": "merge-on-read"}
COUNT = 4000


def rows(numbers: list[int], text: str = "x") -> pa.Table:
    cells = [numbers, [n * 7 % COUNT for n in numbers], [f"{text}{n}" for n in numbers]]
    return pa.table(cells, schema=COLUMNS)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task writes about a thousand rows."""
    monkeypatch.setattr(routes, "WRITTEN_BYTES", 30 * 1024)


def ranges(table: IcebergLakeTable, column: str = "at") -> list[tuple[int, int]]:
    """What the data files have of a column. Each has its rows in order."""
    metadata = table.refresh().metadata
    found = []
    for task in plan_files(table.table.io, metadata, metadata.snapshot()):
        path = task.data_file.file_path.removeprefix("file:").replace("//", "/")
        values = pq.ParquetFile(path).read([column])[column].to_pylist()
        assert values == sorted(values)
        found.append((values[0], values[-1]))
    return sorted(found)


def depth(found: list[tuple[int, int]]) -> int:
    """How many files have one value of the order between theirs, at most."""
    return max(sum(low <= value <= high for low, high in found) for value, _ in found)


def created(folder: Path, **properties: str) -> IcebergLakeTable:
    return tideline.create_iceberg(
        str(folder / "table"), COLUMNS, key="id", sort_by="at", properties=properties
    )


@pytest.mark.usefixtures("small_tasks")
def test_appended_files_share_nothing_of_the_order(spark: SparkSession, tmp_path: Path) -> None:
    table = created(tmp_path)
    table.append(frame_of(spark, rows([*range(COUNT)])).repartition(3))
    assert len(ranges(table)) >= 4 and depth(ranges(table)) == 1
    assert table.to_arrow().sort_by("id").equals(rows([*range(COUNT)]))
    assert not table.check()


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("properties", [{}, MERGES], ids=["files", "deletes"])
def test_an_upsert_leaves_a_table_in_order(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    table = created(tmp_path, **properties)
    table.append(frame_of(spark, rows([*range(COUNT)])).repartition(3))
    before = len(ranges(table))
    numbers = random.Random(5).sample(range(COUNT + 500), 2500)
    table.upsert(frame_of(spark, rows(numbers, "y")).repartition(3))
    found = ranges(table)
    assert depth(found) == (2 if properties else 1), "new files are in order among themselves"
    assert len(found) > before // 2
    model = dict.fromkeys(range(COUNT), "x") | dict.fromkeys(numbers, "y")
    stored = table.to_arrow(["id", "text"]).to_pylist()
    assert {row["id"]: row["text"] for row in stored} == {n: f"{t}{n}" for n, t in model.items()}
    assert len(stored) == len(model) and not table.check()


def test_few_rows_are_one_file(spark: SparkSession, tmp_path: Path) -> None:
    table = created(tmp_path)
    table.append(frame_of(spark, rows([*range(100)])).repartition(3))
    assert len(ranges(table)) == 1
    table.upsert(frame_of(spark, rows([5, 7, 300])).repartition(3))
    assert len(ranges(table)) == 1, "rows that stay and rows that come are in order together"
    table.append(frame_of(spark, rows([])))
    assert table.count() == 101


@pytest.mark.parametrize("name", ["write.distribution-mode", "write.merge.distribution-mode"])
def test_rows_stay_where_they_are_if_asked(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = created(tmp_path)
    table.write(frame_of(spark, rows([*range(90)])).repartition(3), options={name: "none"})
    assert len(ranges(table)) == (3 if "merge" not in name else 1)
    table.write(frame_of(spark, rows([1, 300])), "upsert", options={name: "none"})
    assert len(ranges(table)) >= 2, "rows that stay are not moved"
    with pytest.raises(ConfigError, match="none or hash or range"):
        table.write(rows([1]), options={name: "wide"})


def test_rows_that_do_not_fit_leave_no_file_of_a_sorted_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = created(tmp_path)
    null = pa.table([[1, None, 3], [1, 2, 3], ["a", "b", "c"]], names=COLUMNS.names)
    with pytest.raises(InvalidDataError, match="a required column has nulls"):
        table.append(frame_of(spark, null).repartition(3))
    assert not [*Path(tmp_path).rglob("*.parquet")]


ORDERS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("k DESC NULLS FIRST", pa.float64(), [1.5, None, float("nan"), -2.0]),
    ("truncate(3, k), id", pa.string(), ["käse" * 200, None, "", "z" * 300]),
    ("k, id DESC", pa.binary(), [b"\xff" * 300, None, b"", b"a"]),
]


@pytest.mark.slow
@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize(("order", "kind", "values"), ORDERS, ids=lambda item: str(item)[:12])
def test_orders_of_each_type_are_cut(
    spark: SparkSession, tmp_path: Path, order: str, kind: pa.DataType, values: list[Any]
) -> None:
    columns = pa.schema([("id", pa.int64()), ("k", kind)])
    table = tideline.create_iceberg(str(tmp_path / "t"), columns, sort_by=order)
    cells = [values[n % len(values)] for n in range(2000)]
    given = pa.table([[*range(2000)], cells], schema=columns)
    table.append(frame_of(spark, given).repartition(3))
    report = table.write(frame_of(spark, given.slice(0, 700)), "upsert", key="id")
    assert (report.rows_updated, table.count()) == (700, 2000)
    found = table.to_arrow().sort_by("id").to_pylist()
    assert repr(found) == repr(given.to_pylist())
    assert not table.check()


@pytest.mark.interop
@pytest.mark.parametrize(
    "mode", ["copy-on-write", pytest.param("merge-on-read", marks=pytest.mark.slow)]
)
def test_an_upsert_leaves_as_much_in_order_as_a_merge_of_spark(
    mode: str, iceberg_peer: IcebergPeer, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "WRITTEN_BYTES", 30 * 1024)
    found = {}
    for who in ("spark", "tideline"):
        name = f"ordered.{who}{mode[0]}"
        iceberg_peer.run(
            f"create table lake.{name} (id bigint, at bigint, text string) using iceberg "
            f"tblproperties ('write.merge.mode'='{mode}', 'format-version'='2', "
            "'write.spark.advisory-partition-size-bytes'='20000')",
            f"alter table lake.{name} write ordered by at",
        )
        uri = str(iceberg_peer.warehouse / name.replace(".", "/"))
        table = tideline.open_iceberg(uri)
        for at in range(0, COUNT, 1000):
            table.refresh().append(rows([n * 3 % COUNT for n in range(at, at + 1000)]))
        given = rows(random.Random(3).sample(range(COUNT + 300), 1500), "y")
        if who == "spark":
            rest = f"lake.ordered.given{mode[0]}"
            iceberg_peer.run(
                f"create table {rest} (id bigint, at bigint, text string) using iceberg"
            )
            iceberg_peer.append(str(iceberg_peer.warehouse / rest[5:].replace(".", "/")), given)
            iceberg_peer.run(
                f"merge into lake.{name} t using {rest} g on t.id = g.id "
                "when matched then update set * when not matched then insert *"
            )
        else:
            table.refresh().write(frame_of(spark, given).repartition(3), "upsert", key="id")
        assert iceberg_peer.sql(f"select count(*) n from lake.{name}")["n"].to_pylist() == [
            len({*range(COUNT)} | {*given["id"].to_pylist()})
        ]
        found[who] = iceberg_peer.sql(f"select * from lake.{name} order by id"), ranges(table)
    assert found["spark"][0].equals(found["tideline"][0])
    assert depth(found["tideline"][1]) <= depth(found["spark"][1])
