"""PyIceberg reads what we write, we write what PyIceberg made, and both continue by turns."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.iceberg_lake_table import IcebergLakeTable

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import IdentityTransform

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("name", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


def rows(start: int, end: int) -> pa.Table:
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    found = [
        {"id": n, "at": day + dt.timedelta(hours=n), "name": f"n{n % 3}", "tags": [str(n)]}
        for n in range(start, end)
    ]
    return pa.Table.from_pylist(found, COLUMNS)


def lake(folder: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }


def sorted_rows(found: Any) -> list[dict[str, Any]]:
    table = found.scan().to_arrow() if isinstance(found, Table) else found.to_arrow()
    listed: list[dict[str, Any]] = table.select(COLUMNS.names).sort_by("id").to_pylist()
    return listed


def by_turns(ours: IcebergLakeTable, theirs: Table) -> None:
    assert sorted_rows(theirs) == sorted_rows(ours) == rows(0, 20).to_pylist()
    theirs.append(rows(20, 30))
    assert ours.write(rows(30, 40)).rows_inserted == 10
    theirs.refresh()
    assert sorted_rows(theirs) == sorted_rows(ours) == rows(0, 40).to_pylist()
    theirs.delete("id >= 10")
    ours.write(rows(40, 42))
    expected = [*rows(0, 10).to_pylist(), *rows(40, 42).to_pylist()]
    theirs.refresh()
    assert sorted_rows(theirs) == sorted_rows(ours) == expected
    # Partition values and metrics that we wrote prune for PyIceberg.
    few = theirs.scan("id = 41").to_arrow()
    assert few["id"].to_pylist() == [41]
    assert len(list(theirs.scan("id = 41").plan_files())) == 1


def test_a_table_that_we_made(tmp_path: Path) -> None:
    ours = tideline.create_iceberg(
        "db.t",
        COLUMNS,
        partition_by="name",
        sort_by="id DESC",
        catalog="lake",
        catalog_properties=lake(tmp_path),
    )
    ours.write(rows(0, 20))
    by_turns(ours, load_catalog("lake", **lake(tmp_path)).load_table("db.t"))


def test_a_table_that_pyiceberg_made(tmp_path: Path) -> None:
    catalog = load_catalog("lake", **lake(tmp_path))
    catalog.create_namespace("db")
    theirs = catalog.create_table("db.t", COLUMNS)
    with theirs.update_spec() as spec:
        spec.add_field("name", IdentityTransform(), "the_name")
    with theirs.update_sort_order() as order:
        order.asc("id", IdentityTransform(), NullOrder.NULLS_LAST)
    assert theirs.sort_order().fields[0].direction is SortDirection.ASC
    theirs.append(rows(0, 20))
    ours = tideline.open_iceberg("db.t", catalog="lake", catalog_properties=lake(tmp_path))
    by_turns(ours, theirs)


@pytest.mark.parametrize("version", [1, 2])
def test_a_table_without_a_catalog(tmp_path: Path, version: int) -> None:
    ours = tideline.create_iceberg(
        str(tmp_path / "t"), COLUMNS, partition_by="name", format_version=version
    )
    ours.write(rows(0, 20))
    static = StaticTable.from_metadata(ours.table.loaded.metadata_location)
    assert sorted_rows(static) == rows(0, 20).to_pylist()
    assert static.inspect.files()["record_count"].to_pylist() == [7, 7, 6]
