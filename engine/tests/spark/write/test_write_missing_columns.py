"""Rows that lack columns of the table, or have new ones without a value, on both engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.table.table_config import TableType
from tideline.lake_table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("v", pa.string()),
        pa.field("s", POINT),
        pa.field("l", pa.list_(POINT)),
        pa.field("m", pa.map_(pa.string(), POINT)),
        pa.field("needed", pa.int64(), nullable=False),
    ]
)
NULLS = "hoodie.write.set.null.for.missing.columns"
Write = Callable[..., Any]


class Writer:
    """A table, and an engine that all its rows are written by."""

    def __init__(self, engine: str, table: LakeTable, spark: SparkSession) -> None:
        self.engine, self.table, self.spark = engine, table, spark

    def write(self, rows: Any, operation: str = "upsert", **how: Any) -> Any:
        """Write Arrow rows, a frame or pandas."""
        options = {**how.pop("options", {})}
        if self.engine == "spark":
            options["tideline.engine.small"] = "spark"
            rows = self.spark.createDataFrame(rows) if isinstance(rows, pa.Table) else rows
        return self.table.write(rows, operation, options=options, **how)

    def rows(self, *columns: str) -> list[dict[str, Any]]:
        found = self.table.to_arrow(columns=["id", *columns]).to_pylist()
        return sorted(found, key=lambda row: row["id"])


@pytest.fixture(params=["in_process", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(TableType), ids=str)
def writer(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession
) -> Writer:
    table = LakeTable.create(
        str(tmp_path / "t"), record_key="id", schema=SCHEMA, table_type=request.param
    )
    return Writer(engine, table, spark)


@pytest.mark.slow_with("MERGE_ON_READ-spark")
def test_optional_columns_are_null_and_required_ones_are_named(writer: Writer) -> None:
    some = pa.table({"id": [1, 2], "needed": pa.array([1, 2])}, schema=pa.schema(
        [SCHEMA.field("id"), SCHEMA.field("needed")]))  # fmt: skip
    for lacking in (some.drop_columns(["needed"]), some.drop_columns(["needed"]).to_pandas()):
        rows = writer.spark.createDataFrame(lacking) if writer.engine == "spark" else lacking
        with pytest.raises(InvalidDataError, match=r"lacks required columns .*value=needed"):
            writer.write(rows)
    with pytest.raises(InvalidDataError, match=r"lacks columns .*value=v, s, l, m"):
        writer.write(some, strict=True)
    with pytest.raises(InvalidDataError, match=r"lacks columns .*value=v, s, l, m"):
        writer.write(some, options={NULLS: "false"})
    with pytest.raises(ConfigError, match="contradicts a strict write"):
        writer.write(some, strict=True, options={NULLS: "true"})
    assert writer.rows() == []
    writer.write(some)
    writer.write(some.slice(0, 1).append_column("v", pa.array(["new"])))
    assert writer.rows("v", "s", "l", "m", "needed") == [
        {"id": 1, "v": "new", "s": None, "l": None, "m": None, "needed": 1},
        {"id": 2, "v": None, "s": None, "l": None, "m": None, "needed": 2},
    ]
    writer.write(some.slice(1, 1), "delete")
    assert [row["id"] for row in writer.rows()] == [1]


def test_fields_of_structs_are_taken_by_name_and_null_where_absent(writer: Writer) -> None:
    turned = pa.struct([("y", pa.string()), ("x", pa.int64())])
    less = pa.struct([("y", pa.string())])
    for number, kind in enumerate((turned, less)):
        point = {"y": "b", "x": 7} if kind is turned else {"y": "b"}
        values = {
            "id": [number],
            "s": pa.array([point], kind),
            "l": pa.array([[point, None]], pa.list_(kind)),
            "m": pa.array([[("k", point)]], pa.map_(pa.string(), kind)),
            "needed": [1],
        }
        writer.write(pa.table(values))
    for row, x in zip(writer.rows("s", "l", "m"), (7, None), strict=True):
        read = {"x": x, "y": "b"}
        assert (row["s"], row["l"], row["m"]) == (read, [read, None], [("k", read)])


def test_a_new_column_of_nulls_waits_for_its_type(engine: str, tmp_path: Path, spark: Any) -> None:
    writer = Writer(engine, LakeTable.create(str(tmp_path / "t"), record_key="id"), spark)
    nothing = "SELECT {0}L id, 'a' v, null n, array() l, named_struct('a', {0}L, 'b', null) s"
    for number in (1, 2):
        writer.write(spark.sql(nothing.format(number)))
    schema = writer.table.schema
    assert schema is not None and schema.names == ["id", "v", "s"]
    writer.write(spark.sql("SELECT 3L id, 5L n, array('x') l, named_struct('a', 3L, 'b', 1.5D) s"))
    writer.write(spark.sql(nothing.format(4)))
    assert writer.rows("v", "n", "l", "s") == [
        {"id": 1, "v": "a", "n": None, "l": None, "s": {"a": 1, "b": None}},
        {"id": 2, "v": "a", "n": None, "l": None, "s": {"a": 2, "b": None}},
        {"id": 3, "v": None, "n": 5, "l": ["x"], "s": {"a": 3, "b": 1.5}},
        {"id": 4, "v": "a", "n": None, "l": [], "s": {"a": 4, "b": None}},
    ]


@pytest.mark.parametrize("name", ["id", "part", "ts"])
def test_columns_that_rows_are_found_or_ordered_by_do_not_wait(
    name: str, engine: str, tmp_path: Path, spark: Any
) -> None:
    table = LakeTable.create(
        str(tmp_path / "t"), record_key="id", partition_by="part", ordering="ts"
    )
    columns = {"id": "1L", "part": "'p'", "ts": "1L", name: "null"}
    frame = spark.sql("SELECT " + ", ".join(f"{value} {key}" for key, value in columns.items()))
    with pytest.raises(InvalidDataError, match=f"column {name} has no value in any row"):
        Writer(engine, table, spark).write(frame)
