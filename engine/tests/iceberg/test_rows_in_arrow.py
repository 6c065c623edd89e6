"""Rows of an Iceberg table in Arrow, by the words that a Hudi table has as well."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.iceberg_delete_table import DeleteTable

pyiceberg = pytest.importorskip("pyiceberg.catalog.sql")
pyiceberg_types = pytest.importorskip("pyiceberg.types")


@pytest.fixture
def orders(tmp_path: Path) -> IcebergLakeTable:
    """Written by PyIceberg: a column added and one dropped between the files."""
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    catalog = pyiceberg.SqlCatalog("test", **properties)
    catalog.create_namespace("db")
    rows = pa.table({"id": [1, 2, 3], "old": ["x", "y", "z"], "n": [1.5, float("nan"), None]})
    table = catalog.create_table("db.orders", rows.schema)
    table.append(rows)
    with table.update_schema() as change:
        change.delete_column("old")
        change.add_column("city", pyiceberg_types.StringType())
    table.append(pa.table({"id": [4], "n": [4.0], "city": ["Kiel"]}))
    return tideline.open_iceberg(
        "db.orders", catalog="test", catalog_properties={"type": "sql", **properties}
    )


def test_the_words_of_other_libraries_read_it(orders: IcebergLakeTable) -> None:
    wanted = [1, 2, 3, 4]
    assert sorted(pa.table(orders)["id"].to_pylist()) == wanted
    assert pl.DataFrame(orders).columns == ["id", "n", "city"]
    assert sorted(orders.to_pandas(["id"])["id"]) == wanted
    assert sorted(orders.to_polars_lazy().select("id").collect()["id"]) == wanted
    with duckdb.connect() as connection:
        assert orders.to_duckdb(connection).filter("n > 1").count("*").fetchall() == [(3,)]
    assert orders.to_arrow(["city"], "id = 4").to_pylist() == [{"city": "Kiel"}]
    assert orders.count("city is null") == 3
    assert orders.count("n > 1.5") == 2
    assert orders.head(2).num_rows == 2
    first = orders.snapshots[0]
    assert orders.count(as_of=first.snapshot_id) == 3
    with pytest.raises(ConfigError, match="no such snapshot"):
        orders.count(as_of=1)


def test_what_is_deleted_is_not_read() -> None:
    made = DeleteTable.create()
    made.append("a", range(10))
    made.append("b", range(10, 20))
    made.delete({"a": [0, 3], "b": [9]})
    table = tideline.open_iceberg(made.model.location.uri)
    assert sorted(table.to_arrow(["number"])["number"].to_pylist()) == made.rows()
    assert table.count() == 17
    assert table.count("number >= 10") == 9
