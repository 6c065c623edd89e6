"""`snapshot` of an Iceberg table on Spark: the rows that it has without Spark, at any snapshot."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tideline
from tideline.errors import ConfigError
from tideline.spark.iceberg import read

pytestmark = [pytest.mark.spark, pytest.mark.slow]

AT = dt.datetime(2026, 3, 29, 1, 30, 0, 250_000)
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("time", pa.time64("us")),
        ("price", pa.decimal128(9, 2)),
        ("code", pa.binary(3)),
        ("place", pa.struct([("zip", pa.int32()), ("tags", pa.list_(pa.string()))])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)


def rows(*numbers: int) -> pa.Table:
    found = [
        {
            "id": n,
            "day": AT.date(),
            "at": AT.replace(tzinfo=dt.UTC) if n % 2 else None,
            "local": AT,
            "time": AT.time(),
            "price": Decimal(n) / 4,
            "code": b"abc",
            "place": {"zip": n, "tags": ["x", None]} if n % 3 else None,
            "counts": {"a": n},
        }
        for n in numbers
    ]
    return pa.Table.from_pylist(found, COLUMNS)


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_those_that_are_read_without_spark(
    version: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "PACK_BYTES", 1)
    table = tideline.create_iceberg(
        str(tmp_path / "table"),
        COLUMNS,
        key="id",
        partition_by="bucket(2, id)",
        format_version=version,
        properties={"write.delete.mode": "merge-on-read"},
    )
    assert ids(table.snapshot(spark)) == []
    table.write(rows(*range(6)))
    first = table.refresh().current_snapshot
    assert first is not None
    table.write(rows(10, 11))
    table.delete("id in (2, 3)")
    frame = table.snapshot(spark)
    assert frame.rdd.getNumPartitions() > 1
    assert ids(frame) == ids(frame.where("true")) == [0, 1, 4, 5, 10, 11]
    found = frame.where("id = 5").toArrow()
    expected = table.to_arrow(filter="id = 5")
    for name in ("day", "at", "local", "price", "code", "place", "counts"):
        assert found[name].to_pylist() == expected[name].to_pylist(), name
    assert found["time"].to_pylist() == expected["time"].cast(pa.int64()).to_pylist()
    assert ids(table.snapshot(spark, first.snapshot_id)) == [*range(6)]
    # It keeps to the files of then.
    table.write(rows(1), "overwrite")
    assert ids(frame) == [0, 1, 4, 5, 10, 11]


def test_columns_and_rows_are_chosen_before_spark_reads(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = tideline.create_iceberg(
        str(tmp_path / "table"), COLUMNS, partition_by="truncate(10, id)"
    )
    table.write(rows(*range(40)))
    for path in tmp_path.rglob("*id_trunc=30/*.parquet"):
        path.unlink()
    frame = table.snapshot(spark, columns=["price", "id"], filter="id < 12 and day is not null")
    assert frame.columns == ["price", "id"]
    assert ids(frame) == [*range(12)]
    assert ids(frame.where("price > 1")) == [*range(5, 12)]
    with pytest.raises(ConfigError, match="no such column"):
        table.snapshot(spark, columns=["id", "none"])
    with pytest.raises(ConfigError, match="no such column"):
        table.snapshot(spark, filter="none = 1")
