"""A query over an Iceberg table opens what may have its rows: manifests, files, row groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.formats.row_filter import RowFilter
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.read.snapshot_choice import SnapshotChoice
from tideline.iceberg.read.table_rows import snapshot_dataset
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.sql.session import SqlSession

sql_catalog = pytest.importorskip("pyiceberg.catalog.sql")

MONTHS, ROWS_A_MONTH = 6, 40


@dataclass(frozen=True)
class SpyFileIO(FileIO):
    """Remembers the data files and manifests that are opened."""

    opened: list[str] = field(default_factory=list)

    def local_path(self, uri: str) -> str | None:
        self.opened.append(uri)
        return super().local_path(uri)

    def read(self, uri: str) -> bytes:
        self.opened.append(uri)
        return super().read(uri)

    def count(self, folder: str) -> int:
        return sum(f"/{folder}/" in uri and "/snap-" not in uri for uri in self.opened)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> IcebergTable:
    """A commit a month, of four files."""
    folder = tmp_path_factory.mktemp("warehouse")
    properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
    catalog = sql_catalog.SqlCatalog("test", **properties)
    catalog.create_namespace("db")
    made = catalog.create_table("db.orders", rows_of(0).schema)
    with made.update_spec() as spec:
        spec.add_identity("month")
        spec.add_identity("shard")
    for month in range(MONTHS):
        made.append(rows_of(month))
    opened = tideline.open_iceberg(
        "db.orders", catalog="test", catalog_properties={"type": "sql", **properties}
    )
    return opened.table


def rows_of(month: int) -> pa.Table:
    ids = range(month * ROWS_A_MONTH, (month + 1) * ROWS_A_MONTH)
    first = date(2026, month + 1, 1)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "month": pa.array([month] * ROWS_A_MONTH, pa.int32()),
            "shard": ["abcd"[number % 40 // 10] for number in ids],
            "day": [first + timedelta(days=number % 28) for number in ids],
            "city": ["Kiel" if month == 2 else None if number % 2 else "Bonn" for number in ids],
        }
    )


@pytest.mark.parametrize(
    ("query", "found", "files", "manifests"),
    [
        ("select count(*) from orders", 240, 24, 6),
        ("select count(*) from orders where month = 5", 40, 4, 1),
        ("select count(*) from orders where month in (0, 5) and shard = 'b'", 20, 2, 2),
        ("select count(*) from orders where day >= date '2026-06-10'", 26, 4, 6),
        ("select count(*) from orders where id = 100", 1, 1, 6),
        ("select count(*) from orders where id in (100, 101)", 2, 1, 6),
        ("select count(*) from orders where id = 100 or day = date '2026-01-01'", 3, 3, 6),
        ("select count(*) from orders where city = 'Kiel'", 40, 4, 6),
        ("select count(*) from orders where city is null", 100, 20, 6),
        ("select count(*) from orders where id > 1000", 0, 0, 6),
        ("select count(*) from orders where month > 5", 0, 0, 0),
        ("select max(id) from orders where id between 30 and 45 and city <> 'Kiel'", 44, 2, 6),
        ("select id >= 0 from orders limit 1", True, 1, 6),
    ],
)
def test_a_query_opens_what_may_have_its_rows(
    table: IcebergTable, query: str, found: int, files: int, manifests: int
) -> None:
    spy = SpyFileIO(table.io.location, table.io.recorded)
    assert answer(spy, table.metadata, query) == found
    assert (spy.count("data"), spy.count("metadata")) == (files, manifests)


@pytest.mark.parametrize(
    ("where", "found", "files"),
    [(None, 240, 0), ("city like 'Ki%'", 40, 4), ("city like '%'", 140, 24), ("id < 5", 5, 1)],
)
def test_a_count_opens_what_the_metadata_leaves_open(
    table: IcebergTable, where: str | None, found: int, files: int
) -> None:
    spy = SpyFileIO(table.io.location, table.io.recorded)
    rows = snapshot_dataset(spy, SnapshotChoice(table.metadata, table.metadata.snapshot()))
    condition = None if where is None else RowFilter.of(where, rows.schema).expression
    assert rows.count_rows(condition) == found
    assert spy.count("data") == files


def answer(io: FileIO, metadata: TableMetadata, query: str) -> Any:
    with SqlSession() as session:
        session.add("orders", snapshot_dataset(io, SnapshotChoice(metadata, metadata.snapshot())))
        (found,) = session.run(query)
        return found.first_rows(None).rows[0][0]


@pytest.mark.parametrize(("limit", "files"), [(0, 0), (3, 1), (10, 1), (11, 2), (1000, 24)])
def test_a_limit_is_where_reading_ends(table: IcebergTable, limit: int, files: int) -> None:
    spy = SpyFileIO(table.io.location, table.io.recorded)
    rows = snapshot_dataset(spy, SnapshotChoice(table.metadata, table.metadata.snapshot()))
    assert rows.scanner(["id"], limit=limit).to_table().num_rows == min(limit, 240)
    assert spy.count("data") == files
    lake_table = IcebergLakeTable(table)
    for found in (lake_table.to_arrow(limit=limit), lake_table.scan(limit=limit).read_all()):
        assert found.num_rows == min(limit, 240)


def test_row_groups_are_ruled_out_by_their_statistics(tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    catalog = sql_catalog.SqlCatalog("test", **properties)
    catalog.create_namespace("db")
    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    settings = {"write.parquet.row-group-limit": "10"}
    catalog.create_table("db.t", rows.schema, properties=settings).append(rows)
    opened = tideline.open_iceberg(
        "db.t", catalog="test", catalog_properties={"type": "sql", **properties}
    )
    (task,) = plan_files(opened.table.io, opened.metadata, opened.current_snapshot)
    condition = RowFilter.of("id >= 42 and id < 55", opened.schema)
    reader = FileRows(opened.table.io, RowLayout.of(opened.metadata), condition)
    assert [batch["id"][0].as_py() for batch in reader.batches(task)] == [40, 50]
