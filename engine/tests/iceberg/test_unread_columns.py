"""Reads of tables with columns of types that are not read: without these columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import tideline
from tideline.errors import UnsupportedTableError
from tideline.iceberg_lake_table import IcebergLakeTable

MadeTable = Callable[..., IcebergLakeTable]
KINDS = ("variant", "geometry(srid:4326)")
NAMED = r"the column x has a type that is not read"


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    def made(kind: str, *, first: bool = False) -> IcebergLakeTable:
        """With numbers 0 to 7, and a column `x`, which no file has."""
        columns = pa.schema([("number", pa.int64())])
        found = tideline.create_iceberg(str(tmp_path / "table"), columns, format_version=3)
        for start in (0, 4):
            found.write(pa.table([list(range(start, start + 4))], schema=columns))
        newest = max((tmp_path / "table" / "metadata").glob("v*.metadata.json"))
        document = json.loads(newest.read_text())
        column = {"id": 10, "name": "x", "required": False, "type": kind}
        for schema in document["schemas"]:
            schema["fields"].insert(0 if first else 1, column)
        newest.write_text(json.dumps(document | {"last-column-id": 10}))
        return found.refresh()

    return made


@pytest.mark.parametrize("kind", KINDS)
def test_other_columns_are_read(kind: str, table: MadeTable) -> None:
    found = table(kind)
    assert sorted(found.to_arrow(["number"])["number"].to_pylist()) == list(range(8))
    assert sorted(found.to_arrow(["number"], filter="number >= 6")["number"].to_pylist()) == [6, 7]
    assert found.count("number < 3") == 3
    rows = found.to_duckdb().project("number").order("number").fetchall()
    assert rows == [(number,) for number in range(8)]


@pytest.mark.parametrize("first", [True, False])
def test_rows_are_counted(first: bool, table: MadeTable) -> None:
    found = table("variant", first=first)
    assert found.count() == 8
    assert found.to_pyarrow_dataset().count_rows(pc.field("number") > 5) == 2


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"columns": ["x"]},
        {"columns": ["number", "x"]},
        {"columns": ["number"], "filter": "x is null"},
    ],
)
def test_what_needs_the_column_is_refused_by_its_name(
    asked: dict[str, Any], table: MadeTable
) -> None:
    with pytest.raises(UnsupportedTableError, match=f"{NAMED} \\(variant\\)"):
        table("variant").to_arrow(**asked)


@pytest.mark.spark
def test_spark_reads_the_other_columns(spark: SparkSession, table: MadeTable) -> None:
    found = table("variant")
    rows = found.snapshot(spark, columns=["number"], filter="number < 2").toArrow()
    assert sorted(rows["number"].to_pylist()) == [0, 1]
    with pytest.raises(UnsupportedTableError, match=NAMED):
        found.snapshot(spark)
