"""`tideline write`: csv and json files into Iceberg tables, as one commit, by Spark's tasks."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.errors import InvalidDataError
from tideline.iceberg.write.write_request import IcebergWrite
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.ingest.execute.write_files import SourceWrite, SourceWritten
from tideline.ingest.execute.write_iceberg_files import write_iceberg_sources
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("part", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


class Landed:
    """A table, and files that are written into it."""

    def __init__(self, spark: SparkSession, folder: Path, **settings: Any) -> None:
        self._spark, self._folder = spark, folder
        self.table: IcebergLakeTable = tideline.create_iceberg(
            folder / "table", COLUMNS, key="id", partition_by="part", **settings
        )
        self.landing = folder / "landing"
        self.landing.mkdir()

    def put(self, name: str, text: str) -> None:
        (self.landing / name).write_text(text)

    def write(self, kind: str, operation: str = "append", **how: Any) -> SourceWritten:
        asked = {name: how.pop(name) for name in ("where", "token") if name in how}
        wanted = SourceWrite(StoreLocation.of(str(self.landing)), kind, None, **how)
        write = IcebergWrite.asked(operation, **asked)
        return write_iceberg_sources(self.table.table, write, wanted, lambda: self._spark)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        found = self.table.to_arrow([*columns] or None).sort_by("id").to_pylist()
        return [tuple(row.values()) for row in found]


@pytest.fixture
def landed(spark: SparkSession, tmp_path: Path) -> Landed:
    return Landed(spark, tmp_path)


def test_text_becomes_the_types_of_the_table(landed: Landed) -> None:
    landed.put("1.csv", "ID,part,price,at\n1,a,1.50,2026-11-01T10:00:00Z\n2,b,,\n")
    landed.put("2.csv", "price,id\n7,3\n")
    done = landed.write("csv", token="once")
    assert (done.report.rows_inserted, done.skipped, done.rows) == (3, {}, {})
    at = dt.datetime(2026, 11, 1, 10, tzinfo=dt.UTC)
    assert landed.rows("id", "part", "price", "at") == [
        (1, "a", Decimal("1.50"), at),
        (2, "b", None, None),
        (3, None, Decimal("7.00"), None),
    ]
    assert landed.table.schema.equals(COLUMNS)
    assert landed.write("csv", token="once").report.is_repeat
    assert landed.table.check() == ()


def test_json_and_read_options(landed: Landed) -> None:
    landed.put("1.json", '{"id": 1, "price": 2.5}\n{"id": 2, "part": "b"}\n')
    assert landed.write("json").report.rows_inserted == 2
    (landed.landing / "1.json").unlink()
    landed.put("2.csv", "id;part\n3;c\n")
    landed.write("csv", reading={"sep": ";"})
    assert landed.rows("id", "part") == [(1, None), (2, "b"), (3, "c")]


def test_later_rows_count_in_an_upsert_and_rows_go_by_key(landed: Landed) -> None:
    landed.table.write([{"id": 1, "part": "old"}, {"id": 9, "part": "stays"}])
    lines = "".join(f"{number},{number}\n" for number in range(20, 2000))
    landed.put("1.csv", f"id,part\n1,first\n2,x\n{lines}")
    landed.put("2.csv", "id,part\n1,second\n1,third\n")
    done = landed.write("csv", "upsert").report
    assert (done.rows_updated, done.rows_inserted) == (1, 1 + 1980)
    assert landed.rows("id", "part")[:3] == [(1, "third"), (2, "x"), (9, "stays")]
    (landed.landing / "1.csv").unlink()
    landed.put("2.csv", "id,what\n1,ignored\n77777,\n")
    assert landed.write("csv", "delete").report.rows_deleted == 1
    assert landed.rows("id")[:2] == [(2,), (9,)]
    landed.put("2.csv", "id,part\n5,new\n")
    landed.write("csv", "overwrite", where="id >= 9")
    assert landed.rows("id", "part") == [(2, "x"), (5, "new")]


def test_what_does_not_fit_is_named_and_may_be_left_out(landed: Landed) -> None:
    landed.put("1.csv", "id,part\n1,a\n,lacks its key\n2,b\n")
    landed.put("2.csv", "id,part,price\n3,c,much\n4,d,4\n")
    landed.put("3.csv", "id,colour\n5,red\n")
    with pytest.raises(InvalidDataError, match="csv"):
        landed.write("csv")
    assert landed.table.current_snapshot is None
    with pytest.raises(InvalidDataError, match=r"no such column.*3\.csv"):
        landed.write("csv", bad_rows_max=5)
    done = landed.write("csv", skips_bad_files=True, bad_rows_max=5)
    assert list(done.skipped) == ["3.csv"]
    assert {path: len(rows) for path, rows in done.rows.items()} == {"1.csv": 1, "2.csv": 1}
    assert landed.rows("id", "part") == [(1, "a"), (2, "b"), (4, "d")]
    assert len(list((landed.landing / "_quarantine").iterdir())) == 2
    assert landed.table.check() == ()


def test_bad_parquet_files_may_be_left_out(landed: Landed) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), landed.landing / "1.parquet")
    landed.put("2.parquet", "PAR1 is not all of it")
    pq.write_table(pa.table({"id": ["x"]}), landed.landing / "3.parquet")
    with pytest.raises(InvalidDataError):
        landed.write("parquet")
    done = landed.write("parquet", skips_bad_files=True)
    assert sorted(done.skipped) == ["2.parquet", "3.parquet"]
    assert landed.rows("id") == [(1,), (2,)]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_go_by_delete_files_where_the_table_says_so(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    modes = {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "merge")}
    landed = Landed(spark, tmp_path, format_version=version, properties=modes)
    landed.table.write([{"id": number, "part": "a"} for number in range(20)])
    landed.put("1.csv", "id,part\n3,b\n30,c\n")
    landed.write("csv", "upsert")
    snapshot = landed.table.current_snapshot
    assert snapshot is not None and snapshot.summary["total-delete-files"] == "1"
    assert landed.rows("id") == [(number,) for number in [*range(20), 30]]
    assert landed.table.check() == ()
