"""Iceberg's Spark runtime and DuckDB read each commit of ours, and Spark continues after it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import tideline
from tideline.testing.iceberg_peer import IcebergPeer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("place", pa.struct([("zip", pa.int32()), ("names", pa.list_(pa.string()))])),
    ]
)


def rows(start: int, end: int) -> pa.Table:
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    found = [
        {
            "id": n,
            "at": day + dt.timedelta(hours=n),
            "name": f"n{n % 3}",
            "price": Decimal(n),
            "place": {"zip": n, "names": [str(n)]},
        }
        for n in range(start, end)
    ]
    return pa.Table.from_pylist(found, COLUMNS)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_of_ours_is_read_and_written_by_spark(
    iceberg_peer: IcebergPeer, version: int
) -> None:
    name = f"ours_v{version}"
    uri = f"{iceberg_peer.warehouse}/peer/{name}"
    ours = tideline.create_iceberg(
        uri,
        COLUMNS,
        partition_by="days(at), bucket(4, id), truncate(1, name)",
        sort_by="name DESC",
        format_version=version,
    )
    ours.write(rows(0, 20))
    ours.write(rows(20, 30))
    expected = list(range(30))
    assert sorted(iceberg_peer.read(uri)["id"].to_pylist()) == expected
    assert sorted(iceberg_peer.duckdb_read(uri)["id"].to_pylist()) == expected
    assert iceberg_peer.duckdb_read(uri, "name = 'n1' and id < 10").num_rows == 3
    iceberg_peer.run(
        f"insert into lake.peer.{name} select id + 100, at, name, price, place "
        f"from lake.peer.{name} where id < 5",
        f"delete from lake.peer.{name} where id = 3",
    )
    ours.write(rows(40, 42))
    expected = sorted([*range(3), *range(4, 30), *range(100, 105), 40, 41])
    assert sorted(ours.to_arrow(["id"])["id"].to_pylist()) == expected
    assert sorted(iceberg_peer.read(uri)["id"].to_pylist()) == expected
    full = iceberg_peer.read(uri).sort_by("id").slice(0, 3)
    assert full["price"].to_pylist() == rows(0, 3)["price"].to_pylist()
    assert full["place"].to_pylist() == rows(0, 3)["place"].to_pylist()


def test_spark_reads_row_groups_whose_columns_threads_encoded(iceberg_peer: IcebergPeer) -> None:
    uri = f"{iceberg_peer.warehouse}/peer/large"
    numbers = pa.array(range(400_000), pa.int64())
    large = pa.table(
        {
            "id": numbers,
            "name": [f"name {n % 1_000}" for n in range(400_000)],
            "weight": pa.array([n / 7 for n in range(400_000)]),
        }
    )
    ours = tideline.create_iceberg(uri, large.schema, key="id")
    ours.write(large)
    ours.write(large.slice(1_000, 10), "upsert")
    ours.delete("id >= 399000")
    found = iceberg_peer.sql(
        "select count(*) n, sum(id) s, sum(weight) w, count(distinct name) d from lake.peer.large"
    ).to_pylist()
    kept = range(399_000)
    assert found[0]["n"] == len(kept) and found[0]["s"] == sum(kept) and found[0]["d"] == 1_000
    assert found[0]["w"] == pytest.approx(sum(n / 7 for n in kept))
