"""Columns that have no value yet wait for their type, at any depth and in every format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.ingest.execute.write_files import SourceWrite, write_sources
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOTHING = pa.null()


def written(folder: Path, spark: SparkSession, file_format: str, **options: str) -> LakeTable:
    """Every file of the folder in the order of their names, one commit each."""
    uri = str(folder / "table")
    LakeTable.create(uri, record_key="id")
    for file in sorted((folder / "in").iterdir()):
        wanted = SourceWrite(StoreLocation.of(str(file)), file_format, None, options=options)
        write_sources(LakeTable.open(uri), lambda: spark, wanted)
    return LakeTable.open(uri)


def rows(table: LakeTable) -> list[dict[str, Any]]:
    found = table.to_arrow(columns=list((table.schema or pa.schema([])).names)).to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


def test_empty_lists_and_objects_of_json_wait_for_their_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    lines = [
        '{"id": 1, "l": [], "s": {"a": 1, "l": [], "n": null}, "o": {}, "d": [{"x": []}]}',
        '{"id": 2, "l": [1], "s": {"a": 1, "l": [{"b": 1}], "n": 5}, "o": {"y": 1}, '
        '"d": [{"x": [2]}]}',
        '{"id": 3, "l": [], "s": {"a": 1, "l": [], "n": null}, "o": {}, "d": [{"x": []}]}',
    ]
    for number, line in enumerate(lines):
        (tmp_path / f"in/{number}.json").write_text(line)
    table = written(tmp_path, spark, "json")
    kinds = {item.name: str(item.type) for item in table.schema or ()}
    assert kinds["l"] == "list<element: int64>"
    assert kinds["s"] == "struct<a: int64, l: list<element: struct<b: int64>>, n: int64>"
    assert kinds["d"] == "list<element: struct<x: list<element: int64>>>"
    first, second, third = rows(table)
    assert (first["l"], second["l"], third["l"]) == (None, [1], [])
    assert second["s"] == {"a": 1, "l": [{"b": 1}], "n": 5}
    assert third["s"] == {"a": 1, "l": [], "n": None}
    assert (second["o"], second["d"]) == ({"y": 1}, [{"x": [2]}])
    assert third["d"] == [{"x": []}], "an empty list is no null"


@pytest.mark.parametrize("engine", ["in_process", "spark"])
def test_parquet_columns_of_nulls_wait_for_their_type(
    engine: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    struct = pa.struct([("a", pa.int64()), ("b", NOTHING)])
    nulls = pa.table(
        {
            "id": ["1"],
            "n": pa.nulls(1),
            "l": pa.array([[]], pa.list_(NOTHING)),
            "s": pa.array([{"a": 1, "b": None}], struct),
            "m": pa.array([[]], pa.map_(pa.string(), NOTHING)),
            "d": pa.array([[{"a": 1, "b": None}]], pa.list_(struct)),
            "late": pa.nulls(1),
        }
    )
    values = pa.table(
        {
            "id": ["2"],
            "n": ["x"],
            "l": [[{"c": 1}]],
            "s": [{"a": 2, "b": "t"}],
            "m": pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())),
            "d": [[{"a": 2, "b": [1]}]],
        }
    )
    again = nulls.set_column(0, "id", pa.array(["3"]))
    for number, part in enumerate((nulls, values, again)):
        pq.write_table(part, tmp_path / f"in/{number}.parquet")
    table = written(tmp_path, spark, "parquet", **{"tideline.engine.small": engine})
    first, second, third = rows(table)
    assert "late" not in first
    assert first == {"id": "1", "s": {"a": 1, "b": None}, "d": [{"a": 1, "b": None}],
                     "n": None, "l": None, "m": None}  # fmt: skip
    assert second == {**values.to_pylist()[0]}
    assert third == {**first, "id": "3", "l": [], "m": []}
